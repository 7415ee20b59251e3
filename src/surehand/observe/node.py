"""Node: one call in the operation tree, and Total: what the calls of one tool add up to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from math import isfinite
from numbers import Real
from typing import Any, Literal, TypeAlias

from surehand.core.outcome import CallMeta, WaitingFor

NodeStatus: TypeAlias = Literal["running", "pending", "ok", "failed"]
_COST_DECIMALS = 12
"""Costs are shown with so many decimals: sums of floats have noise behind them."""


@dataclass(slots=True)
class Total:
    """What one tool's ended calls add up to; costs count as soon as they are stated."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    """The time of nested calls is in it, and again in those tools' own."""
    characters_in: int = 0
    characters_out: int = 0
    tokens: int = 0
    cost: float = 0.0

    def add(self, node: Node) -> None:
        """Count a call that has ended."""
        self.calls += 1
        self.failures += node.status == "failed"
        self.seconds += node.seconds
        self.characters_in += node.characters_in
        self.characters_out += node.characters_out
        self.tokens += node.tokens

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"cost": round(self.cost, _COST_DECIMALS)}


@dataclass(slots=True, eq=False)
class Node:
    """One call, from its start to its outcome. A call that waits and goes on stays one node."""

    id: str
    tool: str
    started: float
    """Seconds since the epoch."""
    parent: Node | None = field(default=None, repr=False)
    status: NodeStatus = "running"
    code: str | None = None
    """The failure's code."""
    waiting_for: WaitingFor | None = None
    kind: str = ""
    """What does the work; empty for a tool that is not there."""
    namespace: str = ""
    seconds: float = 0.0
    """At work, over all passes; waiting for a person between two of them is left out."""
    queued: float = 0.0
    """Seconds spent waiting for a slot."""
    attempts: int = 0
    cached: bool = False
    characters_in: int = 0
    characters_out: int = 0
    tokens: int = 0
    cost: float = 0.0
    """What the call itself has cost."""
    total_cost: float = 0.0
    """The same with all that was called from it."""
    passes: int = 0
    """How often it went through the pipeline: 2 for a call that waited once."""
    calls: list[Node] = field(default_factory=list, repr=False)
    """The calls made from it, in the order they began."""
    is_retained: bool = field(default=True, repr=False)
    """False once it was dropped from its tree, or never fitted in."""
    repeat_tasks: list[asyncio.Task[Any] | None] = field(default_factory=list, repr=False)
    """Who asks again under the same id, and gets what is stored or nothing."""
    counted_costs: list[Mapping[str, Any]] = field(default_factory=list, repr=False)
    """Where its nested calls stated their costs: when it returns one of their outcomes, it does not pay again."""

    def add_pass(self, meta: CallMeta) -> None:
        """One pass through the pipeline is over."""
        if self.passes == 0:
            self.characters_in = meta.characters_in
        self.passes += 1
        self.kind, self.namespace = meta.kind, meta.namespace
        self.seconds += meta.latency_ms / 1000
        self.queued += meta.queued_ms / 1000
        self.attempts, self.cached = meta.attempts, meta.cached
        self.characters_out, self.tokens = meta.characters_out, meta.tokens

    def add_cost(self, amount: float) -> None:
        """Add to the call's own cost, and to the total of all that it is part of."""
        self.cost += amount
        at: Node | None = self
        while at is not None:
            at.total_cost += amount
            at = at.parent

    def walk(self) -> Iterator[Node]:
        """This call and all that were made from it, callers first."""
        ahead = [self]
        while ahead:
            node = ahead.pop()
            yield node
            ahead += reversed(node.calls)

    def as_dict(self) -> dict[str, Any]:
        """As JSON values, with the nested calls under `calls`."""
        return {
            "id": self.id,
            "tool": self.tool,
            "status": self.status,
            "code": self.code,
            "waiting_for": self.waiting_for,
            "kind": self.kind,
            "namespace": self.namespace,
            "started": self.started,
            "seconds": self.seconds,
            "queued": self.queued,
            "attempts": self.attempts,
            "cached": self.cached,
            "characters_in": self.characters_in,
            "characters_out": self.characters_out,
            "tokens": self.tokens,
            "cost": round(self.cost, _COST_DECIMALS),
            "total_cost": round(self.total_cost, _COST_DECIMALS),
            "passes": self.passes,
            "calls": [node.as_dict() for node in self.calls],
        }


def parse_cost(quantity: object) -> float:
    """A cost as a handler states it: a finite number, not below zero; anything else counts nothing."""
    if isinstance(quantity, bool) or not isinstance(quantity, (Real, Decimal)):
        return 0.0
    value = float(quantity)
    return value if isfinite(value) and value > 0 else 0.0
