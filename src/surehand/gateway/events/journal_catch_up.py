"""JournalCatchUp: adds events that the journal knows and the event log does not.

They are those of calls in other processes on the store, such as an answer by `surehand approve`, and those that a
killed gateway had no time to write: an outcome is committed together with its journal entry, and its event later.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from surehand.core.errors import FAILURE_CODES
from surehand.core.events import CallEnded, CallPending, CallSettled
from surehand.core.outcome import Done, Failed, Pending
from surehand.gateway.events.event_json import event_to_json
from surehand.gateway.events.event_log import GATEWAY_STREAM, LoggedEvent
from surehand.gateway.events.feed import EventFeed
from surehand.store.database import StoreError

if TYPE_CHECKING:
    from surehand.runtime.runtime import Runtime
    from surehand.store.store import Store
    from surehand.store.tables.journal import JournalRow

log = logging.getLogger("surehand")
DELAY_SECONDS = 2.0
"""How long the process that wrote an entry has to write its event before another one adds it."""
POLL_SECONDS = 0.5
MATCH_SECONDS = 60.0
"""How long an event waits for its journal entry."""
EVENTS_READ_AT_START = 5_000
START_MARGIN_SECONDS = 5.0
"""An event may be written this much earlier than the entry of the same call, which is written in batches."""
EventKey = tuple[str, str]
"""The call and `pending`, `settled` or `ended`."""


class JournalCatchUp:
    """Compares the journal with the events that were published, and adds the missing ones to the feed."""

    def __init__(self, runtime: Runtime, store: Store, feed: EventFeed) -> None:
        self._runtime = runtime
        self._store = store
        self._feed = feed
        self._cursor = ""
        self._unmatched_events: Counter[EventKey] = Counter()
        self._unmatched_since: deque[tuple[float, EventKey]] = deque()
        self._unmatched_entries: deque[tuple[float, JournalRow]] = deque()
        feed.observe(self._note_event)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Catch up while the context is entered."""
        await self._start()
        task = asyncio.create_task(self._run(), name="gateway: catch up with the journal")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _start(self) -> None:
        """Read the newest events and the journal entries of the same time, to match them."""
        streams = self._store.streams
        last_number = await streams.last(GATEWAY_STREAM)
        first_number = max(last_number - EVENTS_READ_AT_START, 0)
        events = await streams.read(GATEWAY_STREAM, first_number, EVENTS_READ_AT_START)
        entries: list[JournalRow] = []
        if events:
            for each in events:
                self._note_event(LoggedEvent(each.number, each.data))
            since = events[0].at + (START_MARGIN_SECONDS if first_number else 0.0)
            entries = [*reversed(await self._store.journal.list(since=since, limit=2 * EVENTS_READ_AT_START))]
        newest = entries[-1:] or await self._store.journal.latest(1)
        self._cursor = newest[0].cursor if newest else ""
        if not entries:
            return
        # An entry that is older than the newest one has had that much time already. A gateway that is killed again
        # and again before the delay is over would otherwise never add its event.
        now, newest_at = monotonic(), entries[-1].at
        self._unmatched_entries.extend((now - max(newest_at - entry.at, 0.0), entry) for entry in entries)

    def _note_event(self, event: LoggedEvent) -> None:
        key = _event_key(event.fields)
        if key is not None:
            self._unmatched_events[key] += 1
            self._unmatched_since.append((monotonic(), key))

    async def _run(self) -> None:
        while True:
            try:
                for entry in await self._store.journal.after(self._cursor):
                    self._cursor = entry.cursor
                    self._unmatched_entries.append((monotonic(), entry))
                read_before = monotonic() - DELAY_SECONDS
                if self._unmatched_entries and self._unmatched_entries[0][0] <= read_before:
                    # Under load this gateway's own events may take longer than the delay.
                    await self._feed.event_log.wait_until_published()
                    await self._add_missing(read_before)
            except StoreError as error:
                log.warning("The journal cannot be read now: %s", error)
            self._forget_old_events(monotonic() - MATCH_SECONDS)
            await asyncio.sleep(POLL_SECONDS)

    async def _add_missing(self, read_before: float) -> None:
        """Add the events of entries that were read before a moment, unless they were published meanwhile."""
        while self._unmatched_entries and self._unmatched_entries[0][0] <= read_before:
            _, entry = self._unmatched_entries[0]
            key = (entry.call_id, entry.kind)
            if self._unmatched_events[key] > 0:
                self._unmatched_events[key] -= 1
            else:
                self._feed.add(await self._build_event(entry))
                self._unmatched_events[key] -= 1  # matched by this event itself, once it is published
            self._unmatched_entries.popleft()

    def _forget_old_events(self, before: float) -> None:
        while self._unmatched_since and self._unmatched_since[0][0] < before:
            _, key = self._unmatched_since.popleft()
            if self._unmatched_events[key] <= 1:
                del self._unmatched_events[key]
            else:
                self._unmatched_events[key] -= 1

    async def _build_event(self, entry: JournalRow) -> dict[str, Any]:
        """The event of a journal entry, with what the store still knows of the call."""
        status = await self._runtime.status(entry.call_id)
        identity = {
            name: getattr(entry, name)
            for name in ("parent", "model_id", "intent", "display", "user", "session", "agent", "space", "turn", "task")
        }
        event: CallEnded | CallPending | CallSettled
        if entry.kind == "ended":
            outcome = None if status is None else status.outcome
            if outcome is None or isinstance(outcome, Pending):
                outcome = Done() if entry.status == "ok" else Failed(_failure_code(entry.status))
            event = CallEnded(entry.call_id, entry.tool, outcome, entry.at, **identity)
        elif entry.kind == "pending":
            question = None if status is None else status.question
            question_fields: dict[str, Any] = {}
            if question is not None:
                question_fields = {
                    name: getattr(question, name) for name in ("message", "request", "arguments", "expires_at")
                }
            event = CallPending(
                entry.call_id, entry.tool, _waiting_for(entry.status), at=entry.at, **question_fields, **identity
            )
        else:
            waiting_for = "approval" if entry.status in ("approve", "reject") else "result"
            event = CallSettled(
                entry.call_id, entry.tool, entry.status, _waiting_for(waiting_for), at=entry.at, **identity
            )
        return event_to_json(event)


def _event_key(fields: dict[str, Any]) -> EventKey | None:
    """The journal entry that an event belongs to."""
    match fields:
        case {"type": "CallEnded", "call_id": call_id, "outcome": {"status": "done" | "failed"}}:
            return call_id, "ended"
        case {"type": "CallPending", "call_id": call_id}:
            return call_id, "pending"
        case {"type": "CallSettled", "call_id": call_id}:
            return call_id, "settled"
    return None


def _failure_code(status: str) -> Any:
    return status if status in FAILURE_CODES else "failed"


def _waiting_for(status: str) -> Any:
    return status if status in ("approval", "result", "input") else "result"
