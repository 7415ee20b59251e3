"""A server on loopback, and a `RestSender` that may reach it: what the tests of requests and responses share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from surehand.core.outcome import Done
from surehand.http.request import build_request
from surehand.http.target import parse_target
from surehand.providers.rest.response_reader import ResponseReader
from surehand.providers.rest.sender import RestSender
from tests.http.server import Asked, Server, serving


class Exchange:
    """Sends requests to the server of a test."""

    def __init__(self, server: Server, sender: RestSender) -> None:
        self.server = server
        self.sender = sender
        self.progress: list[Mapping[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def send(
        self,
        path: str = "/",
        method: str = "GET",
        *,
        body: Any = None,
        headers: Any = None,
        reader: Any = None,
        **more: Any,
    ) -> Done:
        request = build_request(method, parse_target(self.url + path), headers, body)
        return await self.sender.send(request, reader or ResponseReader(), self.progress.append, **more)


@asynccontextmanager
async def exchanging(answer: Callable[[Asked], Any], **options: Any) -> AsyncIterator[Exchange]:
    async with (
        serving(answer) as server,
        RestSender([parse_target(f"http://127.0.0.1:{server.port}")], **options) as sender,
    ):
        yield Exchange(server, sender)
