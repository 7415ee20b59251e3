"""Connections that are opened and closed repeatedly leave no objects and no log records."""

import logging

import pytest
from mcp.server import MCPServer

from surehand import Pending, Runtime, mcp, tool
from surehand.providers.mcp import Server
from tests.gateway.mcp.sdk_clients import http_server
from tests.object_leaks import count_leaked_objects
from tests.providers.mcp.steady_server import SteadyServer
from tests.providers.mcp.transports.test_websocket import bridge, listening

PROTOCOLS = ("auto", "legacy")


@tool
async def echo(text: str) -> str:
    """Give back the text."""
    return text


@tool(confirm=True)
async def pay(amount: int) -> int:
    """Pay somebody."""
    return amount


def served() -> MCPServer:
    made = MCPServer("memory")

    @made.tool()
    async def echo(text: str) -> str:
        """Give back the text."""
        return text

    return made


async def call_once(provider: Server) -> None:
    async with Runtime(provider) as runtime:
        assert (await runtime.call(f"{provider.namespace}__echo", {"text": "x"})).ok


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_connections_to_an_in_process_server_are_garbage_collected(protocol):
    made = served()

    assert await count_leaked_objects(lambda: call_once(mcp.server(made, protocol=protocol))) == {}


@pytest.mark.long
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_connections_over_http_are_garbage_collected(protocol):
    async with http_server(Runtime(echo)) as url:

        async def connect() -> None:
            await call_once(mcp.http(url, namespace="web", manifest=False, protocol=protocol))

        assert await count_leaked_objects(connect) == {}


@pytest.mark.long
@pytest.mark.timeout(30)
async def test_connections_over_stdio_are_garbage_collected(steady: SteadyServer):
    assert await count_leaked_objects(lambda: call_once(steady.provider()), times=8, warm=2) == {}


@pytest.mark.long
async def test_connections_over_a_websocket_are_garbage_collected(monkeypatch):
    made = served()
    monkeypatch.setattr("tests.providers.mcp.transports.test_websocket.friendly", lambda: made)
    async with listening(bridge) as url:
        assert await count_leaked_objects(lambda: call_once(mcp.websocket(url, namespace="ws", manifest=False))) == {}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_closing_during_a_question_logs_nothing(protocol, caplog):
    async with (
        http_server(Runtime(pay)) as url,
        Runtime(mcp.http(url, namespace="web", manifest=False, protocol=protocol)) as runtime,
    ):
        assert isinstance(await runtime.call("web__pay", {"amount": 1}), Pending)

    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []
