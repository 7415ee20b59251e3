"""Servers over streamable HTTP and SSE, in both protocols, and what each failure means for its request."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest
from mcp import Client, MCPError

from surehand import Runtime, mcp
from surehand.core.errors import DefinitionError, NotStarted
from surehand.http.settings import HttpSettings
from surehand.providers.mcp.addresses.http import HttpAddress, SseAddress
from surehand.providers.mcp.connection_errors import failure_from_error
from surehand.providers.mcp.connection_owner import ConnectionOwner
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from tests.http.server import port_of_nobody
from tests.providers.mcp.peers import start_friendly_http
from tests.providers.mcp.peers.raw_http_server import SERVERS_BY_URL, serve_raw_http

pytestmark = pytest.mark.timeout(30, func_only=True)  # starting a real server takes a while, once
INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "x", "version": "1"},
}


@asynccontextmanager
async def connected(address, mode="legacy", ended=lambda reason: None, who=None, way=None):
    way = (-1 if isinstance(address, SseAddress) else 0) if way is None else way
    async with Client(address.create_transports(who or ConnectionOwner(), ended)[way], mode=mode) as client:
        yield client


async def failure_of_connection(address, **options):
    """What a connection that cannot be made has met."""
    try:
        async with connected(address, **options):
            raise AssertionError("connected")
    except Exception as error:  # noqa: BLE001 - any error of the MCP SDK
        return failure_from_error(error)


async def answered(asked, **answers):
    """A scripted server of the handshake protocol: `answers` are functions by the method that they answer."""
    if asked.method != "POST":
        return await asked.answer(405)
    method = asked.message["method"]
    if (answer := answers.get(method.replace("/", "_"))) is not None:
        return await answer(asked)
    if method == "initialize":
        return await asked.result(INITIALIZED, mcp_session_id="s1")
    if method == "tools/list":
        return await asked.result({"tools": []})
    return await asked.answer(202)


def by_hand(**answers):
    async def handle(asked):
        await answered(asked, **answers)

    return serve_raw_http(handle)


@pytest.fixture(scope="module")
def http_server():
    with start_friendly_http("streamable-http") as port:
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(scope="module")
def sse_server():
    with start_friendly_http("sse") as port:
        yield f"http://127.0.0.1:{port}/sse"


@pytest.mark.parametrize(("mode", "protocol"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_both_protocols_work_over_both_http_transports(http_server, sse_server, mode, protocol):
    for address in (HttpAddress(http_server), SseAddress(sse_server)):
        async with connected(address, mode) as client:
            assert client.protocol_version == protocol
            await many(client)


async def many(client):
    answers = await asyncio.gather(*(client.call_tool("echo", {"text": f"{n}"}) for n in range(16)))
    assert [answer.content[0].text for answer in answers] == [f"{n}" for n in range(16)]


async def test_a_server_that_supports_only_sse_is_found_by_fallback(sse_server):
    address = HttpAddress(sse_server)

    with pytest.raises((MCPError, ExceptionGroup)) as caught:
        async with connected(address):
            pass

    assert address.should_try_next_transport(caught.value)
    async with connected(address, way=1) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


def test_streamable_http_is_tried_first_and_sse_only_if_allowed():
    names = [
        [type(target).__name__ for target in address.create_transports(ConnectionOwner(), print)] for address in ways()
    ]

    assert names == [
        ["StreamableHttpTransport", "SseTransport"],
        ["StreamableHttpTransport"],
        ["StreamableHttpTransport", "SseTransport"],
    ]


def ways():
    url = "https://example.com/mcp"
    return HttpAddress(url), HttpAddress(url, sse_fallback=False), SseAddress(url)


@pytest.mark.parametrize(
    ("status", "sent", "hopeless", "other_way", "message"),
    [
        (400, True, False, True, "status 400"),
        (401, False, True, False, "asks for a login (401)"),
        (403, False, True, False, "does not let us in (403)"),
        (404, True, False, True, "no such address (404)"),
        (405, True, False, True, "not taken here (405)"),
        (406, True, False, True, "status 406"),
        (408, True, False, False, "status 408"),
        (429, True, False, False, "slow down (429)"),
        (500, True, False, False, "status 500"),
        (503, True, False, False, "status 503"),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_refused_connection_says_why(status, sent, hopeless, other_way, message, mode):
    async def refuse(asked):
        await asked.answer(status, "<html>no</html>", content_type="text/html")

    async with serve_raw_http(refuse) as url:
        address = HttpAddress(f"{url}/mcp")
        with pytest.raises((MCPError, ExceptionGroup)) as caught:
            async with connected(address, mode):
                pass

    failure = failure_from_error(caught.value)
    assert (failure.was_sent, failure.status, failure.is_retryable) == (sent, status, False)
    assert failure.is_server_answer == (status in (400, 404, 405, 406))
    assert message in failure.message
    assert (address.is_permanent_error(caught.value), address.should_try_next_transport(caught.value)) == (
        hopeless,
        other_way,
    )


async def test_an_unreachable_server_was_sent_nothing():
    with port_of_nobody() as port:
        for address in (HttpAddress(f"http://127.0.0.1:{port}/mcp"), SseAddress(f"http://127.0.0.1:{port}/sse")):
            failure = await failure_of_connection(address)
            assert (failure.was_sent, failure.is_connection_lost, failure.is_permanent) == (False, True, False)
            assert "127.0.0.1 could not be reached" in failure.message


async def test_an_outage_is_logged_once_with_url_and_cause_and_without_secrets(caplog):
    async def offer(asked):
        await asked.result({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})

    async def handle(asked):
        await answered(asked, tools_list=offer)

    caplog.set_level(logging.WARNING, "surehand")
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(serve_raw_http(handle))
        back = mcp.http(f"{url}/mcp/sk-hunter2hunter2?token=hunter3", namespace="back", manifest=False)
        async with Runtime(back) as runtime:
            await stack.aclose()
            outcomes = [await runtime.call("back__echo") for _ in range(3)]
            with pytest.raises(NotStarted) as failed:
                await back.refresh(None)  # it is tried at once, and in vain

    why = "127.0.0.1 could not be reached (connection refused)."
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"The MCP server back ({url}/mcp/***) is down: {why}")
    assert f"The MCP server back ({url}/mcp/***) is not connected: {why}" in str(failed.value)
    assert all(f"The MCP server back is not connected: {why}" in each.text for each in outcomes)
    assert "hunter" not in "".join([*warnings, str(failed.value), *(each.text for each in outcomes)])


async def test_a_server_that_never_came_up_is_reported_with_its_url(caplog):
    with port_of_nobody() as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with Runtime(mcp.http(f"{url}?token=hunter2", namespace="back", manifest=False)):
            pass

    [warning] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warning.startswith(f"Provider back is unavailable: The MCP server back ({url}) is not connected: ")
    assert "(connection refused)" in warning


async def test_an_unknown_host_is_named():
    async def no_addresses(host, port):
        return []

    failure = await failure_of_connection(
        HttpAddress("http://mcp.example/mcp", settings=HttpSettings(resolver=no_addresses))
    )

    assert (failure.was_sent, failure.is_connection_lost) == (False, True)
    assert "There is no host mcp.example" in failure.message


async def test_a_request_in_a_forgotten_session_was_not_executed_and_the_session_is_lost():
    async def forgotten(asked):
        error = {"code": -32600, "message": "Session not found"}
        await asked.answer(404, {"jsonrpc": "2.0", "id": "server-error", "error": error})

    async with by_hand(tools_call=forgotten) as url, connected(HttpAddress(url)) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("echo", {})

    failure = failure_from_error(caught.value)
    assert (failure.was_sent, failure.is_connection_lost, failure.status) == (False, True, 404)
    assert failure.message == "The server does not know this session any more."


async def test_an_error_of_one_request_does_not_affect_others():
    asked_for = []

    async def sometimes(asked):
        name = asked.message["params"]["name"]
        asked_for.append(name)
        if name == "break":
            asked.writer.close()
        elif name == "cut":
            asked.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
            asked.writer.close()
        elif name == "stream":
            await asked.events('data: {"jsonrpc": "2.0", "method": "notifications/x"}')
            asked.writer.close()
        elif name == "500":
            await asked.answer(500)
        else:
            await asyncio.sleep(0.05)
            await asked.result({"content": [{"type": "text", "text": name}]})

    async with by_hand(tools_call=sometimes) as url, connected(HttpAddress(url)) as client:
        names = ["good", "break", "cut", "stream", "500", "good"]
        results = await asyncio.gather(*(client.call_tool(name, {}) for name in names), return_exceptions=True)

    assert sorted(asked_for) == sorted(names)  # each went out once: nothing is sent a second time
    for name, result in zip(names, results, strict=True):
        if name == "good":
            assert result.content[0].text == "good"
        else:
            failure = failure_from_error(result)
            assert (failure.was_sent, failure.is_connection_lost, failure.is_server_answer) == (True, False, False), (
                name
            )


async def test_an_error_response_means_that_the_request_was_received():
    async def wrong(asked):
        error = {"code": -32602, "message": "no such tool"}
        await asked.answer(400, {"jsonrpc": "2.0", "id": asked.message["id"], "error": error})

    async with by_hand(tools_call=wrong) as url, connected(HttpAddress(url)) as client:
        with pytest.raises(MCPError, match="no such tool") as caught:
            await client.call_tool("echo", {})

    assert (failure_from_error(caught.value).is_server_answer, failure_from_error(caught.value).is_connection_lost) == (
        True,
        False,
    )


async def test_a_server_cannot_claim_that_nothing_was_sent():
    async def forged(asked):
        data = {"failure-0000000000000000": "1"}
        error = {"code": -32000, "message": "x", "data": data}
        await asked.answer(200, {"jsonrpc": "2.0", "id": asked.message["id"], "error": error})

    async with by_hand(tools_call=forged) as url, connected(HttpAddress(url)) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("echo", {})

    assert failure_from_error(caught.value).was_sent


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_that_is_too_large_fails_only_its_request(streamed):
    async def big(asked):
        content = [{"type": "text", "text": "x" * int(asked.message["params"]["name"])}]
        result = {"jsonrpc": "2.0", "id": asked.message["id"], "result": {"content": content}}
        if streamed:
            await asked.events(f"data: {json.dumps(result)}")
            asked.writer.close()
        else:
            await asked.answer(200, result)

    async with by_hand(tools_call=big) as url, connected(HttpAddress(url, max_frame="64KiB")) as client:
        assert len((await client.call_tool("60000", {})).content[0].text) == 60_000
        with pytest.raises(MCPError) as caught:
            await client.call_tool("70000", {})
        assert len((await client.call_tool("1000", {})).content[0].text) == 1000

    failure = failure_from_error(caught.value)
    assert (failure.was_sent, failure.is_connection_lost) == (True, False)
    assert "65536" in failure.message


async def test_a_silent_notification_stream_outlives_the_read_timeout_and_a_silent_response_does_not(http_server):
    address, changed = HttpAddress(http_server, settings=HttpSettings(read_timeout=2.0)), asyncio.Event()

    async def heard(message):
        changed.set()

    async with Client(
        address.create_transports(ConnectionOwner(), print)[0], mode="legacy", message_handler=heard
    ) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("hang", {})  # meanwhile, the stream of news was quiet for as long
        await client.call_tool("grow", {})
        await changed.wait()

    assert (failure_from_error(caught.value).was_sent, failure_from_error(caught.value).is_connection_lost) == (
        True,
        False,
    )


async def test_a_subscription_of_the_modern_protocol_outlives_the_read_timeout(http_server):
    address = HttpAddress(http_server, settings=HttpSettings(read_timeout=2.0))

    async with connected(address, "auto") as client, client.listen(tools_list_changed=True) as news:
        await asyncio.sleep(2.3)
        await client.call_tool("grow", {"named": "second"})
        assert await anext(aiter(news))


@pytest.mark.parametrize("how", ["gone", "restarted"])
async def test_the_end_of_the_server_is_reported_to_an_open_session(how):
    reasons, opened, over = asyncio.Queue(), asyncio.Event(), asyncio.Event()

    async def handle(asked):
        if asked.method != "GET":
            await answered(asked)
        elif over.is_set():
            await asked.answer(404)
        else:
            await asked.events("retry: 10\ndata:")
            opened.set()
            await over.wait()
            asked.writer.close()

    async with serve_raw_http(handle) as url, connected(HttpAddress(url), ended=reasons.put_nowait):
        await opened.wait()
        if how == "gone":
            SERVERS_BY_URL[url].close()
        over.set()
        reason = await reasons.get()

    expected = {"gone": "could not be reached", "restarted": "does not know this session any more"}
    assert expected[how] in reason
    assert reasons.empty()


async def test_the_end_of_an_sse_stream_is_reported_and_fails_waiting_requests():
    posted = asyncio.Event()
    reasons = []

    async def sse_server(asked):
        if asked.method == "GET":
            await asked.events("event: endpoint\ndata: /messages?session_id=1")
            sse_server.stream = asked
            await posted.wait()
            asked.writer.close()
        elif asked.message.get("method") == "initialize":
            await asked.answer(202)
            reply = {"jsonrpc": "2.0", "id": asked.message["id"], "result": INITIALIZED}
            await sse_server.stream.event(f"event: message\ndata: {json.dumps(reply)}")
        else:
            await asked.answer(202)
            if asked.message.get("method") == "tools/call":
                posted.set()

    async with serve_raw_http(sse_server) as url, connected(SseAddress(f"{url}/sse"), ended=reasons.append) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("echo", {})

    failure = failure_from_error(caught.value)
    assert (failure.was_sent, failure.is_connection_lost, [failure.message]) == (True, True, reasons)


async def test_a_failed_post_over_sse_fails_its_request():
    async def sse_server(asked):
        if asked.method == "GET":
            await asked.events("event: endpoint\ndata: /messages")
            sse_server.stream = asked
            await asyncio.Event().wait()
        elif asked.message.get("method") == "initialize":
            await asked.answer(202)
            reply = {"jsonrpc": "2.0", "id": asked.message["id"], "result": INITIALIZED}
            await sse_server.stream.event(f"data: {json.dumps(reply)}")
        else:
            await asked.answer(404 if asked.message.get("method") == "tools/call" else 500)

    async with serve_raw_http(sse_server) as url, connected(SseAddress(f"{url}/sse")) as client:
        with pytest.raises(Exception, match="does not know this session") as caught:
            await client.call_tool("echo", {})

    assert (failure_from_error(caught.value).was_sent, failure_from_error(caught.value).is_connection_lost) == (
        False,
        True,
    )


async def test_sse_posts_to_no_other_server():
    async def elsewhere(asked):
        await asked.events("event: endpoint\ndata: http://169.254.169.254/latest")
        await asyncio.Event().wait()

    async with serve_raw_http(elsewhere) as url:
        failure = await failure_of_connection(SseAddress(f"{url}/sse"))

    assert (failure.was_sent, failure.is_permanent) == (False, True)
    assert "another server" in failure.message


async def test_only_the_named_host_may_be_private():
    hits = []

    async def inside(asked):
        hits.append(asked)
        await asked.answer(200)

    async def leading(asked):
        await asked.answer(307, location=inner.replace("127.0.0.1", "127.0.0.2"))

    async with serve_raw_http(inside, "0.0.0.0") as anywhere, serve_raw_http(leading) as url:
        inner = anywhere.replace("0.0.0.0", "127.0.0.1")
        for address in (HttpAddress(f"{url}/mcp"), SseAddress(f"{url}/sse")):
            await failure_of_connection(address)

        async with _client(HttpAddress(url)) as client:
            with pytest.raises(Exception, match="private addresses may not be reached"):
                await client.get(inner.replace("127.0.0.1", "127.0.0.2"))
            assert (await client.get(inner)).status_code == 200  # another port of the host itself

    assert len(hits) == 1


@asynccontextmanager
async def _client(address):
    from surehand.http.transport import GuardedClient
    from surehand.providers.mcp.transports.http_client import build_client_options

    options = await build_client_options(address, ConnectionOwner(), ConnectionSecrets())
    async with GuardedClient(address.settings, **options) as client:
        yield client


async def test_headers_and_sign_in_belong_to_the_owner_and_are_never_logged(caplog):
    caplog.set_level(logging.DEBUG)
    seen = []

    async def initialize(asked):
        seen.append((asked.headers.get("x-user"), asked.headers.get("authorization")))
        await asked.result(INITIALIZED)

    async def headers(who):
        return {"X-User": f"canary-{who.user}"}

    async with by_hand(initialize=initialize) as url:
        address = HttpAddress(url, headers=headers, auth=Login())
        for user in ("ada", "bob"):
            async with connected(address, who=ConnectionOwner(user)):
                pass

    assert seen == [("canary-ada", "Bearer secret-ada"), ("canary-bob", "Bearer secret-bob")]
    assert "canary" not in caplog.text
    assert "secret-" not in caplog.text


class Login:
    def auth_for(self, who, url):
        import httpx2

        class Bearer(httpx2.Auth):
            def auth_flow(self, request):
                request.headers["Authorization"] = f"Bearer secret-{who.user}"
                yield request

        return Bearer()


async def test_a_failed_sign_in_fails_only_its_request():
    class Failing:
        def auth_for(self, who, url):
            import httpx2

            class Auth(httpx2.Auth):
                def auth_flow(self, request):
                    raise LookupError("nobody is at the browser")
                    yield request

            return Auth()

    async with by_hand() as url:
        failure = await failure_of_connection(HttpAddress(url, auth=Failing()))

    assert "nobody is at the browser" in failure.message


@pytest.mark.parametrize("leave", ["scope", "cancel"])
async def test_a_connection_can_be_closed_during_a_call(leave):
    async def stay(asked):
        await asyncio.Event().wait()

    async with by_hand(tools_call=stay) as url:
        begun = asyncio.Event()

        async def call():
            async with connected(HttpAddress(url)) as client:
                asyncio.get_running_loop().call_later(0.1, begun.set)
                await client.call_tool("echo", {})

        task = asyncio.create_task(call())
        await begun.wait()
        task.cancel()
        await asyncio.wait({task})

        if leave == "scope":
            with anyio.move_on_after(0.1) as scope:
                await call()
            assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("url", "label", "namespace"),
    [
        ("https://www.example.com:8443/mcp", "https://www.example.com:8443/mcp", "example-com"),
        ("https://Mcp.Example.com", "https://mcp.example.com/", "mcp-example-com"),
        ("http://127.0.0.1:3000/mcp", "http://127.0.0.1:3000/mcp", "127-0-0-1"),
        ("https://example.com/mcp?key=secret#x", "https://example.com/mcp", "example-com"),
    ],
)
def test_the_namespace_is_the_host_and_the_label_has_no_secrets(url, label, namespace):
    address = HttpAddress(url)

    assert (address.label, address.namespace) == (label, namespace)
    assert "secret" not in address.identity


def test_two_queries_are_two_servers():
    identities = {HttpAddress(f"https://example.com/mcp{query}").identity for query in ("", "?a=1", "?a=2")}

    assert len(identities) == 3
    assert "http:https://example.com/mcp" in identities


@pytest.mark.parametrize("url", ["ftp://example.com", "example.com", "https://u:p@example.com/", "http://", 5])
def test_an_invalid_url_is_a_definition_error(url):
    with pytest.raises(DefinitionError) as caught:
        HttpAddress(url)

    assert "u:p" not in str(caught.value)
