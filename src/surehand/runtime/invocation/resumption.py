"""Resumption: what a call that waited continues with, a person's approval or an answer to its last question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surehand.core.errors import FailureCode
from surehand.core.outcome import Done, Failed, WaitingFor


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's decision. `bool(approval)` is whether the call may run."""

    allow: bool = True
    always: bool = False
    """Whether to grant later calls of the same tool by the same user, too."""
    arguments: Mapping[str, Any] | None = None
    """Edited arguments that replace the given ones."""
    reason: str = ""
    by: str | None = None
    code: FailureCode = "rejected"
    """The failure code of a call that was not allowed."""

    def __bool__(self) -> bool:
        return self.allow

    @classmethod
    def from_decision(cls, decision: Any) -> Approval | None:
        """Convert an approver's answer: a bool, a policy decision, an Approval, or None for "not now"."""
        match decision:
            case Approval() | None:
                return decision
            case bool():
                return cls(decision)
            case "allow" | "approve" | "deny" | "reject":
                return cls(decision in ("allow", "approve"))
            case "ask":
                return None
        raise TypeError(f"An approver must return True, False, an Approval or None, got {decision!r}.")


@dataclass(frozen=True, slots=True)
class GivenAnswer:
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
    answer: GivenAnswer | None = None
    note: str = ""
    """Why an approval does not hold, so that a person is asked again; empty if it holds, or if none was given."""


NO_RESUMPTION = Resumption()
