"""A server for the benchmarks of the gateway: `python gateway_server.py KIND` prints its port, then serves.

Kinds: `gateway` is our gateway with a tool; `bare` is a FastAPI route with the same body model and one dependency. Both
are served as `surehand serve` does it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from starlette.applications import Starlette

from surehand import Runtime, gateway, tool
from surehand.cli.lifecycle import fastest_loop_factory
from surehand.gateway.api.models import CallBody
from surehand.gateway.mcp.http.server import bind_sockets, listen


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def gateway_app() -> Starlette:
    """Our gateway with the tool `add`."""
    return gateway.app(Runtime(tool(add, effects={"read"})))


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


APPS = {"gateway": gateway_app, "bare": bare_app}


async def serve(kind: str) -> None:
    """Serve one kind of app until the process is killed."""
    sockets = bind_sockets("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    await listen(APPS[kind](), sockets, ready=lambda: print(port, flush=True))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fastest_loop_factory()) as runner:
        runner.run(serve(sys.argv[1]))
