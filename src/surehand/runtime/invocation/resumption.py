"""Resumption: what a call that waited continues with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surehand.core.outcome import Done, Failed, Outcome, WaitingFor
from surehand.runtime.invocation.approval import Approval

if TYPE_CHECKING:
    from surehand.store.tables.pending import RoundAnswer


@dataclass(frozen=True, slots=True)
class Resumption:
    """The approval of a call, or the answer to its last question. Only the runtime makes one: no caller can."""

    round: int = 0
    """Number of the last question that the call asked; 0 if it never waited."""
    approval: Approval | None = None
    answer: Done | Failed | None = None
    """The answer to the pending call; it replaces running the handler."""
    waited_for: WaitingFor | None = None
    note: str = ""
    """Why an approval does not hold, so that a person is asked again; empty if it holds, or if none was given."""
    provider_state: Any = None
    """A provider's private state, returned to it together with the answer."""
    round_answer: RoundAnswer | None = None
    """The answer that ends the call; committed in one transaction with the outcome."""
    is_following: bool = False
    """Whether the call ends with the outcome of an equal call, and never ran itself."""
    has_lost_scope: bool = False
    """Whether the call was made in a scope with tools or values of its own, which this process does not have."""
    on_settled: Callable[..., None] | None = None
    """Called with the invocation, once the answer that ends the call is committed."""
    on_end: Callable[[Outcome], object] | None = None
    """Called with the outcome, for the task that answered a waiting caller."""


NO_RESUMPTION = Resumption()
