"""Pending call: what a person or program that answers calls is shown of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surehand.core.outcome import Pending, WaitingFor


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A pending call with its open question."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    waiting_for: WaitingFor
    message: str
    request: Any
    expires_at: float | None
    created_at: float = 0.0
    user: str | None = None
    session: str | None = None
    round: int = 1

    def to_outcome(self) -> Pending:
        """The same as an outcome."""
        return Pending(self.waiting_for, self.call_id, self.message, self.request, self.expires_at)
