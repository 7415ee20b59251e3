"""Benchmark of calls of a REST tool through a runtime, compared with the same request by a bare `httpx2` client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.mcp_calls import MAX_IN_FLIGHT, CallAdd, time_concurrent_calls
from bench.measure import measure_ratio, time_calls
from bench.table import Row
from surehand import Runtime, rest

GOAL = 1.3
ARGUMENTS = {"city": "Porto", "days": 2}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


async def measure_rest_calls(*, rounds: int = 61, count: int = 64) -> list[Row]:
    """Measure a GET with a query and a POST with a JSON body, both with a token and a JSON answer."""
    import httpx2

    async with start_rest_server() as url, httpx2.AsyncClient(headers={"Authorization": "Bearer t0ken"}) as client:
        get = rest("GET", f"{url}/v1/{{city}}", name="get", parameters=SCHEMA, auth="t0ken")
        post = rest("POST", f"{url}/v1/{{city}}", name="post", parameters=SCHEMA, auth="t0ken", effects="read")

        async def bare_get() -> Any:
            return (await client.get(f"{url}/v1/Porto", params={"days": 2})).raise_for_status().json()

        async def bare_post() -> Any:
            return (await client.post(f"{url}/v1/Porto", json={"days": 2})).raise_for_status().json()

        async with Runtime(get, post) as runtime:
            return [
                *await _measure("GET", partial(runtime.call, "get", ARGUMENTS), bare_get, rounds, count),
                *await _measure("POST", partial(runtime.call, "post", ARGUMENTS), bare_post, rounds, count),
            ]


async def _measure(method: str, ours: CallAdd, bare: CallAdd, rounds: int, count: int) -> list[Row]:
    assert (await ours()).data == await bare()
    one = await measure_ratio(time_calls(ours, count=count), time_calls(bare, count=count), rounds=rounds)
    many = await measure_ratio(
        time_concurrent_calls(ours, count=count), time_concurrent_calls(bare, count=count), rounds=rounds
    )
    return [
        Row(f"call of a REST tool, {method} / the same request by a bare httpx2 client", one, GOAL),
        Row(f"{MAX_IN_FLIGHT} calls in flight of a REST tool, {method} / by a bare httpx2 client", many, GOAL),
    ]


@asynccontextmanager
async def start_rest_server() -> AsyncIterator[str]:
    """Start the service in another process; gives its URL."""
    # -P: without it, modules in the script's folder could shadow those of the standard library.
    argv = (sys.executable, "-P", str(Path(__file__).with_name("rest_server.py")))
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.kill()
        await process.communicate()
