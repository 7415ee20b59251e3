"""Tree: which calls were made from which, how they went and what they cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from surehand.core.events import CallEnded, CallProgress, CallResumed, CallStarted, Event
from surehand.core.outcome import Done, Failed, Pending
from surehand.observe.measure import label, measured
from surehand.observe.node import Node, Total, amount
from surehand.observe.printing import printed
from surehand.runtime.scope import Scope

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST_NAME = 200
"""A tool that is not there may be called by any name."""


def tree(runtime: Scope, *, roots: int = 1_000, calls: int = 100_000) -> Tree:
    """The tree of the calls that begin inside `with tree(runtime) as t:`."""
    return Tree(runtime, roots=roots, calls=calls)


def watch(runtime: Scope, *, roots: int = 1_000, calls: int = 100_000) -> Tree:
    """The tree of the calls that begin from now on, until `close()`."""
    return Tree(runtime, roots=roots, calls=calls).__enter__()


class Tree:
    """The operation tree of a runtime: at most so many outermost calls, and so many in all; the oldest go first."""

    def __init__(self, runtime: Scope, *, roots: int = 1_000, calls: int = 100_000) -> None:
        if roots < 1 or calls < 1:
            raise ValueError("A tree keeps one call at least.")
        self.total: dict[str, Total] = {}
        """Per tool, and never dropped; tools that are not there are counted together."""
        self.dropped = 0
        """Calls that are no longer kept."""
        self._runtime, self._most_roots, self._most_calls = runtime, roots, calls
        self._roots: dict[str, Node] = {}
        self._known: dict[str, Node] = {}
        self._unsubscribe: Callable[[], None] | None = None
        self._hearing: dict[type, Callable[[Any], None]] = {
            CallStarted: self._started,
            CallProgress: self._progress,
            CallResumed: self._resumed,
            CallEnded: self._ended,
        }

    def __enter__(self) -> Self:
        if self._unsubscribe is None:
            self._unsubscribe = self._runtime.listen(self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Listen no longer; what was heard stays."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    # Looking

    @property
    def roots(self) -> list[Node]:
        """The outermost calls, oldest first."""
        return list(self._roots.values())

    @property
    def cost(self) -> float:
        """What everything has cost."""
        return sum(total.cost for total in self.total.values())

    def find(self, call_id: str) -> Node | None:
        """The call with that id."""
        return self._known.get(call_id)

    def __iter__(self) -> Iterator[Node]:
        """Every call that is kept, callers first."""
        for root in self.roots:
            yield from root.walk()

    def as_dict(self) -> dict[str, Any]:
        """As JSON values: `calls`, `total`, `cost` and `dropped`."""
        return {
            "calls": [root.as_dict() for root in self.roots],
            "total": {tool: total.as_dict() for tool, total in sorted(self.total.items())},
            "cost": round(self.cost, 12),
            "dropped": self.dropped,
        }

    def as_json(self, *, indent: int | None = None) -> str:
        """The same as text."""
        return json.dumps(self.as_dict(), ensure_ascii=False, indent=indent)

    def print(self, console: Console | None = None) -> None:
        """Show it to a person; needs the extra `cli`."""
        printed(self.roots, self.total, console)

    # Hearing

    def _hear(self, event: Event) -> None:
        if (hears := self._hearing.get(type(event))) is not None:
            hears(event)

    def _started(self, event: CallStarted) -> None:
        if (known := self._known.get(event.call_id)) is not None:
            known.repeats.append(_task())  # the id was given before: that call is in the tree already
            return
        parent = self._known.get(event.parent) if event.parent else None
        self._add(Node(event.call_id, event.tool[:_LONGEST_NAME], event.at, parent))

    def _resumed(self, event: CallResumed) -> None:
        if event.call_id not in self._known:
            self._add(Node(event.call_id, event.tool, event.at))
        node = self._known[event.call_id]
        node.status, node.waiting_for = "running", None

    def _progress(self, event: CallProgress) -> None:
        if spent := amount(event.data.get("cost")):
            self._spend(self._known.get(event.call_id), event.tool, spent)

    def _ended(self, event: CallEnded) -> None:
        if (node := self._known.get(event.call_id)) is None:
            return
        if node.repeats and (task := _task()) in node.repeats:
            node.repeats.remove(task)
            return
        meta = measured(event)
        node.measure(meta)
        match event.outcome:
            case Pending(waiting_for):
                node.status, node.waiting_for = "pending", waiting_for
                return
            case Failed(code):
                node.status, node.code = "failed", code
            case Done() as done:
                node.status = "ok"
                self._pay(node, done)
        self._of(label(event, meta, self._runtime.catalogue)).add(node)
        node.paid.clear()
        if not node.kept:
            del self._known[node.id]

    def _pay(self, node: Node, done: Done) -> None:
        """What the outcome says it cost, unless that was paid already: by an earlier call, or by a nested one."""
        if not (spent := amount(done.metadata.get("cost"))):
            return
        if node.parent is not None:
            node.parent.paid.append(done.metadata)
        if not node.cached and not any(paid is done.metadata for paid in node.paid):
            self._spend(node, node.tool, spent)

    def _spend(self, node: Node | None, tool: str, spent: float) -> None:
        self._of(tool).cost += spent
        if node is not None:
            node.spend(spent)

    def _of(self, tool: str) -> Total:
        return self.total.setdefault(tool, Total())

    # Keeping

    def _add(self, node: Node) -> None:
        self._known[node.id] = node
        if node.parent is None:
            self._roots[node.id] = node
        while len(self._roots) > self._most_roots or (len(self._known) > self._most_calls and len(self._roots) > 1):
            self._drop(next(iter(self._roots)))
        if node.parent is None:
            return
        if node.parent.kept and len(self._known) <= self._most_calls:
            node.parent.calls.append(node)
        else:
            node.kept = False
            self.dropped += 1

    def _drop(self, call_id: str) -> None:
        """Let go of an outermost call and all below; what still runs is followed to its end, for the totals."""
        for node in self._roots.pop(call_id).walk():
            node.kept = False
            self.dropped += 1
            if node.status != "running":
                self._known.pop(node.id, None)


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
