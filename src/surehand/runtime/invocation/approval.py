"""Approval: the decision of a person, or of an approver, whether a call may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surehand.core.errors import FailureCode


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
