"""Reads the events of a time from the event log: what the journal does not keep, such as the arguments of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from surehand.gateway.events.event_log import GATEWAY_STREAM
from surehand.gateway.events.feed import EventFeed

if TYPE_CHECKING:
    from surehand.store.store import Store

WRITE_DELAY_SECONDS = 2.0
"""Events are written in batches: the time of a row is at most this much after that of its event."""


async def read_memory_events(feed: EventFeed) -> list[Mapping[str, Any]]:
    """The events that are kept in memory, oldest first."""
    return [each.fields for each in reversed(feed.newest_events())]


async def read_stored_events(store: Store, since: float, until: float, limit: int) -> list[Mapping[str, Any]]:
    """The events of a time from the store, oldest first, at most as many as the limit."""
    number = await number_before(store, since)
    rows = await store.streams.read(GATEWAY_STREAM, number, limit)
    return [each.data for each in rows if each.at <= until + WRITE_DELAY_SECONDS]


async def number_before(store: Store, moment: float) -> int:
    """The number of the last event before a moment, by bisection: numbers grow with time."""
    low = 0
    high = await store.streams.last(GATEWAY_STREAM)
    while low < high:
        middle = (low + high) // 2
        found = await store.streams.read(GATEWAY_STREAM, middle, 1)
        if found and found[0].at < moment:
            low = found[0].number
        else:
            high = middle
    return low
