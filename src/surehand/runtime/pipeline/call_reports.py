"""Call reports: tells listeners and journals that a call has started and how it has ended.

The stage `record` uses it for every call; `refused_calls` for calls that no stack could run.
"""

from __future__ import annotations

from surehand.core.clock import Clock
from surehand.core.events import CallEnded, CallQueued, CallResumed, CallStarted
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.durability.store_journal import StoreJournal
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.listeners import Listeners
from surehand.runtime.stats import MemoryJournal, StatsTable

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
        self._store_journal = store_journal

    @property
    def has_journal(self) -> bool:
        """Whether the ends of calls are written anywhere."""
        return self.memory_journal is not None or self._store_journal.writer is not None

    def report_start(self, invocation: Invocation, at: float) -> None:
        """Emit `CallStarted`, or `CallResumed` for a resumed call."""
        call_id = invocation.assigned_id or invocation.id
        name = invocation.tool_name
        if invocation.is_resumed:
            if invocation.resumption.on_settled is None:  # else it is emitted once the answer is stored
                self.listeners.emit(CallResumed(call_id, name, at, *invocation.identity))
            return
        intent, display = invocation.presentation
        raw_arguments = invocation.raw_arguments
        tool_fields = (call_id, name, raw_arguments, invocation.parent, display, at, invocation.model_id, intent)
        # Adding two tuples takes half the time of unpacking one into the other.
        self.listeners.emit(_new_tuple(CallStarted, tool_fields + invocation.scope.caller_fields))

    def report_queued(self, invocation: Invocation, queue_name: str, position: int) -> None:
        """Emit `CallQueued`."""
        at = self.clock.time()
        name = invocation.tool_name
        self.listeners.emit(CallQueued(invocation.id, name, queue_name, position, at, *invocation.identity))

    def report_end(self, invocation: Invocation, outcome: Outcome) -> None:
        """Write the journals and emit `CallEnded`."""
        call_id = invocation.assigned_id or invocation.id
        name = invocation.tool_name
        invocation.emit_deferred_start()
        if self.memory_journal is not None:
            status = "ok" if outcome.ok else _status_word(outcome)
            started = invocation.started_perf_counter
            self.memory_journal.append((call_id, name, started, invocation.latency_seconds, status))
        if not invocation.is_journalled:
            self._write_store_journal(invocation, outcome)
        if self.auto_complete and self.listeners.callbacks:
            if invocation.claim.is_lost and invocation.is_resumed:
                return  # of two answers to one call, only the first emits the end
            intent, display = invocation.presentation
            at = self.clock.time()
            tool_fields = (call_id, name, outcome, at, invocation.parent, invocation.model_id, intent, display)
            self.listeners.emit(_new_tuple(CallEnded, tool_fields + invocation.scope.caller_fields))

    def _write_store_journal(self, invocation: Invocation, outcome: Outcome) -> None:
        """Add the end of a call to the store's journal; a call that is still pending has its entry already."""
        writer = self._store_journal.writer
        if writer is None or isinstance(outcome, Pending):
            return
        if invocation.round and not invocation.claim.is_recorded:
            return
        writer.add(self._store_journal.statements(invocation, "ended", "ok" if outcome.ok else _status_word(outcome)))
        if isinstance(outcome, Failed) and not outcome.executed and outcome.code in AUDITED_REFUSALS:
            writer.add_refusal(invocation, outcome)


def _status_word(outcome: Outcome) -> str:
    return outcome.code if isinstance(outcome, Failed) else "pending"
