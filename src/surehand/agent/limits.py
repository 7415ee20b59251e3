"""Limits of a run, what it has spent of them, and the texts that tell a model about them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any

from surehand.agent.models.base import Usage

log = logging.getLogger("surehand")
DEFAULT_MAX_STEPS = 20
_SPENT_NUMBERS = ("requests", "tokens_in", "tokens_out", "cost", "calls", "seconds")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use, over all processes that drive it; time in which it waits does not count.

    What the agents use that it calls counts for `tokens` and `cost`; they have limits of their own beside.
    """

    steps: int = DEFAULT_MAX_STEPS
    """Requests to the model. At a limit, one more request lets the model wrap up."""
    tokens: int | None = None
    """Tokens in and out together."""
    cost: float | None = None
    """US dollars; needs a model with a price, or that reports what it costs. A warning says so if it does neither."""
    seconds: float | None = None

    def __post_init__(self) -> None:
        if type(self.steps) is not int or self.steps < 1:
            raise ValueError(f"`steps` must be a positive integer, got {self.steps!r}.")
        for name in ("tokens", "cost", "seconds"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ValueError(f"`{name}` must be a number above zero, got {value!r}.")


class CostLimitCheck:
    """Warns once if the limit on the cost of an agent cannot hold, because its model does not say what answers cost."""

    def __init__(self, agent: str, model: str, limit: float | None) -> None:
        self._agent = agent
        self._model = model
        self._limit = limit
        self._has_warned = False

    def check(self, usage: Usage) -> None:
        """Look at the usage of an answer."""
        if self._limit is None or usage.cost is not None or self._has_warned:
            return
        self._has_warned = True
        log.warning(
            "The limit of $%g of the agent %s does not hold: %s does not say what an answer costs. Give the model a "
            "price, or the agent a limit of tokens.",
            self._limit,
            self._agent,
            self._model,
        )


@dataclass(slots=True)
class Spent:
    """What a run has used so far. It grows with the run."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    calls: int = 0
    seconds: float = 0.0
    sub_runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the runs have used that calls of this run started, by their ids."""

    @property
    def total(self) -> Spent:
        """What the run has used together with the runs of the agents that it called."""
        if not self.sub_runs:
            return self
        total = replace(self, sub_runs={})
        for stored in self.sub_runs.values():
            used = Spent.from_json(stored).total
            total.requests += used.requests
            total.tokens_in += used.tokens_in
            total.tokens_out += used.tokens_out
            total.calls += used.calls
            if used.cost is not None:
                total.cost = (total.cost or 0.0) + used.cost
        return total

    @classmethod
    def from_json(cls, stored: dict[str, Any] | None) -> Spent:
        """Read what a stored run has used."""
        return cls(**(stored or {}))

    def to_json(self) -> dict[str, Any]:
        """Write it for the store."""
        stored: dict[str, Any] = {name: getattr(self, name) for name in _SPENT_NUMBERS}
        return stored | {"sub_runs": self.sub_runs} if self.sub_runs else stored

    def add_answer(self, usage: Usage, calls: int) -> None:
        """Add what an answer of a model cost, and the calls that it asked for."""
        self.tokens_in += usage.tokens_in
        self.tokens_out += usage.tokens_out
        self.calls += calls
        if usage.cost is not None:
            self.cost = (self.cost or 0.0) + usage.cost


def find_reached_limit(limits: Limits, spent: Spent) -> str | None:
    """The sentence about the limit that is used up; None if all have something left."""
    if spent.requests >= limits.steps:
        return f"The limit of {limits.steps} steps is reached."
    total = spent.total
    if limits.tokens is not None and total.tokens_in + total.tokens_out >= limits.tokens:
        return f"The limit of {limits.tokens} tokens is reached."
    if limits.cost is not None and (total.cost or 0.0) >= limits.cost:
        return f"The limit of ${limits.cost:g} is reached."
    if limits.seconds is not None and spent.seconds >= limits.seconds:
        return f"The limit of {limits.seconds:g} seconds is reached."
    return None


def describe_what_is_left(limits: Limits, spent: Spent) -> str:
    """What is left of each limit, for the model."""
    total = spent.total
    parts = [f"{max(limits.steps - spent.requests, 0)} of {limits.steps} steps"]
    if limits.tokens is not None:
        parts.append(f"{max(limits.tokens - total.tokens_in - total.tokens_out, 0)} of {limits.tokens} tokens")
    if limits.cost is not None:
        parts.append(f"${max(limits.cost - (total.cost or 0.0), 0.0):.4f} of ${limits.cost:g}")
    if limits.seconds is not None:
        parts.append(f"{max(limits.seconds - spent.seconds, 0.0):.0f} of {limits.seconds:g} seconds")
    return f"Left: {', '.join(parts)}."
