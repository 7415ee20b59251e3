"""Benchmarks of the gateway: a call by POST, compared with a FastAPI route by hand, both behind the same server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.http_load import open_connections, post_request, time_requests
from bench.measure import TimedRound, measure_ratio
from bench.table import Row

POST_GOAL = 0.7
CONNECTIONS = 16
BODY = b'{"arguments":{"a":1,"b":2}}'


async def measure_gateway_calls(*, rounds: int = 41, count: int = 800) -> list[Row]:
    """Measure the requests per second of both."""
    async with start_server("gateway") as ours, start_server("bare") as bare:
        request_ours = post_request(ours, "/api/tools/add/call", BODY)
        request_bare = post_request(bare, "/api/tools/add/call", BODY)
        async with open_connections(ours, CONNECTIONS) as to_ours, open_connections(bare, CONNECTIONS) as to_bare:

            async def call_ours() -> float:
                return await time_requests(to_ours, request_ours, count)

            async def call_bare() -> float:
                return await time_requests(to_bare, request_bare, count)

            ratio = await _throughput_ratio(call_ours, call_bare, rounds)
    what = "calls per second by POST to the gateway / POSTs to a FastAPI route with the same body and one dependency"
    return [Row(what, ratio, POST_GOAL, at_least=True)]


async def _throughput_ratio(ours: TimedRound, bare: TimedRound, rounds: int) -> float:
    return 1 / await measure_ratio(ours, bare, rounds=rounds)


@asynccontextmanager
async def start_server(kind: str, *arguments: str) -> AsyncIterator[str]:
    """Start a server in another process; gives its URL."""
    # -P: without it, modules in the script's folder could shadow those of the standard library.
    argv = (sys.executable, "-P", str(Path(__file__).with_name("gateway_server.py")), kind, *arguments)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.kill()
        await process.communicate()
