"""A gateway on a loopback port, a client for it, and a reader of its event streams."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from surehand import Context, Runtime, tool
from surehand.gateway.http_app import GatewayApp, app
from surehand.gateway.mcp.http.connection_table import ConnectionLimits
from surehand.gateway.mcp.http.server import bind_sockets, listen
from surehand.gateway.replaceable_app import ReplaceableApp


@tool(effects={"read"})
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects={"write"}, confirm=True)
async def pay(amount: int, ctx: Context) -> str:
    """Pay an amount."""
    return f"{ctx.user} paid {amount}"


@tool(effects={"read"})
async def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


pick = tool.client("pick", "Let the person pick a colour.", reply="later")


class Gate:
    """A tool that runs until the test lets it go."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.opened = asyncio.Event()

        @tool(effects={"read"}, timeout="off")
        async def wait() -> str:
            """Wait for the test."""
            self.started.set()
            await self.opened.wait()
            return "opened"

        self.tool = wait


def build_runtime(*tools: Any, **options: Any) -> Runtime:
    """A runtime with the tools above and more."""
    return Runtime(add, pay, fail, pick, *tools, **options)


@dataclass
class ServedGateway:
    """A gateway and a client that is connected to it."""

    api: Any
    client: httpx2.AsyncClient
    url: str
    server: asyncio.Task[None]

    async def stop(self) -> None:
        """Stop the server, as a signal does; its clients stay."""
        self.server.cancel()
        await asyncio.wait({self.server})

    def stream_call(self, name: str, arguments: Any = None, **body: Any) -> "EventReader":
        """Make a call whose events are read."""
        request = {"method": "POST", "json": {"arguments": arguments, **body}}
        return EventReader(self.client, f"/api/tools/{name}/call", {"accept": "text/event-stream"}, **request)

    async def call(self, name: str, arguments: Any = None, *, token: str | None = None, **body: Any) -> httpx2.Response:
        return await self.client.post(
            f"/api/tools/{name}/call", json={"arguments": arguments, **body}, headers=bearer(token)
        )

    def events(self, path: str = "/api/events", *, token: str | None = None, **headers: str) -> "EventReader":
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return EventReader(self.client, path, {**bearer(token), **names})


async def until(is_true: Callable[[], Any]) -> None:
    """Wait for something of which no event tells."""
    for _ in range(1_000):
        if is_true():
            return
        await asyncio.sleep(0.05)
    raise TimeoutError


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


class EventReader:
    """Reads server-sent events: `async with gateway.events() as events: await events.next()`."""

    def __init__(self, client: httpx2.AsyncClient, path: str, headers: dict[str, str], **request: Any) -> None:
        self._request = client.stream(request.pop("method", "GET"), path, headers=headers, timeout=20, **request)

    async def __aenter__(self) -> "EventReader":
        self.response = await self._request.__aenter__()
        self._lines = self.response.aiter_lines()
        if self.response.status_code == 200:
            await anext(self._lines)  # the first comment: the server listens from here on
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._request.__aexit__(*error)

    async def next(self) -> dict[str, Any] | None:
        """The next event, with its name and id; None at the end of the stream."""
        event: dict[str, Any] = {}
        async for line in self._lines:
            if not line and event:
                return event
            name, _, value = line.partition(": ")
            if name == "data":
                event.update(json.loads(value))
            elif name in ("event", "id"):
                event[f"sse_{name}"] = value
        return None

    async def until(self, name: str) -> list[dict[str, Any]]:
        """The events up to and including the first with a name."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
            if event.get("sse_event") == name:
                break
        return events

    async def rest(self) -> list[dict[str, Any]]:
        """All events to the end of the stream."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events


@asynccontextmanager
async def serve(
    runtime: Runtime, *, connections: ConnectionLimits | None = None, **options: Any
) -> AsyncIterator[ServedGateway]:
    """Serve a runtime on a free port of this machine."""
    async with serve_app(app(runtime, **options), connections=connections) as gateway:
        yield gateway


@asynccontextmanager
async def serve_app(
    api: GatewayApp | ReplaceableApp, *, connections: ConnectionLimits | None = None
) -> AsyncIterator[ServedGateway]:
    """Serve an app on a free port of this machine."""
    sockets = bind_sockets("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    ready = asyncio.Event()
    server = asyncio.create_task(
        listen(
            api,
            sockets,
            ready=ready.set,
            on_stop=api.begin_shutdown,
            limits=connections,
            refusal=api.early_refusal,
        )
    )
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({server, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if server.done():
        await server
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    try:
        async with httpx2.AsyncClient(base_url=url, timeout=20, limits=limits, trust_env=False) as client:
            yield ServedGateway(api, client, url, server)
    finally:
        server.cancel()
        await asyncio.wait({server})
