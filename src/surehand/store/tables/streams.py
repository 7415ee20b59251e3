"""Streams: what happens in a space or in a run, numbered without gaps, for readers who come and go."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from surehand.core.events import Missed
from surehand.store.database import Database, Row, Statement, to_storable_name
from surehand.store.serialization import dump_json
from surehand.store.stream_tail import StreamTail

StreamEventKind: TypeAlias = Literal[
    "message", "message.amended", "tool-call.start", "tool-call.complete", "tool-call.error",
    "call.pending", "call.settled", "call.ended",
]  # fmt: skip
PAGE_EVENTS = 500

# The row stays locked until the event is kept: so the next number is given only when this one can be read.
_NEXT = """INSERT INTO streams (stream, last) VALUES (:stream, 1)
    ON CONFLICT (stream) DO UPDATE SET last = streams.last + 1"""
_ADD = """INSERT INTO events (stream, number, at, kind, data)
    VALUES (:stream, (SELECT last FROM streams WHERE stream = :stream), {now}, :kind, :data)"""
_READ = """SELECT number, at, kind, data FROM events WHERE stream = :stream AND number > :after
    ORDER BY number LIMIT :limit"""
_LAST = "SELECT last FROM streams WHERE stream = :stream"
ANNOUNCE_STATEMENT = Statement("{announce}")
"""Processes that follow a stream look when they hear it."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Something that happened, with its number in its stream."""

    number: int
    at: float
    kind: StreamEventKind
    data: Any


def space_stream(space_id: str) -> str:
    """The stream of a space."""
    return f"space:{space_id}"


def run_stream(run_id: str) -> str:
    """The stream of a run."""
    return f"run:{run_id}"


def event_statements(stream: str, kind: StreamEventKind, data: Any) -> list[Statement]:
    """An event, to be put into a transaction; last, because its stream is locked from here on."""
    told = {"stream": stream, "kind": kind, "data": dump_json(data)}
    return [Statement(_NEXT, {"stream": stream}, 1), Statement(_ADD, told, 1), ANNOUNCE_STATEMENT]


class StreamTable:
    """Events by stream. Whoever knows the number of the last event it has seen misses nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tail: StreamTail[StreamEvent] = StreamTail(database, self.read)

    async def add(self, stream: str, kind: StreamEventKind, data: Any) -> None:
        """Let an event happen."""
        await self._database.write(event_statements(stream, kind, data))
        self.notify_written()

    def call_event_statements(
        self, run: str, kind: str, call_id: str, tool: str, status: str, latency_ms: float
    ) -> list[Statement]:
        """What happened to a call, for the stream of its run."""
        data = {"callId": call_id, "tool": tool, "status": status, "latencyMs": latency_ms}
        return event_statements(run_stream(to_storable_name(run) or ""), cast(StreamEventKind, f"call.{kind}"), data)

    def notify_written(self) -> None:
        """Something was written here: readers in this process need not wait to hear of it."""
        self._tail.notify_written()

    async def read(self, stream: str, after: int = 0, limit: int = PAGE_EVENTS) -> list[StreamEvent]:
        """Events after a number, oldest first."""
        rows = await self._database.read(_READ, {"stream": stream, "after": after, "limit": max(limit, 0)})
        return [_event_from_row(row) for row in rows]

    async def last(self, stream: str) -> int:
        """The number of the newest event; 0 where there is none."""
        rows = await self._database.read(_LAST, {"stream": stream})
        return int(rows[0]["last"]) if rows else 0

    async def follow(self, stream: str, after: int = 0) -> AsyncIterator[StreamEvent | Missed]:
        """Events after a number, and from then on each as it happens, in any process; `Missed` where some are gone."""
        after = max(after, 0)
        async with self._tail.follow(stream) as channel:
            while True:
                events, end = channel.events_after(after), channel.last_number or 0
                if events is None:
                    events = await self.read(stream, after)
                first = events[0].number if events else max(end, after) + 1
                if first > after + 1:  # what comes before is kept no longer
                    yield Missed(first - after - 1)
                    after = first - 1
                for each in events:
                    after = each.number
                    yield each
                if not events:
                    await channel.wait_for_event_after(after)

    async def close(self) -> None:
        """Nobody follows any more."""
        await self._tail.close()


def _event_from_row(row: Row) -> StreamEvent:
    return StreamEvent(row["number"], row["at"], row["kind"], json.loads(row["data"]))
