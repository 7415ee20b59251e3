"""Execution: how the run of a call's handler goes, and for whom the call has waited."""

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
    """What the outcome comes from: `retry` does not try again after a full queue, which would be waiting too."""


NO_EXECUTION = Execution()
STARTED_EXECUTION = Execution(may_have_executed=True)


class Waits(NamedTuple):
    """How long a call has waited for its slot and for people, while its caller waited too."""

    queued_seconds: float = 0.0
    person_seconds: float = 0.0
    """Without the wait that goes on."""
    person_wait_started_at: float | None = None
    """Since when the call waits for a person, and its caller with it."""


NO_WAITS = Waits()
