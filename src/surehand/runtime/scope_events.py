"""Scope events: the verbs of a scope for hearing of its calls, and for the inboxes of agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from surehand.core.call import CallerFields, CallIdentity
from surehand.core.events import CallEnded, CatalogueChanged, Event, Listener, Missed
from surehand.core.outcome import Outcome
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.listeners import stream_events
from surehand.runtime.scope_view import ScopeView

if TYPE_CHECKING:
    from surehand.runtime.agent_inbox import AgentInbox
    from surehand.store.tables.inbox import InboxEvent

_NO_TOOL = CallIdentity()[:4]


class ScopeEvents(ScopeView):
    """The events of the calls of a scope's user and session, and those that wake agents."""

    caller_fields: CallerFields
    """The principal, as fields of an event."""

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` for every event of this scope's user and session, until the returned function is called.

        A scope without a session hears all sessions of its user; the runtime itself hears every event.
        """
        if not self._is_restricted:
            return self._parts.listeners.listen(callback)
        return self._parts.listeners.listen(lambda event: callback(event) if self._owns_event(event) else None)

    def events(self) -> AsyncIterator[Event]:
        """Yield the events that `listen` would hear, from now on; a reader that is too slow gets `Missed`."""
        return stream_events(self._parts.listeners, self._owns_event if self._is_restricted else None)

    @property
    def _is_restricted(self) -> bool:
        """Whether the scope shows only the calls of a user or session."""
        return self.principal.user is not None or self.principal.session is not None

    def _owns_event(self, event: Event) -> bool:
        """Whether an event is about a call of this scope's user and session."""
        if isinstance(event, (CatalogueChanged, Missed)):  # of no call
            return False
        viewer = self.principal
        return viewer.user in (None, event.user) and viewer.session in (None, event.session)

    def emit(self, event: Event) -> None:
        """Emit an event to all listeners: for parts, such as agents, that report more than calls."""
        self._parts.listeners.emit(event)

    @property
    def has_listeners(self) -> bool:
        """Whether anything hears events: without listeners, an event need not be built."""
        return bool(self._parts.listeners.callbacks)

    def complete(self, outcome: Outcome) -> None:
        """Emit `CallEnded` for a call, where `auto_complete=False` leaves that to the caller."""
        meta = outcome.meta
        origin = outcome.origin
        identity = origin.identity if isinstance(origin, Invocation) else CallIdentity(*_NO_TOOL, *self.caller_fields)
        at = self.clock.time()
        self._parts.listeners.emit(CallEnded(meta.call_id, meta.tool, outcome, at, *identity))

    # The inboxes of agents

    @property
    def _agent_inbox(self) -> AgentInbox:
        return self._parts.calls.load().agent_inbox

    async def trigger(self, agent: Any, data: Any, event_id: str | None = None) -> InboxEvent:
        """Put an event into the inbox of an agent, for this scope's user and session; a `Worker` runs the agent on it.

        It is stored when this returns. The agent need not be in this process.

        Args:
            agent: the agent, or its name.
            data: what the agent is run on: a text, or a JSON value, which its model reads as JSON.
            event_id: an id of the caller's: the same id again is the same event, and is run once.
        """
        return await self._agent_inbox.trigger(self.principal, agent, data, event_id)

    async def inbox(
        self, agent: Any = None, *, limit: int = 100, before: InboxEvent | int | None = None
    ) -> list[InboxEvent]:
        """The events in the inbox of an agent, or of all agents, with what has become of them, newest first.

        A scope with a user or session sees the events of these alone.

        Args:
            before: the last event of the page before, or its `cursor`.
        """
        return await self._agent_inbox.list_events(self.principal, agent, limit=limit, before=before)

    async def find_event(self, agent: Any, event_id: str) -> InboxEvent | None:
        """An event in the inbox of an agent, with what has become of it; None for an unknown one."""
        return await self._agent_inbox.find_event(self.principal, agent, event_id)
