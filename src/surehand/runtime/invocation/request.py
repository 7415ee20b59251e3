"""Request: what the maker of a call asked for, beside its name and arguments."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

SiblingIds: TypeAlias = dict[str, list[str]]
"""The ids of calls that are made together, by their keys."""


class CallRequest(NamedTuple):
    """Facts of one call that never change. A plain call has none of them, and shares `PLAIN_REQUEST`."""

    made_by: Literal["program", "person", "store"] = "program"
    """A person makes calls with `dispatch`; the store holds those that waited, and go on after an answer."""
    has_given_id: bool = False
    """Whether the caller supplied the id, so that `recall` can look the call up."""
    model_id: str | None = None
    parent: str | None = None
    nesting_depth: int = 0
    """Number of calls that this one is nested in."""
    priority: int | None = None
    """The call's own priority in its queue; None takes that of its scope or tool."""
    timeout: float | None = None
    """Seconds for the whole call, queueing and retries included, if the caller set a limit."""
    siblings: SiblingIds | None = None
    """The calls that are made together with this one: none of them follows another."""
    has_lost_scope: bool = False
    """Whether the call was made in a scope with tools or values of its own, which this process does not have."""


PLAIN_REQUEST = CallRequest()
