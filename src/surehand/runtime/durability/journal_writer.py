"""Journal writer: writes journal entries, audit rows and progress that belong to no other transaction, in batches.

These are the ends of calls without effects, refused calls, and the progress of running ones. It writes in the
background; `Store` flushes it before it lists the journal or the audit, and a call before its end is written.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from surehand.runtime.durability.call_record import serialize_call_arguments, sha256_hex
from surehand.store.database import Statement, StoreError, UnstorableValue, to_storable_name
from surehand.store.serialization import dump_json
from surehand.store.tables.messages import progress_statements

if TYPE_CHECKING:
    from surehand.core.outcome import Failed
    from surehand.runtime.background_tasks import BackgroundTasks
    from surehand.runtime.crash_report import CrashReport
    from surehand.runtime.invocation.approval import Approval
    from surehand.runtime.invocation.invocation import Invocation
    from surehand.store.store import Store
    from surehand.store.tables.audit import AuditKind

log = logging.getLogger("surehand")
MAX_BUFFERED_ENTRIES = 10_000
ENTRIES_PER_WRITE = 500
MAX_BUFFERED_PROGRESS = 1_000
"""Entries in the buffer above which progress is left out: it must not displace the ends of calls."""
MAX_MESSAGE_CHARS = 1_000
MAX_PROGRESS_CHARS = 16_384
"""Characters of JSON of one progress event in the streams; of a longer one only the start of the message is kept."""
_REFUSAL_KINDS: dict[str, AuditKind] = {"denied": "denied", "conflict": "conflict"}
"""The kind of the audit row by failure code; any other refusal is `refused`."""


class JournalWriter:
    """Buffers journal entries; losing them loses no outcome, because outcomes are in the ledger."""

    def __init__(self, store: Store, background_tasks: BackgroundTasks, crash_report: CrashReport) -> None:
        self._store = store
        self._crash_report = crash_report
        self._background_tasks = background_tasks
        self._buffered_entries: list[list[Statement]] = []
        self.calls_with_progress: set[str] = set()
        """The ids of calls whose progress may not be written yet."""
        self._is_writing = False
        self._has_warned = False
        """Whether the log has said that entries cannot be written; once is enough."""
        self._flush_lock = asyncio.Lock()
        self.stop_flushing_for_readers = store.flush_before_reading(self.flush)

    def add(self, entry: list[Statement]) -> None:
        """Buffer an entry; if the store stays unavailable, the oldest entries are dropped."""
        self._buffered_entries.append(entry)
        if len(self._buffered_entries) > MAX_BUFFERED_ENTRIES:
            del self._buffered_entries[:ENTRIES_PER_WRITE]
        if not self._is_writing:
            self._is_writing = True
            _ = self._background_tasks.spawn(self._flush_in_background())

    def add_approver_answer(self, invocation: Invocation, approval: Approval) -> None:
        """Buffer the audit row of a decision of an approver, which no stored question precedes."""
        detail: dict[str, Any] = {"answer": "approve" if approval.allow else "reject", "approver": True}
        if approval.reason:
            detail["reason"] = approval.reason[:MAX_MESSAGE_CHARS]
        row = self._store.audit.row_statement(
            "answer",
            to_storable_name(invocation.id) or "",
            invocation.listing.name,
            identity=invocation.identity,
            by=approval.by,
            detail=detail,
        )
        self.add([row])

    def add_refusal(self, invocation: Invocation, outcome: Failed) -> None:
        """Buffer the audit row of a call that was refused before its handler ran."""
        detail = {"code": outcome.code, "arguments": _arguments_digest(invocation)}
        decision = invocation.resumption.approval
        row = self._store.audit.row_statement(
            _REFUSAL_KINDS.get(outcome.code, "refused"),
            to_storable_name(invocation.id) or "",
            to_storable_name(invocation.tool_name) or "",
            identity=invocation.identity,
            by=None if decision is None or decision.allow else decision.by,
            detail=detail,
        )
        self.add([row])

    def add_progress(self, invocation: Invocation, named: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        """Buffer the progress of a call for the streams of its run and of the space that shows it.

        Args:
            named: the message, fraction and title, or None for each.
        """
        if len(self._buffered_entries) >= MAX_BUFFERED_PROGRESS:
            return
        given = {name: value for name, value in named.items() if value is not None}
        try:
            progress = self._bounded_progress({**given, "data": data})
        except (ValueError, UnstorableValue):  # a handler may report anything, even a value that contains itself
            return
        principal = invocation.principal
        call_id = invocation.id
        tool = invocation.tool_name
        if principal.turn is not None:
            self.calls_with_progress.add(call_id)
            self.add(self._store.streams.progress_statements(principal.turn, call_id, tool, progress))
        if principal.space is not None and invocation.message.id is not None:
            self.calls_with_progress.add(call_id)
            self.add(progress_statements(principal.space, invocation.message.id, call_id, tool, progress))

    def _bounded_progress(self, progress: Mapping[str, Any]) -> Any:
        """The progress as plain JSON values without known secrets; of a large one only the start of its message."""
        text = dump_json(progress)
        if len(text) > MAX_PROGRESS_CHARS:
            message = str(progress.get("message") or "")[:MAX_MESSAGE_CHARS]
            text = dump_json({"message": message, "data": {}, "truncated": True})
        return json.loads(self._crash_report.redact(text))

    async def _flush_in_background(self) -> None:
        try:
            await self.flush()
        finally:
            self._is_writing = False

    async def flush(self) -> None:
        """Write all buffered entries; entries that another flush is writing are written when it returns."""
        async with self._flush_lock:
            while entries := self._buffered_entries[:ENTRIES_PER_WRITE]:
                # Remove them before the write: a cancelled flush must not write them twice.
                del self._buffered_entries[: len(entries)]
                statements = [statement for entry in sorted(entries, key=_stream_name) for statement in entry]
                try:
                    await self._store.write(statements)
                except StoreError as error:
                    self._buffered_entries[:0] = entries
                    if not self._has_warned:
                        log.warning(
                            "%d journal entries could not be written yet: %s", len(self._buffered_entries), error
                        )
                    self._has_warned = True
                    return
                self._has_warned = False
                self._store.streams.notify_written()
            self.calls_with_progress.clear()


def _arguments_digest(invocation: Invocation) -> str | None:
    """The digest of the arguments; None if they cannot be written as JSON, and so were refused for that."""
    try:
        return sha256_hex(serialize_call_arguments(invocation))
    except (UnstorableValue, AttributeError):  # a call that was refused early has no checked arguments
        return None


def _stream_name(entry: list[Statement]) -> str:
    """Sort key: all processes lock the rows of streams in the same order, so that they cannot deadlock."""
    return str(entry[1].params["stream"]) if len(entry) > 1 else ""
