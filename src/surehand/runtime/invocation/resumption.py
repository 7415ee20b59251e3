"""Resumption: what a call that waited continues with, a person's approval or an answer to its last question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surehand.core.outcome import Done, Failed, WaitingFor
from surehand.runtime.invocation.approval import Approval


@dataclass(frozen=True, slots=True)
class ReceivedAnswer:
    """The answer to the last question of a call; it replaces running the handler."""

    value: Done | Failed
    waited_for: WaitingFor
    provider_state: Any = None
    """A provider's private state, returned to it together with the answer."""
    is_following: bool = False
    """Whether the call ends with the outcome of an equal call, and never ran itself."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """The approval of a call, or the answer to its last question. Only the runtime makes one: no caller can."""

    round: int = 0
    """Number of the last question that the call asked; 0 if it never waited."""
    approval: Approval | None = None
    """A person's decision; that of the runtime's approver only if it rejected the call."""
    answer: ReceivedAnswer | None = None
    note: str = ""
    """Why an approval does not hold, so that a person is asked again; empty if it holds, or if none was given."""


NO_RESUMPTION = Resumption()
