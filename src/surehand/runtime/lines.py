"""Lines: the queues of a runtime by their names, and which of them a tool stands in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from surehand.catalogue.listing import Listing
from surehand.core.errors import DefinitionError
from surehand.core.names import nearest
from surehand.core.tool import Tool
from surehand.runtime.queues import AnyLine, Line, Queue

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts
    from surehand.runtime.shared_line import SharedLine

DEFAULT_QUEUE = "default"


class Lines(dict[str, AnyLine]):
    """Those that were defined, and the default one once somebody needs it."""

    def __init__(self, queues: Mapping[str, Queue], parts: Parts) -> None:
        self._parts = parts
        self.shared = _shared(queues, parts)
        """Those whose limit holds over all processes on the store."""
        local = {name: Line(name, queue, parts.clock) for name, queue in queues.items() if not queue.shared}
        super().__init__({name: self.shared.get(name) or local[name] for name in queues})

    def of(self, listing: Listing) -> AnyLine | None:
        """The queue of a tool: its own, its provider's, or the default where there is one."""
        named = listing.tool.limits.queue or (listing.provider.queue if listing.provider else None)
        if named is not None:
            self.check(named, listing.tool)
            return self[named]
        most = self._parts.defaults.max_concurrent
        if most is not None and DEFAULT_QUEUE not in self:
            self[DEFAULT_QUEUE] = Line(DEFAULT_QUEUE, Queue(concurrent=most), self._parts.clock)
        return self.get(DEFAULT_QUEUE)

    def check(self, name: str, tool: Tool[..., Any]) -> None:
        """A queue that nobody defined would limit nothing."""
        if name not in self:
            near = nearest(name, self, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"add queues={{{name!r}: Queue(concurrent=2)}}."
            raise DefinitionError(
                f"{tool.name} names the queue {name!r}, which is not there.", fix=hint, where=tool.where
            )

    def check_shared(self) -> None:
        """A limit over several processes needs a place where they meet."""
        if self.shared and not self._parts.durable:
            name = next(iter(self.shared))
            raise DefinitionError(
                f"The queue {name!r} is shared, and the runtime has no store.",
                fix="give it one that the processes share, as in Runtime(..., store='surehand.db').",
            )

    def close(self) -> None:
        """Let go of timers."""
        for line in self.values():
            line.close()


def _shared(queues: Mapping[str, Queue], parts: Parts) -> dict[str, SharedLine]:
    if not any(queue.shared for queue in queues.values()):
        return {}
    from surehand.runtime.shared_line import SharedLine  # loaded by those alone who share one

    return {name: SharedLine(name, queue, parts) for name, queue in queues.items() if queue.shared}
