"""Store journal: adds what happens to calls, and the progress that they report, to the journal in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surehand.core.clock import Clock
from surehand.core.events import CallProgress
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.listeners import Listeners
from surehand.runtime.runtime_store import RuntimeStore

if TYPE_CHECKING:
    from surehand.runtime.durability.journal_writer import JournalWriter
    from surehand.store.database import Statement
    from surehand.store.tables.journal import JournalKind


class StoreJournal:
    """The journal of a configured store. Without one, it writes nothing."""

    def __init__(self, store: RuntimeStore) -> None:
        self._store = store
        self.writer: JournalWriter | None = None
        """Writes entries that belong to no other transaction, while a configured store is open."""

    def statements(self, invocation: Invocation, kind: JournalKind, status: str) -> list[Statement]:
        """Statements that add an entry to the journal, and an event to the stream of the call's run."""
        store = self._store.current
        assert store is not None
        principal = invocation.principal
        call_id = invocation.id
        tool = invocation.tool_name
        latency_ms = invocation.elapsed_seconds() * 1000
        entry = store.journal.entry_statement(
            kind, call_id, tool, status, latency_ms=latency_ms, identity=invocation.identity
        )
        if principal.turn is None:
            return [entry]
        events = store.streams.call_event_statements(principal.turn, kind, call_id, tool, status, latency_ms)
        return [entry, *events]

    async def write_progress(self, invocation: Invocation) -> None:
        """Write the progress of a call that is not in its streams yet: its end or its question comes after it."""
        if self.writer is not None and self.has_unwritten_progress(invocation):
            await self.writer.flush()

    def has_unwritten_progress(self, invocation: Invocation) -> bool:
        """Whether progress of the call is not in its streams yet."""
        return self.writer is not None and invocation.id in self.writer.calls_with_progress


class ProgressReports:
    """Sends the progress of calls to listeners, and to the streams of their runs and spaces."""

    def __init__(self, listeners: Listeners, journal: StoreJournal, clock: Clock) -> None:
        self._listeners = listeners
        self._journal = journal
        self._clock = clock

    def is_wanted(self, invocation: Invocation) -> bool:
        """Whether anything would receive the progress of a call."""
        return bool(self._listeners.callbacks) or self._has_stream(invocation)

    def _has_stream(self, invocation: Invocation) -> bool:
        """Whether the call is in the stream of a run or of a space."""
        is_streamed = invocation.principal.turn is not None or invocation.message.id is not None
        return is_streamed and self._journal.writer is not None

    def emit(self, invocation: Invocation, update: dict[str, Any]) -> None:
        """Send one report of a handler; `message`, `fraction` and `title` have a meaning, the rest is data."""
        named = {name: update.pop(name, None) for name in ("message", "fraction", "title")}
        if self._journal.writer is not None and self._has_stream(invocation):
            self._journal.writer.add_progress(invocation, named, update)
        if not self._listeners.callbacks:
            return
        event = CallProgress(
            invocation.id,
            invocation.tool_name,
            named["message"],
            named["fraction"],
            named["title"],
            update,
            self._clock.time(),
            *invocation.identity,
        )
        self._listeners.emit(event)
