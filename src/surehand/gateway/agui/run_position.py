"""Where in the event log a client begins to read a run that started before its request."""

from __future__ import annotations

from collections.abc import AsyncIterator

from surehand.gateway.api.run_details import RunSummary
from surehand.gateway.events.event_history import number_before
from surehand.gateway.events.event_log import LoggedEvent
from surehand.gateway.gateway import Gateway

START_MARGIN_SECONDS = 1.0
"""The clock of the database, which dates events, may differ from that of the process that started the run."""


async def find_run_start(gateway: Gateway, run: RunSummary) -> int:
    """The number before the first event of a run."""
    async for event in _events_since(gateway, run.started_at):
        if event.fields.get("run_id") == run.run_id:
            return event.number - 1
    return gateway.feed.event_log.last_number


async def find_last_wait(gateway: Gateway, run: RunSummary) -> int:
    """The number of the last event that said that a run waits; its first event if it never waited."""
    number = await find_run_start(gateway, run)
    async for event in gateway.feed.event_log.read_after(number):
        if isinstance(event, LoggedEvent) and _is_wait(event, run):
            number = event.number
    return number


def _is_wait(event: LoggedEvent, run: RunSummary) -> bool:
    fields = event.fields
    return bool(fields["type"] == "RunEnded" and fields["run_id"] == run.run_id and fields["status"] == "waiting")


async def _events_since(gateway: Gateway, moment: float) -> AsyncIterator[LoggedEvent]:
    number = 0
    if gateway.runtime.is_durable:
        number = await number_before(await gateway.require_store(), moment - START_MARGIN_SECONDS)
    async for event in gateway.feed.event_log.read_after(number):
        if isinstance(event, LoggedEvent):
            yield event
