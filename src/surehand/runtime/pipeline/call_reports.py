"""Call reports: tells listeners and journals that a call has started and how it has ended.

The stage `record` uses it for every call; `refused_calls` for calls that no stack could run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from surehand.core.clock import Clock
from surehand.core.events import CallEnded, CallQueued, CallResumed, CallStarted
from surehand.core.ids import new_id
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.durability.store_journal import StoreJournal
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.invocation.request import PLAIN_REQUEST
from surehand.runtime.listeners import Listeners
from surehand.runtime.stats import MemoryJournal, StatsTable

if TYPE_CHECKING:
    from surehand.runtime.durability.journal_writer import JournalWriter

AUDITED_REFUSALS = frozenset({"denied", "rejected", "conflict", "limit_exceeded", "over_budget"})
"""Codes of calls that were refused before their handler ran, which the audit records."""
_new_tuple = tuple.__new__
"""Builds an event in half the time of its constructor; a call with listeners needs two."""


class CallReports:
    """The statistics, the journal in memory, that of the store, and the listeners of a runtime."""

    def __init__(
        self,
        stats: StatsTable,
        listeners: Listeners,
        store_journal: StoreJournal,
        clock: Clock,
        *,
        memory_journal: MemoryJournal | None,
        auto_complete: bool,
    ) -> None:
        self.stats = stats
        self.listeners = listeners
        self.memory_journal = memory_journal
        self.auto_complete = auto_complete
        """Whether `CallEnded` is emitted when a call ends; else when its caller calls `complete`."""
        self.clock = clock
        self.store_journal = store_journal

    @property
    def has_journal(self) -> bool:
        """Whether the ends of calls are written anywhere."""
        return self.memory_journal is not None or self.store_journal.writer is not None

    def for_tool(
        self, name: str, intent: str | None, display: Mapping[str, Any], *, holds_start: bool = False
    ) -> ToolReports:
        """The reports of one tool's calls; made once for each stack, so that a call builds its events quickly.

        Args:
            holds_start: `CallStarted` is not heard before the wait of the call is stored.
        """
        return ToolReports(self, name, intent, display, holds_start=holds_start)

    def report_queued(self, invocation: Invocation, queue_name: str, position: int) -> None:
        """Emit `CallQueued`."""
        at = self.clock.time()
        name = invocation.tool_name
        self.listeners.emit(CallQueued(invocation.id, name, queue_name, position, at, *invocation.identity))


class ToolReports:
    """Reports the start and the end of one tool's calls."""

    __slots__ = (
        "_append",
        "_auto_complete",
        "_display",
        "_holds_start",
        "_intent",
        "_listeners",
        "_name",
        "_now",
        "_store_journal",
    )

    def __init__(
        self, reports: CallReports, name: str, intent: str | None, display: Mapping[str, Any], *, holds_start: bool
    ) -> None:
        self._holds_start = holds_start
        self._name = name
        self._intent = intent
        self._display = display
        self._listeners = reports.listeners
        self._now = reports.clock.time
        self._append = None if reports.memory_journal is None else reports.memory_journal.append
        self._store_journal = reports.store_journal
        self._auto_complete = reports.auto_complete

    def start(self, invocation: Invocation, at: float) -> None:
        """Emit `CallStarted`, or `CallResumed` for a resumed call."""
        request = invocation.request
        if request is not PLAIN_REQUEST and request.made_by == "store":
            if invocation.claim.answer is None:  # else it is emitted once the answer is stored
                self._listeners.emit(CallResumed(invocation.id, self._name, at, *invocation.identity))
            return
        call_id = invocation.assigned_id
        if call_id is None:
            call_id = invocation.assigned_id = new_id()  # as `id` does, without calling a property
        tool_fields = (
            call_id,
            self._name,
            invocation.raw_arguments,
            request.parent,
            self._display,
            at,
            request.model_id,
            self._intent,
        )
        # Adding two tuples takes half the time of unpacking one into the other.
        event = _new_tuple(CallStarted, tool_fields + invocation.scope.caller_fields)
        if self._holds_start:
            self._listeners.hold(invocation, event)
        else:
            self._listeners.emit(event)

    def end(self, invocation: Invocation, outcome: Outcome) -> None:
        """Write the journals and emit `CallEnded`."""
        call_id = invocation.assigned_id or invocation.id
        name = self._name
        if self._append is not None:
            status = "ok" if outcome.ok else _status_word(outcome)
            self._append((call_id, name, invocation.started_perf_counter, invocation.latency_seconds, status))
        if self._store_journal.writer is not None and not invocation.claim.is_recorded:
            self._write_store_journal(self._store_journal.writer, invocation, outcome)
        if self._auto_complete and self._listeners.callbacks:
            request = invocation.request
            if request is not PLAIN_REQUEST and invocation.is_resumed and invocation.claim.is_lost:
                return  # of two answers to one call, only the first emits the end
            tool_fields = (
                call_id,
                name,
                outcome,
                self._now(),
                request.parent,
                request.model_id,
                self._intent,
                self._display,
            )
            self._listeners.emit(_new_tuple(CallEnded, tool_fields + invocation.scope.caller_fields))

    def _write_store_journal(self, writer: JournalWriter, invocation: Invocation, outcome: Outcome) -> None:
        """Add the end of a call to the store's journal; a call that is still pending has its entry already."""
        if isinstance(outcome, Pending) or invocation.resumption.round:
            return
        status = "ok" if outcome.ok else _status_word(outcome)
        writer.add(self._store_journal.statements(invocation, "ended", status))
        if isinstance(outcome, Failed) and not outcome.executed and outcome.code in AUDITED_REFUSALS:
            writer.add_refusal(invocation, outcome)


def _status_word(outcome: Outcome) -> str:
    return outcome.code if isinstance(outcome, Failed) else "pending"
