"""Budget: how many calls and tokens one turn may use."""

from __future__ import annotations

from dataclasses import dataclass

from surehand.core.call import Principal
from surehand.core.outcome import Failed


@dataclass(slots=True)
class Budget:
    """The budget of a turn. Only the event loop's thread uses it, without an await in between: it needs no lock."""

    max_tokens: int | None = None
    max_calls: int | None = None
    tokens_used: int = 0
    calls_used: int = 0
    is_exceeded: bool = False
    """Set once an output did not fit; later calls are refused."""
    is_default: bool = False
    """Whether the runtime's defaults set the limit, and not a scope."""

    def admit(self) -> Failed | None:
        """Count a call; returns the failure if the budget is used up."""
        if self.max_calls is not None and self.calls_used >= self.max_calls:
            return Failed(
                "limit_exceeded", f"per-turn tool limit of {self.max_calls} exceeded. Go on in the next turn."
            )
        if self.is_exceeded or (self.max_tokens is not None and self.tokens_used >= self.max_tokens):
            return Failed("over_budget", "context window budget exceeded by an earlier tool. Go on in the next turn.")
        self.calls_used += 1
        return None

    def reserve_tokens(self, text: str) -> bool:
        """Reserve the tokens of an output; False if they exceed the budget."""
        tokens = estimate_tokens(text)
        if self.max_tokens is not None and self.tokens_used + tokens > self.max_tokens:
            self.is_exceeded = True
            return False
        self.tokens_used += tokens
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
    """Estimate the tokens of a text: four characters per token, rounded up."""
    return -(-len(text) // 4)
