"""The route of statistics: latency and failures by tool, and the queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from surehand.gateway.api.requests import Caller, json_response
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.gateway import Gateway

MAX_SAMPLE = 5_000
"""The newest calls of the journal that latencies are computed from."""


class ToolStatistics(BaseModel):
    """The calls of one tool."""

    name: str
    calls: int
    failures: int
    p50_ms: float = Field(description="The median of the latency; without a store, the mean.")
    p95_ms: float = Field(description="What 95 of 100 calls stay below; without a store, the mean.")


class QueueStatistics(BaseModel):
    """A queue of calls now."""

    name: str
    capacity: int | None = None
    in_use: int
    waiting: int


class WebhookStatistics(BaseModel):
    """The calls that waited and were announced by a webhook."""

    name: str
    delivered: int
    waiting: int = Field(description="Announcements that are still to be sent, or sent again.")
    failed: int = Field(description="Announcements that were given up.")
    last_delivered_at: float | None = None
    failing_since: float | None = Field(None, description="Since when the webhook fails; null while it does not.")
    last_error: str | None = None


class StatisticsInfo(BaseModel):
    """What the calls of all users took, and what waits now."""

    tools: list[ToolStatistics]
    queues: list[QueueStatistics]
    webhooks: list[WebhookStatistics]
    running: int
    pending: int
    tool_count: int
    sample: int = Field(description="The calls of the store that these numbers are of; 0 without a store.")
    since: float | None = Field(None, description="When the oldest of them ended; null without a store.")


def statistics_routes(gateway: Gateway) -> APIRouter:
    """The route `/api/statistics`."""
    router = APIRouter(tags=["operation"], route_class=StrictRoute)

    @router.get("/api/statistics", responses={200: {"model": StatisticsInfo}})
    async def show_statistics(identity: Caller) -> Response:
        """Show latency and failures by tool, and the queues, to those who may see all calls."""
        await gateway.require_all_calls(identity, "read statistics")
        runtime = gateway.runtime
        stats = runtime.stats()
        queues = [
            {"name": name, "capacity": each.capacity, "in_use": each.in_use, "waiting": each.waiting}
            for name, each in sorted(runtime.queues().items())
        ]
        webhooks = (
            [] if runtime.store is None else [each._asdict() for each in await runtime.store.webhooks.summaries()]
        )
        overview: dict[str, Any] = {
            "queues": queues,
            "webhooks": webhooks,
            "running": stats.running,
            "tool_count": stats.total,
        }
        if not runtime.is_durable:
            tools = [
                _describe(name, each.count, each.failures, each.avg_duration, each.avg_duration)
                for name, each in sorted(stats.calls.items())
            ]
            waiting = len(await runtime.pending(limit=MAX_SAMPLE))
            return json_response({**overview, "tools": tools, "pending": waiting, "sample": 0, "since": None})
        store = await gateway.require_store()
        entries = [each for each in await store.journal.list(limit=MAX_SAMPLE) if each.kind == "ended"]
        rows = _by_tool((each.tool, each.latency_ms, each.status != "ok") for each in entries)
        waiting = len(await runtime.pending(limit=MAX_SAMPLE))
        since = entries[-1].at if entries else None
        return json_response({**overview, "tools": rows, "pending": waiting, "sample": len(entries), "since": since})

    return router


def _by_tool(calls: Iterable[tuple[str, float, bool]]) -> list[dict[str, Any]]:
    """Latencies and failures of calls, given as tool, milliseconds and whether they failed."""
    latencies: defaultdict[str, list[float]] = defaultdict(list)
    failures: defaultdict[str, int] = defaultdict(int)
    for tool, latency_ms, has_failed in calls:
        latencies[tool].append(latency_ms)
        failures[tool] += has_failed
    return [
        _describe(name, len(values), failures[name], _percentile(values, 0.5), _percentile(values, 0.95))
        for name, values in sorted(latencies.items())
    ]


def _describe(name: str, calls: int, failures: int, p50_ms: float, p95_ms: float) -> dict[str, Any]:
    return {"name": name, "calls": calls, "failures": failures, "p50_ms": p50_ms, "p95_ms": p95_ms}


def _percentile(values: list[float], fraction: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(fraction * len(ordered)), len(ordered) - 1)]
