"""A server for the benchmarks of the gateway: `python gateway_server.py KIND` prints its port, then serves.

Kinds: `gateway` is our gateway with a tool; `bare` is a FastAPI route with the same body model and one dependency;
`bare-events` sends what is posted to it as events; `durable STORE` is our gateway with a tool that writes. All are
served as `surehand serve` does it.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette

from surehand import Runtime, gateway, tool
from surehand.cli.commands.serve import MAX_CONNECTIONS
from surehand.cli.lifecycle import fastest_loop_factory
from surehand.gateway.api.models import CallBody
from surehand.gateway.http_app import GatewayApp
from surehand.gateway.mcp.http.connection_table import ConnectionLimits
from surehand.gateway.mcp.http.server import bind_sockets, listen


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def gateway_app() -> Starlette:
    """Our gateway with the tool `add`."""
    return gateway.app(Runtime(tool(effects={"read"})(add)))


async def current_user(request: Request) -> str | None:
    """The dependency of the route by hand."""
    return request.headers.get("x-user")


def bare_app() -> Starlette:
    """A route that does the same work by hand."""
    app = FastAPI()

    @app.post("/api/tools/{name}/call")
    async def call(name: str, body: CallBody, user: Annotated[str | None, Depends(current_user)]) -> dict[str, Any]:
        assert isinstance(body.arguments, dict)
        result = await add(**body.arguments)
        return {"status": "done", "call_id": name, "data": result, "text": str(result)}

    return app


async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def durable_app(store: str) -> Starlette:
    """Our gateway with a tool that writes, on a store."""
    return gateway.app(Runtime(tool(effects={"write"})(pay), store=store))


def bare_events_app() -> Starlette:
    """Event streams by hand: what is posted goes to every listener."""
    app = FastAPI()
    queues: set[asyncio.Queue[tuple[str, str]]] = set()

    @app.get("/api/events")
    async def follow() -> EventSourceResponse:
        queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        queues.add(queue)

        async def events() -> AsyncIterator[dict[str, str]]:
            try:
                yield {"comment": "listening"}
                while True:
                    name, data = await queue.get()
                    yield {"event": name, "data": data}
            finally:
                queues.discard(queue)

        return EventSourceResponse(events())

    @app.post("/emit")
    async def emit(events: list[tuple[str, str]]) -> dict[str, int]:
        for queue in queues:
            for each in events:
                queue.put_nowait(each)
        return {"events": len(events)}

    return app


APPS: dict[str, Callable[..., Starlette]] = {
    "gateway": gateway_app,
    "bare": bare_app,
    "bare-events": bare_events_app,
    "durable": durable_app,
}


async def serve(kind: str, *arguments: str) -> None:
    """Serve one kind of app until the process is killed."""
    sockets = bind_sockets("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]

    def ready() -> None:
        gc.freeze()
        print(port, flush=True)

    app = APPS[kind](*arguments)
    refusal = app.early_refusal if isinstance(app, GatewayApp) else None
    limits = ConnectionLimits(max_connections=MAX_CONNECTIONS)
    await listen(app, sockets, ready=ready, limits=limits, refusal=refusal)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fastest_loop_factory()) as runner:
        runner.run(serve(*sys.argv[1:]))
