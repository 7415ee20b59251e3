"""Queue table: the queues of a runtime by name, and which of them a tool uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from surehand.catalogue.listing import Listing
from surehand.core.argument_errors import short_repr
from surehand.core.clock import Clock
from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.core.tool import Tool
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.limits.queues import ActiveQueue, LocalQueue, Queue
from surehand.runtime.runtime_store import RuntimeStore

if TYPE_CHECKING:
    from surehand.runtime.limits.shared_queue import SharedQueue

DEFAULT_QUEUE_NAME = "default"
"""Queue of the tools that name none, if `max_concurrent` is set."""


class QueueTable(dict[str, ActiveQueue]):
    """The configured queues, and the default one once a tool needs it."""

    def __init__(
        self,
        queues: Mapping[str, Queue],
        *,
        max_concurrent: int | None,
        clock: Clock,
        store: RuntimeStore,
        background_tasks: BackgroundTasks,
    ) -> None:
        self._max_concurrent = max_concurrent
        self._clock = clock
        self._is_durable = store.is_durable
        _check_queues(queues)
        self.shared_queues = _build_shared_queues(queues, store, clock, background_tasks)
        """The queues whose limit holds over all processes on the store."""
        local = {name: LocalQueue(name, queue, clock) for name, queue in queues.items() if not queue.shared}
        super().__init__({name: self.shared_queues.get(name) or local[name] for name in queues})

    def queue_for(self, listing: Listing) -> ActiveQueue | None:
        """The queue of a tool: its own, its provider's, or the default one; None if there is none."""
        name = listing.tool.limits.queue or (listing.provider.queue if listing.provider else None)
        if name is not None:
            self.validate_name(name, listing.tool)
            return self[name]
        max_concurrent = self._max_concurrent
        if max_concurrent is not None and DEFAULT_QUEUE_NAME not in self:
            queue = Queue(concurrent=max_concurrent)
            self[DEFAULT_QUEUE_NAME] = LocalQueue(DEFAULT_QUEUE_NAME, queue, self._clock)
        return self.get(DEFAULT_QUEUE_NAME)

    def validate_name(self, name: str, tool: Tool[..., Any]) -> None:
        """Raise if a tool names a queue that does not exist."""
        if name not in self:
            nearest = nearest_names(name, self, 1)
            in_program = f"queues={{{name!r}: Queue(concurrent=2)}}"
            in_file = f"queues: {{{name}: {{concurrent: 2}}}}"
            addition = f"add {in_program} to the runtime, or `{in_file}` to the configuration file."
            hint = f"did you mean {nearest[0]!r}?" if nearest else addition
            problem = f"{tool.name} names the queue {name!r}, which does not exist."
            raise DefinitionError(problem, fix=hint, where=tool.where)

    def validate_shared_queues(self) -> None:
        """Raise if there are shared queues without a store to hold their slots."""
        if self.shared_queues and not self._is_durable:
            name = next(iter(self.shared_queues))
            raise DefinitionError(
                f"The queue {name!r} is shared, but the runtime has no store.",
                fix="use a store that the processes share, as in Runtime(..., store='surehand.db').",
            )

    def close(self) -> None:
        """Close all queues."""
        for queue in self.values():
            queue.close()


def _check_queues(queues: Any) -> None:
    """Raise unless it is a mapping of names to queues."""
    if not isinstance(queues, Mapping):
        problem = f"queues={short_repr(queues)} is not a mapping of names to queues."
        raise DefinitionError(problem, fix="write queues={'name': Queue(concurrent=2)}.")
    for name, queue in queues.items():
        if not isinstance(queue, Queue):
            problem = f"The queue {name!r} is given as {short_repr(queue)}, which is not a Queue."
            raise DefinitionError(problem, fix=f"write queues={{{name!r}: Queue(concurrent=2)}}.")


def _build_shared_queues(
    queues: Mapping[str, Queue], store: RuntimeStore, clock: Clock, background_tasks: BackgroundTasks
) -> dict[str, SharedQueue]:
    if not any(queue.shared for queue in queues.values()):
        return {}
    from surehand.runtime.limits.shared_queue import SharedQueue  # keeps the slots table off the import path

    return {
        name: SharedQueue(name, queue, store=store, clock=clock, background_tasks=background_tasks)
        for name, queue in queues.items()
        if queue.shared
    }
