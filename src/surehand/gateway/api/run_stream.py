"""The response to a request that drives a run: its events, or its end as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from surehand.core.events import RunEnded
from surehand.gateway.agent_runs import FinishedRun
from surehand.gateway.api.requests import json_response
from surehand.gateway.api.run_details import RunSummary, run_result_to_json
from surehand.gateway.events.event_json import run_event_to_json
from surehand.gateway.events.event_stream import EventStreamResponse, StreamRequest, feed_frames
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem


async def run_result_response(gateway: Gateway, task: asyncio.Task[FinishedRun], run_id: str) -> Response:
    """The end of a run that the task drives: 200, or 202 if it waits."""
    try:
        with gateway.explain_cancellation(task):
            run = await asyncio.shield(task)
    except LookupError:
        raise Problem("not_found", f"No run {run_id[:80]} is known.") from None
    except ValueError as error:
        raise Problem("conflict", str(error), run_id=run_id) from None
    return json_response(run_result_to_json(run), 202 if run.status == "waiting" else 200)


def stream_run(gateway: Gateway, run_id: str, after: int, task: asyncio.Task[FinishedRun]) -> Response:
    """The events of a run after a number, until the run ends or waits."""

    async def final_event() -> dict[str, Any] | None:
        if not task.done() or task.cancelled():
            return None
        return run_event_to_json(RunEnded(task.result()))

    def is_of_run(fields: Mapping[str, Any]) -> bool:
        return run_id in (fields.get("run_id"), fields.get("turn"))

    def is_last(fields: Mapping[str, Any]) -> bool:
        return bool(fields["type"] == "RunEnded" and fields["run_id"] == run_id)

    stream = StreamRequest(is_of_run, after=after, is_last=is_last, final_event=final_event, ends_at_shutdown=False)
    return EventStreamResponse(feed_frames(gateway.feed, stream))


def is_run_end(fields: Mapping[str, Any]) -> bool:
    """Whether an event ends the events of a run for good."""
    return bool(fields["type"] == "RunEnded" and fields["status"] != "waiting")


def run_ended_event(run: RunSummary) -> dict[str, Any]:
    """The last event of a run, from what is remembered of it."""
    names = ("run_id", "agent", "status", "text", "output", "reason", "usage", "user", "session")
    fields = {name: getattr(run, name) for name in names}
    return {"type": "RunEnded", **fields, "waiting": [], "at": run.ended_at}
