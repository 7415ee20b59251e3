"""Budget: the calls and tokens of one turn."""

from __future__ import annotations

from dataclasses import dataclass

from surehand.core.outcome import Failed


@dataclass(slots=True)
class Budget:
    """What is left of a turn. Only the event loop's thread touches it, between two awaits: that is its lock."""

    max_tokens: int | None = None
    max_calls: int | None = None
    tokens: int = 0
    calls: int = 0
    exceeded: bool = False
    """Set once an output did not fit: what follows would not fit either."""

    def admit(self) -> Failed | None:
        """Count a call, or say why it may not run."""
        if self.max_calls is not None and self.calls >= self.max_calls:
            return Failed(
                "limit_exceeded", f"per-turn tool limit of {self.max_calls} exceeded. Go on in the next turn."
            )
        if self.exceeded or (self.max_tokens is not None and self.tokens >= self.max_tokens):
            return Failed("over_budget", "context window budget exceeded by an earlier tool. Go on in the next turn.")
        self.calls += 1
        return None

    def reserve(self, text: str) -> bool:
        """Take the tokens of an output, if they are there."""
        wanted = estimate(text)
        if self.max_tokens is not None and self.tokens + wanted > self.max_tokens:
            self.exceeded = True
            return False
        self.tokens += wanted
        return True


def estimate(text: str) -> int:
    """Roughly what a text costs: four characters a token."""
    return -(-len(text) // 4)
