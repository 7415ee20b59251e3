"""Lines: the queues of a runtime by their names, and which of them a tool stands in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from surehand.catalogue.listing import Listing
from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.core.tool import Tool
from surehand.runtime.limits.queues import ActiveQueue, LocalQueue, Queue

if TYPE_CHECKING:
    from surehand.runtime.limits.shared_queue import SharedQueue
    from surehand.runtime.services import RuntimeServices

DEFAULT_QUEUE_NAME = "default"


class QueueTable(dict[str, ActiveQueue]):
    """Those that were defined, and the default one once somebody needs it."""

    def __init__(self, queues: Mapping[str, Queue], services: RuntimeServices) -> None:
        self._services = services
        self.shared_queues = _build_shared_queues(queues, services)
        """Those whose limit holds over all processes on the store."""
        local = {name: LocalQueue(name, queue, services.clock) for name, queue in queues.items() if not queue.shared}
        super().__init__({name: self.shared_queues.get(name) or local[name] for name in queues})

    def queue_for(self, listing: Listing) -> ActiveQueue | None:
        """The queue of a tool: its own, its provider's, or the default where there is one."""
        named = listing.tool.limits.queue or (listing.provider.queue if listing.provider else None)
        if named is not None:
            self.validate_name(named, listing.tool)
            return self[named]
        most = self._services.defaults.max_concurrent
        if most is not None and DEFAULT_QUEUE_NAME not in self:
            self[DEFAULT_QUEUE_NAME] = LocalQueue(DEFAULT_QUEUE_NAME, Queue(concurrent=most), self._services.clock)
        return self.get(DEFAULT_QUEUE_NAME)

    def validate_name(self, name: str, tool: Tool[..., Any]) -> None:
        """A queue that nobody defined would limit nothing."""
        if name not in self:
            near = nearest_names(name, self, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"add queues={{{name!r}: Queue(concurrent=2)}}."
            raise DefinitionError(
                f"{tool.name} names the queue {name!r}, which is not there.", fix=hint, where=tool.where
            )

    def validate_shared_queues(self) -> None:
        """A limit over several processes needs a place where they meet."""
        if self.shared_queues and not self._services.is_durable:
            name = next(iter(self.shared_queues))
            raise DefinitionError(
                f"The queue {name!r} is shared, and the runtime has no store.",
                fix="give it one that the processes share, as in Runtime(..., store='surehand.db').",
            )

    def close(self) -> None:
        """Let go of timers."""
        for line in self.values():
            line.close()


def _build_shared_queues(queues: Mapping[str, Queue], services: RuntimeServices) -> dict[str, SharedQueue]:
    if not any(queue.shared for queue in queues.values()):
        return {}
    from surehand.runtime.limits.shared_queue import SharedQueue  # loaded by those alone who share one

    return {name: SharedQueue(name, queue, services) for name, queue in queues.items() if queue.shared}
