"""Requests of MCP clients count against the limits of their token."""

import asyncio
from typing import Any

import httpx2
import pytest

from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token
from tests.gateway.api.served_gateway import Gate, ServedGateway, bearer, build_runtime, serve
from tests.gateway.mcp.http_peer import META, MODERN_VERSION, message

FEW = bearer_tokens(Token(hash_token("few"), "ada", concurrent=1), Token(hash_token("free"), "ada", name="free"))
ACCEPT = {"accept": "application/json, text/event-stream"}


async def modern_call(gateway: ServedGateway, tool: str, arguments: Any, token: str = "few") -> httpx2.Response:
    names = {"mcp-protocol-version": MODERN_VERSION, "mcp-method": "tools/call", "mcp-name": tool}
    body = message("tools/call", 1, name=tool, arguments=arguments, _meta=META)
    return await gateway.client.post("/mcp", json=body, headers={**ACCEPT, **names, **bearer(token)})


class Session:
    """A session of the handshake protocol."""

    def __init__(self, gateway: ServedGateway) -> None:
        self._gateway = gateway
        self._headers = {**ACCEPT, **bearer("few")}
        self._id = 1

    async def begin(self) -> None:
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        began = await self.send("initialize", **info)
        self._headers["mcp-session-id"] = began.headers["mcp-session-id"]
        await self.notify("notifications/initialized")

    async def send(self, method: str, **params: Any) -> httpx2.Response:
        self._id += 1
        body = message(method, self._id, **params)
        return await self._gateway.client.post("/mcp", json=body, headers=self._headers)

    async def notify(self, method: str) -> httpx2.Response:
        body = {"jsonrpc": "2.0", "method": method}
        return await self._gateway.client.post("/mcp", json=body, headers=self._headers)


@pytest.mark.parametrize("is_modern", [True, False])
async def test_a_token_has_no_more_requests_in_flight_than_it_may(is_modern: bool) -> None:
    gate = Gate()
    async with serve(build_runtime(gate.tool), auth=FEW) as gateway:
        session = Session(gateway)
        if is_modern:
            running = asyncio.create_task(modern_call(gateway, "wait", {}))
        else:
            await session.begin()
            running = asyncio.create_task(session.send("tools/call", name="wait", arguments={}))
        await gate.started.wait()
        over_mcp = await modern_call(gateway, "add", {"a": 1, "b": 2})
        in_session = None if is_modern else await session.send("tools/list")
        notified = None if is_modern else await session.notify("notifications/roots/list_changed")
        over_http = await gateway.call("add", {"a": 1, "b": 2}, token="few")
        other = await modern_call(gateway, "add", {"a": 1, "b": 2}, token="free")
        gate.opened.set()
        first = await running
        later = await modern_call(gateway, "add", {"a": 1, "b": 2})

    assert over_mcp.status_code == over_http.status_code == 429
    assert over_mcp.headers["retry-after"] == over_http.headers["retry-after"] == "1"
    assert in_session is None or in_session.status_code == 429
    assert notified is None or notified.status_code == 202
    assert other.status_code == later.status_code == 200
    assert "opened" in first.text


async def test_a_call_over_http_takes_the_place_of_one_over_mcp() -> None:
    gate = Gate()
    async with serve(build_runtime(gate.tool), auth=FEW) as gateway:
        running = asyncio.create_task(gateway.call("wait", token="few"))
        await gate.started.wait()
        over_mcp = await modern_call(gateway, "add", {"a": 1, "b": 2})
        gate.opened.set()
        await running

    assert over_mcp.status_code == 429
