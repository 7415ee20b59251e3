"""Approval: a person's yes or no to one call, and the standing yes that may come with it."""

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
    """Also for later calls of the same tool by the same user."""
    arguments: Mapping[str, Any] | None = None
    """Edited arguments, to run with in place of the given ones."""
    reason: str = ""
    by: str | None = None
    code: FailureCode = "rejected"
    """How a call that may not run ends."""

    def __bool__(self) -> bool:
        return self.allow

    @classmethod
    def from_decision(cls, decision: Any) -> Approval | None:
        """What an approver may answer: yes, no, an Approval, or None for "not now"."""
        match decision:
            case Approval() | None:
                return decision
            case bool():
                return cls(decision)
            case "allow" | "approve" | "deny" | "reject":
                return cls(decision in ("allow", "approve"))
            case "ask":
                return None
        raise TypeError(f"An approver answers True, False, an Approval or None, not {decision!r}.")
