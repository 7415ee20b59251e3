"""The tables `streams` and `events`: what happens in a space or a run, numbered without gaps, for readers to follow."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from surehand.core.events import Missed
from surehand.store.database import Database, Row, SqlValue, Statement, to_storable_name
from surehand.store.queries import load_queries
from surehand.store.serialization import dump_json
from surehand.store.stream_tail import StreamTail

StreamEventKind: TypeAlias = Literal[
    "message", "message.amended", "tool-call.start", "tool-result", "tool-call.complete", "tool-call.error",
    "call.progress", "call.pending", "call.settled", "call.ended",
    "gateway.event",
]  # fmt: skip
PAGE_EVENTS = 500

_SQL = load_queries("streams")
ANNOUNCE_STATEMENT = Statement("{announce}")
"""Notifies the other processes that follow a stream."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event with its number in its stream."""

    number: int
    at: float
    kind: StreamEventKind
    data: Any


def space_stream(space_id: str) -> str:
    """Name the stream of a space."""
    return f"space:{space_id}"


def run_stream(run_id: str) -> str:
    """Name the stream of a run."""
    return f"run:{run_id}"


def event_statements(stream: str, kind: StreamEventKind, data: Any) -> list[Statement]:
    """Build the statements that add an event; last in a transaction, because they lock the stream until it ends."""
    params = {"stream": stream, "kind": kind, "data": dump_json(data)}
    return [
        Statement(_SQL["next_number"], {"stream": stream}, 1),
        Statement(_SQL["insert_event"], params, 1),
        ANNOUNCE_STATEMENT,
    ]


class StreamTable:
    """Events by stream. A reader that knows the number of its last event misses none."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tail: StreamTail[StreamEvent] = StreamTail(database, self.read)

    async def add(self, stream: str, kind: StreamEventKind, data: Any) -> None:
        """Add an event to a stream."""
        await self._database.write(event_statements(stream, kind, data))
        self.notify_written()

    def call_event_statements(
        self, run: str, kind: str, call_id: str, tool: str, status: str, latency_ms: float
    ) -> list[Statement]:
        """Build the statements that add what happened to a call to the stream of its run."""
        data = {"callId": call_id, "tool": tool, "status": status, "latencyMs": latency_ms}
        return event_statements(run_stream(to_storable_name(run) or ""), cast(StreamEventKind, f"call.{kind}"), data)

    def progress_statements(self, run: str, call_id: str, tool: str, progress: Any) -> list[Statement]:
        """Build the statements that add the progress of a call to the stream of its run."""
        data = {"callId": call_id, "tool": tool, **progress}
        return event_statements(run_stream(to_storable_name(run) or ""), "call.progress", data)

    def notify_written(self) -> None:
        """Wake the readers in this process after a write, without waiting for the database to notify them."""
        self._tail.notify_written()

    async def read(self, stream: str, after: int = 0, limit: int = PAGE_EVENTS) -> list[StreamEvent]:
        """Read events after a number, oldest first."""
        params: dict[str, SqlValue] = {"stream": stream, "after": after, "limit": max(limit, 0)}
        rows = await self._database.read(_SQL["list_events_after"], params)
        return [_event_from_row(row) for row in rows]

    async def last(self, stream: str) -> int:
        """Return the number of the newest event; 0 if there is none."""
        rows = await self._database.read(_SQL["find_last_number"], {"stream": stream})
        return int(rows[0]["last"]) if rows else 0

    async def follow(self, stream: str, after: int = 0) -> AsyncIterator[StreamEvent | Missed]:
        """Yield events after a number, then new ones from any process; `Missed` stands for deleted events."""
        after = max(after, 0)
        async with self._tail.follow(stream) as followed:
            while True:
                events = followed.events_after(after)
                last_number = followed.last_number or 0
                if events is None:
                    events = await self.read(stream, after)
                first = events[0].number if events else max(last_number, after) + 1
                if first > after + 1:  # the events before were deleted
                    yield Missed(first - after - 1)
                    after = first - 1
                for event in events:
                    after = event.number
                    yield event
                # Only if there was nothing: events that arrived while these were handled are already in memory.
                if not events:
                    await followed.wait_for_event_after(after)

    async def close(self) -> None:
        """End all readers."""
        await self._tail.close()


def _event_from_row(row: Row) -> StreamEvent:
    return StreamEvent(row["number"], row["at"], row["kind"], json.loads(row["data"]))
