"""A program at the other end of a webhook, on a loopback port: it keeps what it gets, and answers as it is told."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from surehand.gateway.mcp.http.server import bind_sockets, listen
from surehand.gateway.webhooks.signatures import new_webhook_secret, verify_webhook

SECRET = new_webhook_secret()
OLD_SECRET = new_webhook_secret()


@dataclass
class Delivery:
    """One request that arrived."""

    id: str
    body: bytes
    headers: dict[str, str]

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.body)["data"]


@dataclass
class Receiver:
    """Acknowledges with 204, unless it is given other statuses."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    deliveries: "asyncio.Queue[Delivery]" = field(default_factory=asyncio.Queue)
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared, it keeps the requests that arrive waiting."""

    def __post_init__(self) -> None:
        self.opened.set()

    async def receive(self, request: Request) -> Response:
        body = await request.body()
        message_id = verify_webhook(body, request.headers, [SECRET])
        self.deliveries.put_nowait(Delivery(message_id, body, dict(request.headers)))
        await self.opened.wait()
        return Response(status_code=self.statuses.pop(0) if self.statuses else 204)

    async def next(self) -> Delivery:
        async with asyncio.timeout(20):
            return await self.deliveries.get()


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncIterator[Receiver]:
    """A receiver that is served while the context is entered."""
    program = Receiver(statuses=[*statuses])
    sockets = bind_sockets("127.0.0.1", 0)
    program.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/waits"
    app = Starlette(routes=[Route("/waits", program.receive, methods=["POST"])])
    ready = asyncio.Event()
    server = asyncio.create_task(listen(app, sockets, ready=ready.set))
    await ready.wait()
    try:
        yield program
    finally:
        server.cancel()
        await asyncio.wait({server})
