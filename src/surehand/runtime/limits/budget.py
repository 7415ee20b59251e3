"""Budget: the calls and tokens of one turn."""

from __future__ import annotations

from dataclasses import dataclass

from surehand.core.call import Principal
from surehand.core.outcome import Failed


@dataclass(slots=True)
class Budget:
    """What is left of a turn. Only the event loop's thread touches it, between two awaits: that is its lock."""

    max_tokens: int | None = None
    max_calls: int | None = None
    tokens_used: int = 0
    calls_used: int = 0
    is_exceeded: bool = False
    """Set once an output did not fit: what follows would not fit either."""
    is_default: bool = False
    """Whether the runtime's defaults set the limit, and not a scope."""

    def admit(self) -> Failed | None:
        """Count a call, or say why it may not run."""
        if self.max_calls is not None and self.calls_used >= self.max_calls:
            return Failed(
                "limit_exceeded", f"per-turn tool limit of {self.max_calls} exceeded. Go on in the next turn."
            )
        if self.is_exceeded or (self.max_tokens is not None and self.tokens_used >= self.max_tokens):
            return Failed("over_budget", "context window budget exceeded by an earlier tool. Go on in the next turn.")
        self.calls_used += 1
        return None

    def reserve_tokens(self, text: str) -> bool:
        """Take the tokens of an output, if they are there."""
        wanted = estimate_tokens(text)
        if self.max_tokens is not None and self.tokens_used + wanted > self.max_tokens:
            self.is_exceeded = True
            return False
        self.tokens_used += wanted
        return True


MAX_TURNS = 10_000
"""Turns whose calls are counted; the one that is longest unused makes room."""


class TurnBudgets:
    """The budgets of turns that a default limits: one for all scopes of a user's session and turn."""

    def __init__(self, max_calls: int | None) -> None:
        self._max_calls = max_calls
        self._budgets: dict[tuple[str | None, str | None, str], Budget] = {}

    def get(self, principal: Principal) -> Budget | None:
        """The budget of a turn; None without a turn, or without a default limit."""
        if self._max_calls is None or principal.turn is None:
            return None
        key = (principal.user, principal.session, principal.turn)
        budget = self._budgets.pop(key, None) or Budget(max_calls=self._max_calls, is_default=True)
        self._budgets[key] = budget
        while len(self._budgets) > MAX_TURNS:
            del self._budgets[next(iter(self._budgets))]
        return budget


def estimate_tokens(text: str) -> int:
    """Roughly what a text costs: four characters a token."""
    return -(-len(text) // 4)
