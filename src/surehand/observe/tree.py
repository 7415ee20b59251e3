"""`Tree`: which calls were made from which, with their status, time and cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from surehand.core.events import CallEnded, CallProgress, CallResumed, CallStarted, Event
from surehand.core.outcome import Done, Failed, Pending
from surehand.observe.ended_call import call_meta, tool_label
from surehand.observe.node import Node, Total, parse_cost
from surehand.observe.printing import print_tree
from surehand.runtime.scope import Scope

if TYPE_CHECKING:
    from rich.console import Console

_MAX_TOOL_NAME_LENGTH = 200
"""An unknown tool may have a name of any length."""


def tree(runtime: Scope, *, roots: int = 1_000, calls: int = 100_000) -> Tree:
    """Collect the calls that start inside `with tree(runtime) as t:`."""
    return Tree(runtime, roots=roots, calls=calls)


def watch(runtime: Scope, *, roots: int = 1_000, calls: int = 100_000) -> Tree:
    """Collect the calls that start from now on, until `close()`."""
    return Tree(runtime, roots=roots, calls=calls).__enter__()


class Tree:
    """The calls of a runtime as a tree: at most `roots` outermost calls and `calls` in all; drops the oldest first."""

    def __init__(self, runtime: Scope, *, roots: int = 1_000, calls: int = 100_000) -> None:
        if roots < 1 or calls < 1:
            raise ValueError(f"`roots` and `calls` must be at least 1, got {roots} and {calls}.")
        self.total: dict[str, Total] = {}
        """Sums per tool, never dropped; unknown tools are counted together."""
        self.dropped = 0
        """How many calls were dropped."""
        self._runtime = runtime
        self._max_roots = roots
        self._max_calls = calls
        self._roots: dict[str, Node] = {}
        self._nodes: dict[str, Node] = {}
        self._unsubscribe: Callable[[], None] | None = None
        self._handlers: dict[type, Callable[[Any], None]] = {
            CallStarted: self._on_started,
            CallProgress: self._on_progress,
            CallResumed: self._on_resumed,
            CallEnded: self._on_ended,
        }

    def __enter__(self) -> Self:
        if self._unsubscribe is None:
            self._unsubscribe = self._runtime.listen(self._on_event)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening; the collected calls remain."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    # Reading

    @property
    def roots(self) -> list[Node]:
        """The outermost calls, oldest first."""
        return list(self._roots.values())

    @property
    def cost(self) -> float:
        """The cost of all calls."""
        return sum(total.cost for total in self.total.values())

    def find(self, call_id: str) -> Node | None:
        """Find a call by its id."""
        return self._nodes.get(call_id)

    def __iter__(self) -> Iterator[Node]:
        """Yield every retained call, callers first."""
        for root in self.roots:
            yield from root.walk()

    def as_dict(self) -> dict[str, Any]:
        """Return the tree as JSON values: `calls`, `total`, `cost` and `dropped`."""
        return {
            "calls": [root.as_dict() for root in self.roots],
            "total": {tool: total.as_dict() for tool, total in sorted(self.total.items())},
            "cost": round(self.cost, 12),
            "dropped": self.dropped,
        }

    def as_json(self, *, indent: int | None = None) -> str:
        """Return the tree as JSON text."""
        return json.dumps(self.as_dict(), ensure_ascii=False, indent=indent)

    def print(self, console: Console | None = None) -> None:
        """Print the tree; needs the extra `cli`."""
        print_tree(self.roots, self.total, console)

    # Events

    def _on_event(self, event: Event) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def _on_started(self, event: CallStarted) -> None:
        node = self._nodes.get(event.call_id)
        if node is not None:
            node.repeat_tasks.append(_current_task())  # a repeated id: its call is in the tree already
            return
        parent = self._nodes.get(event.parent) if event.parent else None
        self._add_node(Node(event.call_id, event.tool[:_MAX_TOOL_NAME_LENGTH], event.at, parent))

    def _on_resumed(self, event: CallResumed) -> None:
        if event.call_id not in self._nodes:
            self._add_node(Node(event.call_id, event.tool, event.at))
        node = self._nodes[event.call_id]
        node.status = "running"
        node.waiting_for = None

    def _on_progress(self, event: CallProgress) -> None:
        cost = parse_cost(event.data.get("cost"))
        if cost:
            self._add_cost(self._nodes.get(event.call_id), event.tool, cost)

    def _on_ended(self, event: CallEnded) -> None:
        node = self._nodes.get(event.call_id)
        if node is None:
            return
        if node.repeat_tasks and (task := _current_task()) in node.repeat_tasks:
            node.repeat_tasks.remove(task)
            return
        meta = call_meta(event)
        node.add_pass(meta)
        match event.outcome:
            case Pending(waiting_for):
                node.status = "pending"
                node.waiting_for = waiting_for
                return
            case Failed(code):
                node.status = "failed"
                node.code = code
            case Done() as done:
                node.status = "ok"
                self._add_outcome_cost(node, done)
        self._total_for(tool_label(event, meta, self._runtime.catalogue)).add(node)
        node.counted_costs.clear()
        if not node.is_retained:
            del self._nodes[node.id]

    def _add_outcome_cost(self, node: Node, done: Done) -> None:
        """Add the cost in an outcome, unless it was counted before, for an earlier (cached) or a nested call."""
        cost = parse_cost(done.metadata.get("cost"))
        if not cost:
            return
        if node.parent is not None:
            node.parent.counted_costs.append(done.metadata)
        if not node.cached and not any(counted is done.metadata for counted in node.counted_costs):
            self._add_cost(node, node.tool, cost)

    def _add_cost(self, node: Node | None, tool: str, cost: float) -> None:
        self._total_for(tool).cost += cost
        if node is not None:
            node.add_cost(cost)

    def _total_for(self, tool: str) -> Total:
        return self.total.setdefault(tool, Total())

    # Nodes

    def _add_node(self, node: Node) -> None:
        self._nodes[node.id] = node
        if node.parent is None:
            self._roots[node.id] = node
        while len(self._roots) > self._max_roots or (len(self._nodes) > self._max_calls and len(self._roots) > 1):
            self._drop_root(next(iter(self._roots)))
        if node.parent is None:
            return
        if node.parent.is_retained and len(self._nodes) <= self._max_calls:
            node.parent.calls.append(node)
        else:
            node.is_retained = False
            self.dropped += 1

    def _drop_root(self, call_id: str) -> None:
        """Drop an outermost call and all calls below it; running ones are followed to their end, for the totals."""
        for node in self._roots.pop(call_id).walk():
            node.is_retained = False
            self.dropped += 1
            if node.status != "running":
                self._nodes.pop(node.id, None)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
