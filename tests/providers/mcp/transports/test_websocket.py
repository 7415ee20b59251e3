"""Servers over a WebSocket: a real one on loopback that bridges to a server of the MCP SDK."""

import asyncio
import json
import ssl
from contextlib import asynccontextmanager

import anyio
import pytest
import trustme
from mcp import Client, MCPError
from websockets.asyncio.server import serve

from surehand.core.errors import DefinitionError, NotStarted, ToolError
from surehand.http.settings import HttpSettings
from surehand.providers.mcp.addresses.websocket import WebSocketAddress
from surehand.providers.mcp.connection_errors import failure_from_error, innermost_error
from surehand.providers.mcp.connection_owner import ConnectionOwner
from tests.http.server import port_of_nobody
from tests.providers.mcp.addresses.test_in_process import friendly
from tests.providers.mcp.peers.websocket_bridge import bridge_websocket

INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "x", "version": "1"},
}


@asynccontextmanager
async def listening(handle, **options):
    async with serve(handle, "127.0.0.1", 0, subprotocols=["mcp"], **options) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


async def bridge(socket):
    await bridge_websocket(socket, friendly())


def by_hand(**tools):
    async def handle(socket):
        async for text in socket:
            asked = json.loads(text)
            if asked.get("method") == "initialize":
                await socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": INITIALIZED}))
            elif asked.get("method") == "tools/list":
                await socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"tools": []}}))
            elif asked.get("method") == "tools/call":
                await tools[asked["params"]["name"]](socket, asked)

    return handle


@asynccontextmanager
async def connected(address, mode="legacy", ended=lambda reason: None, who=None):
    (target,) = address.create_transports(who or ConnectionOwner(), ended)
    async with Client(target, mode=mode) as client:
        yield client


async def refusal(address):
    with pytest.raises((ToolError, ExceptionGroup)) as caught:
        async with connected(address):
            pass
    return innermost_error(caught.value)


@pytest.mark.parametrize(("mode", "protocol"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_both_protocols_work(mode, protocol):
    async with listening(bridge) as url, connected(WebSocketAddress(url), mode) as client:
        assert client.protocol_version == protocol
        answers = await asyncio.gather(*(client.call_tool("echo", {"text": f"{n}"}) for n in range(32)))

    assert [answer.content[0].text for answer in answers] == [f"{n}" for n in range(32)]


async def test_the_subprotocol_is_requested_and_headers_belong_to_the_user():
    seen = []

    async def look(socket):
        seen.append((socket.subprotocol, socket.request.headers["X-User"]))
        await by_hand()(socket)

    async with listening(look) as url:
        address = WebSocketAddress(url, headers=lambda who: {"X-User": who.user})
        async with connected(address, who=ConnectionOwner("ada")):
            pass

    assert seen == [("mcp", "ada")]


async def test_the_end_is_reported_with_the_close_reason():
    async def leave(socket, asked):
        await socket.close(1001, "going home")

    reasons = []
    async with listening(by_hand(leave=leave)) as url, connected(WebSocketAddress(url), ended=reasons.append) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("leave", {})
        with pytest.raises((MCPError, NotStarted)):
            await client.call_tool("leave", {})

    met = failure_from_error(caught.value)
    assert (met.was_sent, met.is_connection_lost, met.message) == (
        True,
        True,
        "The server closed the connection (1001: going home).",
    )
    assert reasons == [met.message]


async def test_a_broken_connection_is_reported():
    async def cut(socket, asked):
        socket.transport.abort()

    reasons = []
    async with listening(by_hand(cut=cut)) as url, connected(WebSocketAddress(url), ended=reasons.append) as client:
        with pytest.raises(MCPError):
            await client.call_tool("cut", {})

    assert reasons == ["The connection to the server broke off."]


async def test_a_message_that_is_too_large_ends_the_connection():
    async def big(socket, asked):
        await socket.send("x" * 70_000)

    async with listening(by_hand(big=big)) as url, connected(WebSocketAddress(url, max_frame="64KiB")) as client:
        with pytest.raises(MCPError, match="more than 65536 bytes") as caught:
            await client.call_tool("big", {})

    assert (failure_from_error(caught.value).was_sent, failure_from_error(caught.value).is_connection_lost) == (
        True,
        True,
    )


async def test_malformed_messages_are_dropped():
    async def odd(socket, asked):
        await socket.send("hello?")
        await socket.send(b"\xff\xfe")
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": []}}))

    async with listening(by_hand(odd=odd)) as url, connected(WebSocketAddress(url)) as client:
        assert (await client.call_tool("odd", {})).content == []


async def test_a_dead_connection_is_detected_by_pings():
    ended, over = asyncio.Event(), asyncio.Event()

    async def die(socket, asked):
        socket.transport.pause_reading()  # it is there, and answers nothing: not even a ping
        await over.wait()
        socket.transport.abort()

    async with listening(by_hand(die=die)) as url:
        address = WebSocketAddress(url, ping_interval=0.1)
        async with connected(address, ended=lambda reason: ended.set()) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("die", {})
            assert ended.is_set()
        over.set()

    assert failure_from_error(caught.value).is_connection_lost


async def test_a_connection_can_be_closed_at_any_time():
    async def stay(socket, asked):
        await socket.wait_closed()

    async with listening(by_hand(stay=stay)) as url:
        with anyio.move_on_after(0.3) as scope:
            async with connected(WebSocketAddress(url)) as client:
                await client.call_tool("stay", {})
        assert scope.cancelled_caught

        task = asyncio.create_task(called(WebSocketAddress(url), "stay"))
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.wait({task})


async def called(address, name):
    async with connected(address) as client:
        await client.call_tool(name, {})


@pytest.mark.parametrize(("status", "hopeless"), [(401, True), (403, True), (404, False), (500, False)])
async def test_a_refused_connection_says_why(status, hopeless):
    def refuse(connection, request):
        return connection.respond(status, "no")

    async with listening(by_hand(), process_request=refuse) as url:
        address = WebSocketAddress(url)
        error = await refusal(address)

    assert isinstance(error, NotStarted)
    assert str(status) in str(error)
    assert address.is_permanent_error(error) == hopeless


async def test_no_redirect_is_followed():
    def elsewhere(connection, request):
        response = connection.respond(302, "")
        response.headers["Location"] = url.replace("127.0.0.1", "127.0.0.2")
        return response

    async with listening(by_hand(), process_request=elsewhere) as url:
        assert isinstance(await refusal(WebSocketAddress(url)), NotStarted)


async def test_an_unreachable_server_was_sent_nothing():
    with port_of_nobody() as port:
        error = await refusal(WebSocketAddress(f"ws://127.0.0.1:{port}/mcp"))

    assert "127.0.0.1 could not be reached (connection refused)" in str(error)
    assert (failure_from_error(error).was_sent, failure_from_error(error).is_connection_lost) == (False, True)


async def test_a_host_name_that_resolves_to_a_link_local_address_is_refused():
    async def resolver(host, port):
        return ["169.254.169.254"]

    error = await refusal(WebSocketAddress("ws://metadata.example/", settings=HttpSettings(resolver=resolver)))

    assert "may not be reached" in str(error)


async def test_an_unknown_certificate_is_refused():
    authority = trustme.CA()
    there, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(there)
    authority.configure_trust(trusting)

    async with listening(by_hand(), ssl=there) as url:
        secure = url.replace("ws://127.0.0.1", "wss://localhost")
        async with connected(WebSocketAddress(secure, settings=HttpSettings(verify=trusting))):
            pass
        error = await refusal(WebSocketAddress(secure))

    assert "No secure connection to localhost" in str(error)
    assert not failure_from_error(error).was_sent


def test_the_namespace_is_the_host():
    address = WebSocketAddress("wss://www.example.com:9000/mcp?token=secret")

    assert (address.label, address.namespace) == ("wss://www.example.com:9000/mcp", "example-com")
    assert "secret" not in address.identity


@pytest.mark.parametrize("url", ["http://example.com", "ws://", 5, "wss://a:b@example.com"])
def test_an_invalid_url_is_a_definition_error(url):
    with pytest.raises(DefinitionError):
        WebSocketAddress(url)
