"""`Node`: one call in the tree of calls. `Total`: the sums over all calls of one tool."""

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
"""Costs are rounded to this many decimals, which hides the rounding errors of float sums."""


@dataclass(slots=True)
class Total:
    """The sums over the ended calls of one tool; costs count as soon as they are reported."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    """Includes the time of nested calls, which counts for their own tools too."""
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
        """Return the sums as JSON values."""
        return asdict(self) | {"cost": round(self.cost, _COST_DECIMALS)}


@dataclass(slots=True, eq=False)
class Node:
    """One call, from its start to its outcome. A call that waits and is resumed stays one node."""

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
    """The kind of provider; empty for an unknown tool."""
    namespace: str = ""
    seconds: float = 0.0
    """Time in the pipeline, over all passes; waiting for a person between two passes does not count."""
    queued: float = 0.0
    """Seconds spent waiting for a slot."""
    attempts: int = 0
    cached: bool = False
    characters_in: int = 0
    characters_out: int = 0
    tokens: int = 0
    cost: float = 0.0
    """The cost of the call itself."""
    total_cost: float = 0.0
    """The cost with all calls made from it."""
    passes: int = 0
    """How often the call passed through the pipeline: 2 for a call that waited once."""
    calls: list[Node] = field(default_factory=list, repr=False)
    """The calls made from it, in the order of their start."""
    is_retained: bool = field(default=True, repr=False)
    """False if it was dropped from its tree, or never fitted in."""
    repeat_tasks: list[asyncio.Task[Any] | None] = field(default_factory=list, repr=False)
    """Tasks that repeat the call under the same id, and get the stored outcome."""
    counted_costs: list[Mapping[str, Any]] = field(default_factory=list, repr=False)
    """Metadata with the costs of nested calls: a call that returns one of their outcomes does not count it again."""

    def add_pass(self, meta: CallMeta) -> None:
        """Add the measurements of one pass through the pipeline."""
        if self.passes == 0:
            self.characters_in = meta.characters_in
        self.passes += 1
        self.kind = meta.kind
        self.namespace = meta.namespace
        self.seconds += meta.latency_ms / 1000
        self.queued += meta.queued_ms / 1000
        self.attempts = meta.attempts
        self.cached = meta.cached
        self.characters_out = meta.characters_out
        self.tokens = meta.tokens

    def add_cost(self, amount: float) -> None:
        """Add to the cost of this call, and to the total of this call and its callers."""
        self.cost += amount
        node: Node | None = self
        while node is not None:
            node.total_cost += amount
            node = node.parent

    def walk(self) -> Iterator[Node]:
        """Yield this call and all calls made from it, callers first."""
        remaining = [self]
        while remaining:
            node = remaining.pop()
            yield node
            remaining += reversed(node.calls)

    def as_dict(self) -> dict[str, Any]:
        """Return the call as JSON values, with nested calls under `calls`."""
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
    """Return a cost that a handler reported: a finite positive number; anything else counts as 0."""
    if isinstance(quantity, bool) or not isinstance(quantity, (Real, Decimal)):
        return 0.0
    value = float(quantity)
    return value if isfinite(value) and value > 0 else 0.0
