"""Meta: what is known about how a call went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from surehand.core.outcome import Outcome


@dataclass(frozen=True, slots=True)
class CallMeta:
    """What is known about how a call went."""

    call_id: str = ""
    tool: str = ""
    kind: str = ""
    namespace: str = ""
    started_at: float = 0.0
    """Seconds since the epoch."""
    latency_ms: float = 0.0
    queued_ms: float = 0.0
    attempts: int = 0
    cached: bool = False
    characters_in: int = 0
    characters_out: int = 0
    tokens: int = 0
    """An estimate of what the text costs a model: four characters each."""


class OutcomeOrigin(Protocol):
    """Whatever took an outcome's measure: the call that it came from."""

    def measure(self, outcome: Outcome) -> CallMeta: ...
