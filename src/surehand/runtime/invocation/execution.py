"""Execution: how the run of a call's handler goes."""

from __future__ import annotations

from typing import Literal, NamedTuple

from surehand.core.outcome import Outcome


class Execution(NamedTuple):
    """The run of one call's handler. It does not change: a new one takes its place."""

    attempt: int = 1
    may_have_executed: bool = False
    """Whether the handler may have run; becomes `Failed.executed`."""
    is_cancelled: bool = False
    """Whether this attempt was cancelled or timed out."""
    outcome: Outcome | None = None
    """The outcome of the single run of a call that is not repeatable."""
    ended_by: Literal["handler", "cache", "full queue", "store failure"] = "handler"
    """What the outcome comes from. `retry` does not retry a full queue: a back-off would be a second queue."""


NO_EXECUTION = Execution()
STARTED_EXECUTION = Execution(may_have_executed=True)
