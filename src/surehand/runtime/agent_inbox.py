"""AgentInbox: puts events into the inboxes of agents, and finds out what has become of them.

`Scope.trigger`, `Scope.inbox` and `Scope.find_event` are its public verbs; a `Worker` turns the events into runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from surehand.core.errors import DefinitionError
from surehand.core.ids import new_id
from surehand.core.names import is_legal_name
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import Statement

if TYPE_CHECKING:
    from surehand.core.call import Principal
    from surehand.store.store import Store
    from surehand.store.tables.inbox import InboxEvent

MAX_EVENT_ID_LENGTH = 200


class AgentInbox:
    """The inboxes of agents in the store of a runtime."""

    def __init__(self, store: RuntimeStore) -> None:
        self._store = store
        self._callbacks: list[Callable[[], None]] = []

    def on_trigger(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when this process has put an event into an inbox; returns a function that unsubscribes."""
        self._callbacks.append(callback)

        def remove() -> None:
            self._callbacks = [each for each in self._callbacks if each is not callback]

        return remove

    async def trigger(self, principal: Principal, agent: Any, data: Any, event_id: str | None) -> InboxEvent:
        """Put an event into the inbox of an agent; an id that it already has changes nothing."""
        name = _agent_name(agent)
        event_id = f"svc:{new_id()}" if event_id is None else _validate_event_id(event_id)
        data = _to_json_value(data)
        store = await self._require_store()
        push = store.inbox.push_statement(
            name,
            event_id,
            "service",
            data,
            user=principal.user,
            session=principal.session,
            run_id=new_id(),  # stored with the event: whoever takes it starts the same run
        )
        await store.write([push, Statement("{announce}")])
        event = await store.inbox.find_event(name, event_id, user=principal.user or "")
        if event is None:  # pruned meanwhile, which takes days
            raise LookupError(f"The event {event_id!r} of the agent {name} is gone.")
        for callback in self._callbacks:
            callback()
        return event

    async def find_event(self, principal: Principal, agent: Any, event_id: str) -> InboxEvent | None:
        """Find an event of the principal's user and session."""
        store = await self._require_store()
        return await store.inbox.find_event(
            _agent_name(agent), event_id, user=principal.user, session=principal.session
        )

    async def list_events(
        self, principal: Principal, agent: Any, *, limit: int, before: InboxEvent | int | None
    ) -> list[InboxEvent]:
        """The latest events of the principal's user and session, newest first."""
        store = await self._require_store()
        name = None if agent is None else _agent_name(agent)
        cursor = before if before is None or isinstance(before, int) else before.cursor
        return await store.inbox.list_events(
            name, user=principal.user, session=principal.session, limit=limit, before=cursor
        )

    async def _require_store(self) -> Store:
        if not self._store.is_durable:
            raise DefinitionError(
                "The inbox of an agent is kept in a store, and this runtime has none.",
                fix="give it one: Runtime(..., store='app.db').",
            )
        return await self._store.open()


def _agent_name(agent: Any) -> str:
    """The name of an agent, which is given as the agent or by its name."""
    name = agent if isinstance(agent, str) else getattr(agent, "name", None)
    if not isinstance(name, str) or not is_legal_name(name):
        raise ValueError(f"{agent!r} is neither an agent nor the name of one.")
    return name


def _validate_event_id(event_id: Any) -> str:
    if not isinstance(event_id, str) or not 0 < len(event_id) <= MAX_EVENT_ID_LENGTH:
        raise ValueError(f"An event id is a text of 1 to {MAX_EVENT_ID_LENGTH} characters, got {event_id!r}.")
    return event_id


def _to_json_value(data: Any) -> Any:
    try:
        return to_jsonable_python(data, bytes_mode="base64")
    except (PydanticSerializationError, ValueError) as error:
        raise TypeError(f"The data of an event has to be JSON: {error}") from error
