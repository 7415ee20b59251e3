"""Direct calls over HTTP: their responses equal those of the MCP SDK."""

import asyncio
import json
import re
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server import _streamable_http_modern as library
from mcp.server import streamable_http_manager as manager
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp_types import ElicitResult

from surehand import Context, Done, Image, Pending, Provider, Runtime, Tool, ToolError, tool
from surehand.gateway.mcp.direct_calls import DirectCalls
from surehand.gateway.mcp.http import app as web
from surehand.gateway.mcp.http import reply, sessions
from surehand.gateway.mcp.runtime_server import RuntimeServer
from tests.gateway.mcp.http_peer import (
    HANDSHAKE_VERSION,
    MODERN_VERSION,
    call_request,
    http_site,
    modern_request,
    request,
)
from tests.gateway.mcp.sdk_clients import HANDSHAKE, http_client, within
from tests.gateway.mcp.stdio_peer import META, TIMEOUT_SECONDS, call, message
from tests.gateway.mcp.stopped_clock import stopped_clock

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
FORM = {"elicitation": {"form": {}}}
WITH_TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
BEGUN: list[str] = []
ENDED: list[str] = []


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def echo(value: Any = None) -> Any:
    """Say the same."""
    return value


@tool
async def fail() -> str:
    """Fail."""
    raise ToolError("It is closed. Try tomorrow.")


@tool
async def crash() -> str:
    """Break."""
    raise RuntimeError("/etc/secret")


@tool
async def picture() -> Done:
    """A picture, and what it says."""
    return Done({"says": "é"}, attachments=[Image("aGk=")])


@tool(max_bytes=1_000)
async def large() -> str:
    """Say much."""
    return "line\n" * 400


@tool(effects={"write"}, confirm=True, confirm_message="Pay?")
async def pay(amount: int) -> int:
    """Pay somebody."""
    return amount


@tool(provider_options={"mcp": {"execution": {"taskSupport": "optional"}}})
async def lengthy() -> str:
    """What may be a task."""
    return "over"


@tool
async def wait(name: str = "", seconds: float = 60) -> str:
    """Wait for long."""
    BEGUN.append(name)
    try:
        await asyncio.sleep(seconds)
    finally:
        ENDED.append(name)
    return name


@pytest.fixture(autouse=True)
def nothing_begun():
    BEGUN.clear()
    ENDED.clear()


async def begun(name: str) -> None:
    while name not in BEGUN:  # noqa: ASYNC110 - it is another task that begins
        await asyncio.sleep(0)


async def ended(name: str) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while name not in ENDED:  # noqa: ASYNC110 - it is another task that ends
            await asyncio.sleep(0.01)


class Slow(Provider):
    """Asks a person after a while."""

    name = "slow"

    async def tools(self) -> list[Tool[..., Any]]:
        return [tool.provided("ask", "Ask a person.", effects={"read"})]

    async def invoke(self, call: Any, context: Context) -> Any:
        await asyncio.sleep(0.1)
        return Pending("input", message="Who?", request={"type": "object", "properties": {"who": {"type": "string"}}})

    async def resume(self, call: Any, state: Any, answer: Any, context: Any) -> Any:
        return {"heard": answer}


TOOLS = (add, echo, fail, crash, picture, large, pay, lengthy, wait)


class Ways:
    """How many requests went which way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.long = self.short = 0
        handle, post, made = (
            manager.handle_modern_request,
            StreamableHTTPServerTransport._handle_post_request,
            DirectCalls.call,
        )

        async def handled(*given: Any) -> None:
            self.long += 1
            await handle(*given)

        async def posted(*given: Any) -> None:
            self.long += 1
            await post(*given)

        def called(*given: Any) -> Any:
            self.short += 1
            return made(*given)

        monkeypatch.setattr(manager, "handle_modern_request", handled)
        monkeypatch.setattr(StreamableHTTPServerTransport, "_handle_post_request", posted)
        monkeypatch.setattr(DirectCalls, "call", called)


@pytest.fixture
def ways(monkeypatch):
    return Ways(monkeypatch)


@asynccontextmanager
async def both(monkeypatch):
    """The same tools behind the short way, and behind the library alone."""
    async with http_site(*TOOLS) as short, http_site(*TOOLS) as long:

        async def ask(data: bytes) -> tuple[Any, Any]:
            answers = [await short.ask(data)]
            with monkeypatch.context() as without:
                without.setattr(RuntimeServer, "direct_calls", None)
                answers.append(await long.ask(data))
            return tuple((each.status, each.headers.get("content-type"), known(each.body)) for each in answers)

        yield ask


def known(body: bytes) -> bytes:
    """The same without what differs from call to call, and with all characters beyond ASCII escaped."""
    return _VARIES.sub(b"ID", b"\n".join(escaped(each) for each in body.split(b"\n")))


def escaped(line: bytes) -> bytes:
    start, brace, rest = line.partition(b"{")
    return start + json.dumps(json.loads(brace + rest)).encode() if brace else line


_VARIES = re.compile(
    rb"(?<![A-Za-z])[0-9a-z_-]*[0-9][0-9A-Za-z_-]{15,}|(?<=output-)[0-9a-f]{8}|[0-9-]{10}T[0-9:.]{12}Z"
)


def capable(tool: str, able: Any, /, **arguments: Any) -> bytes:
    meta = {**META, CAPABILITIES: able}
    return modern_request("tools/call", 1, name=tool, arguments=arguments, _meta=meta)


SHORT = {
    "a value": call_request("add", a=1, b=2),
    "an id that is a text": call_request("add", id="é", a=1, b=2),
    "a large id": call_request("add", id=10**30, a=1, b=2),
    "an object": call_request("echo", value={"b": None, "a": [1.5, "é\u2028", {}], "c": 10**20}),
    "a list": call_request("echo", value=[1, None]),
    "a text": call_request("echo", value="é \ud83d\ude00 \x01 </script>"),
    "nothing": call_request("echo"),
    "no arguments": modern_request("tools/call", 1, name="echo"),
    "null for arguments": modern_request("tools/call", 1, name="echo", arguments=None),
    "a failure": call_request("fail"),
    "a crash": call_request("crash"),
    "wrong arguments": call_request("add", a="x"),
    "a picture": call_request("picture"),
    "what was cut": call_request("large"),
    "a question": capable("pay", FORM, amount=1),
    "a question to nobody": call_request("pay", amount=1),
    "a task": capable("pay", WITH_TASKS, amount=1),
    "a client without a name": modern_request(
        "tools/call", 1, name="echo", _meta={key: META[key] for key in META if not key.endswith("clientInfo")}
    ),
    "another name for the same tool": call_request("add", ("Mcp-Name", "=?base64?YWRk?="), a=1, b=2),
    "anything is accepted": call_request("add", ("Accept", "*/*"), a=1, b=2),
}


async def test_direct_answers_equal_those_of_the_sdk_byte_for_byte(monkeypatch, ways):
    async with both(monkeypatch) as ask:
        for what, data in SHORT.items():
            short, long = await ask(data)
            assert short == long, what

    assert (ways.short, ways.long) == (len(SHORT), len(SHORT))


BODY = {**call(1, "add", True, a=1, b=2)}
HEADERS = (("MCP-Protocol-Version", MODERN_VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", "add"))


def sent(body: Any, *headers: tuple[str, str]) -> bytes:
    return request(body, *HEADERS, *headers)


def meta(**more: Any) -> dict[str, Any]:
    return {**BODY, "params": {**BODY["params"], "_meta": {**META, **more}}}


LONG = {
    "an unknown tool": call_request("none"),
    "no name": sent({**BODY, "params": {"_meta": META}}),
    "a name that is none": sent({**BODY, "params": {"_meta": META, "name": 5}}),
    "arguments that are none": sent({**BODY, "params": {"_meta": META, "name": "add", "arguments": [1]}}),
    "another method in the header": call_request("add", ("Mcp-Method", "tools/list"), a=1, b=2),
    "another name in the header": call_request("add", ("Mcp-Name", "echo"), a=1, b=2),
    "a name that cannot be read": call_request("add", ("Mcp-Name", "=?base64?x?="), a=1, b=2),
    "a name twice": sent(BODY, ("Mcp-Name", "add")),
    "a method twice": sent(BODY, ("Mcp-Method", "tools/call")),
    "no method": request(BODY, HEADERS[0], HEADERS[2]),
    "no name in the headers": request(BODY, *HEADERS[:2]),
    "another version in the header": call_request("add", ("MCP-Protocol-Version", "2027-01-01"), a=1, b=2),
    "another version in the body": sent(meta(**{"io.modelcontextprotocol/protocolVersion": "2027-01-01"})),
    "no version in the body": sent({**BODY, "params": {"name": "add", "_meta": {CAPABILITIES: {}}}}),
    "no envelope": sent({**BODY, "params": {"name": "add"}}),
    "capabilities that are none": sent(meta(**{CAPABILITIES: {"elicitation": 5}})),
    "capabilities of another kind": sent(meta(**{CAPABILITIES: []})),
    "a client that is none": sent(meta(**{"io.modelcontextprotocol/clientInfo": {"name": 5}})),
    "a client of many words": sent(meta(**{"io.modelcontextprotocol/clientInfo": {"name": "x" * 9999, "version": ""}})),
    "a progress token": sent(meta(progressToken=1)),
    "something else beside": sent(meta(**{"example.org/x": 1})),
    "only JSON is accepted": call_request("add", ("Accept", "application/json"), a=1, b=2),
    "nothing is accepted": call_request("add", ("Accept", "image/png"), a=1, b=2),
    "accepted twice": call_request("add", ("Accept", "application/json"), ("Accept", "text/event-stream"), a=1, b=2),
    "another kind of body": call_request("add", ("Content-Type", "text/plain"), a=1, b=2),
    "a kind with more to it": call_request("add", ("Content-Type", "application/json; charset=utf-8"), a=1, b=2),
    "a session": call_request("add", ("Mcp-Session-Id", "x"), a=1, b=2),
    "a header for an argument": call_request("add", ("Mcp-Param-A", "1"), a=1, b=2),
    "a task that may be": capable("lengthy", WITH_TASKS),
    "an answer to nothing": modern_request("tools/call", 1, name="add", arguments={"a": 1, "b": 2}, requestState="x"),
    "another JSON-RPC": sent({**BODY, "jsonrpc": "1.0"}),
    "more in the message": sent({**BODY, "more": 1}),
    "an id that is none": sent({**BODY, "id": 1.5}),
    "an id that is true": sent({**BODY, "id": True}),
    "no id": sent({key: value for key, value in BODY.items() if key != "id"}),
    "two calls": sent([BODY, BODY]),
    "no JSON": sent(b"{"),
    "nothing at all": sent(b""),
    "another alphabet": sent(json.dumps(BODY).encode("utf-16")),
    "no number": sent(json.dumps(BODY).replace('"a": 1', '"a": NaN').encode()),
    "half a character": sent(json.dumps(BODY).replace('"a": 1', '"a": "\\ud800"').encode()),
    "a bottomless text": sent(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'{"a":' * 5000),
}  # fmt: skip


async def test_irregular_requests_go_through_the_sdk(monkeypatch, ways):
    async with both(monkeypatch) as ask:
        for what, data in LONG.items():
            before = ways.short
            short, long = await ask(data)
            assert short == long, what
            assert ways.short == before, what


async def test_a_tool_that_wants_arguments_in_headers_gets_them_checked(ways):
    class Region(Provider):
        name = "region"

        async def tools(self) -> list[Tool[..., Any]]:
            schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
            return [tool.provided("route", "Route.", effects={"read"}, parameters=schema)]

        async def invoke(self, call: Any, context: Context) -> Any:
            return "routed"

    async with http_site(Runtime(Region())) as site:
        name = "route"
        wrong = await site.ask(call_request(name, region="eu"))
        right = await site.ask(call_request(name, ("Mcp-Param-Region", "eu"), region="eu"))

    assert (wrong.status, wrong.error) == (400, -32020)
    assert right.json["result"]["content"][0]["text"] == "routed"
    assert ways.short == 0


async def test_a_server_with_added_middleware_has_no_direct_calls(monkeypatch, ways):
    seen = []

    async def theirs(ctx: Any, call_next: Any) -> Any:
        seen.append(ctx.method)
        return await call_next(ctx)

    make = web.server

    def made(*given: Any, **options: Any) -> RuntimeServer:
        server = make(*given, **options)
        server.middleware.append(theirs)
        return server

    monkeypatch.setattr(web, "server", made)
    async with http_site(add) as site:
        answer = await site.ask(call_request("add", a=1, b=2))

    assert (answer.status, seen, ways.short) == (200, ["tools/call"], 0)


@pytest.mark.parametrize("after", [0.0, 0.15])
async def test_a_client_that_leaves_ends_its_call(after):
    async with http_site(wait) as site:
        connection = await site.connect()
        await connection.send(call_request("wait", name="left"))
        await begun("left")
        await asyncio.sleep(after)
        await connection.close()

        await ended("left")


async def test_a_long_call_becomes_a_stream_like_that_of_the_sdk(monkeypatch):
    monkeypatch.setattr(reply, "PING_INTERVAL_SECONDS", 1)
    monkeypatch.setattr(library, "_SSE_PING_INTERVAL", 1)
    async with both(monkeypatch) as ask:
        asking = asyncio.create_task(ask(call_request("wait", name="é", seconds=3.5)))
        with stopped_clock(monkeypatch) as time:
            while not asking.done():
                await time.advance(0.1)
        short, long = await asking

    ping = b": ping\r\n\r\n"
    assert short[2].startswith(ping)
    assert short[2].count(ping) >= 2
    assert [each.replace(ping, b"") if isinstance(each, bytes) else each for each in short] == [
        each.replace(ping, b"") if isinstance(each, bytes) else each for each in long
    ]


async def test_a_client_that_leaves_a_stream_ends_its_call(monkeypatch):
    monkeypatch.setattr(reply, "PING_INTERVAL_SECONDS", 0.1)
    async with http_site(wait) as site:
        connection = await site.connect()
        await connection.send(call_request("wait", name="streamed"))
        await asyncio.wait_for(connection.reader.readuntil(b": ping"), TIMEOUT_SECONDS)
        await connection.close()

        await ended("streamed")


async def test_an_internal_error_is_answered_like_the_sdk_does(monkeypatch, caplog):
    async def broken(*given: Any) -> Any:
        raise RuntimeError("/etc/secret")

    monkeypatch.setattr(DirectCalls, "call", broken)
    async with http_site(add) as site:
        answer = await site.ask(call_request("add", a=1, b=2))
        known = await site.session()
        older = await site.calls(known, "add", a=1, b=2)

    for each in (answer, older):
        assert (each.status, each.json["error"]) == (200, {"code": -32603, "message": "Internal server error"})
    assert "tools/call failed" in caplog.text


# In sessions


async def test_direct_answers_in_a_session_equal_those_of_the_sdk(monkeypatch, ways):
    named = {
        "add": {"a": 1, "b": 2},
        "fail": {},
        "picture": {},
        "large": {},
        "echo": {"value": {"a": None}},
        "pay": {"amount": 1},
    }
    async with http_site(*TOOLS) as site:
        known_by = await site.session()
        before = ways.long
        short = [await site.calls(known_by, name, **arguments) for name, arguments in named.items()]
        assert (ways.short, ways.long - before) == (len(named), 1)  # what waits for somebody is told by the library
        monkeypatch.setattr(RuntimeServer, "direct_calls", None)
        long = [await site.calls(known_by, name, **arguments) for name, arguments in named.items()]

    for mine, theirs in zip(short, long, strict=True):
        assert json.loads(known(json.dumps(mine.json).encode())) == json.loads(known(json.dumps(theirs.json).encode()))
        for name in ("content-type", "mcp-session-id", "cache-control"):
            assert mine.headers[name] == theirs.headers[name]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
async def test_direct_answers_to_clients_of_the_first_protocols_equal_those_of_the_sdk(version, monkeypatch, ways):
    about = {"name": "web", "version": "1"}
    hello = message("initialize", 0, protocolVersion=version, capabilities={}, clientInfo=about)
    async with http_site(*TOOLS) as site:
        answer = await site.ask(request(hello))
        known_by = (("Mcp-Session-Id", answer.headers["mcp-session-id"]), ("MCP-Protocol-Version", version))
        assert (await site.ask(request(message("notifications/initialized"), *known_by))).status == 202
        short = [(await site.calls(known_by, name)).json for name in ("echo", "picture", "fail")]
        monkeypatch.setattr(RuntimeServer, "direct_calls", None)
        long = [(await site.calls(known_by, name)).json for name in ("echo", "picture", "fail")]

    assert short == long
    assert ways.short == 3


async def test_before_the_handshake_a_session_has_no_direct_calls(ways):
    about = {"name": "web", "version": "1"}
    hello = message("initialize", 0, protocolVersion=HANDSHAKE_VERSION, capabilities={}, clientInfo=about)
    async with http_site(add) as site:
        answer = await site.ask(request(hello))
        known_by = (("Mcp-Session-Id", answer.headers["mcp-session-id"]),)
        await site.calls(known_by, "add", a=1, b=2)

    assert ways.short == 0


async def test_a_call_of_a_session_is_cancelled_by_its_own_client_alone():
    cancel = message("notifications/cancelled", requestId=1)  # the library takes a number for the text of it, too
    async with http_site(wait, token=lambda shown: shown) as site:
        known_by = await site.session(("Authorization", "Bearer ada"))
        others = (("Authorization", "Bearer bob"), *known_by[1:])
        connection = await site.connect()
        await connection.send(request(call("1", "wait", name="mine"), *known_by))
        await asyncio.wait_for(connection.reader.readuntil(b": ping"), TIMEOUT_SECONDS)
        assert (await site.ask(request(cancel, *others))).status == 404
        assert (await site.ask(request({**cancel, "params": {"requestId": []}}, *known_by))).status == 202
        assert "mine" not in ENDED
        assert (await site.ask(request(cancel, *known_by))).status == 202
        await ended("mine")
        rest = await asyncio.wait_for(connection.reader.readuntil(b"0\r\n\r\n"), TIMEOUT_SECONDS)
        await connection.close()

    assert b'"id":"1","error":{"code":-32800' in rest


async def test_the_end_of_a_session_cancels_its_calls():
    async with http_site(wait) as site:
        known_by = await site.session()
        connection = await site.connect()
        await connection.send(request(call(1, "wait", name="over"), *known_by))
        await asyncio.wait_for(connection.reader.readuntil(b": ping"), TIMEOUT_SECONDS)
        assert (await site.ask(request(b"", *known_by, method="DELETE"))).status == 200
        await ended("over")
        await connection.close()
        assert (await site.calls(known_by, "wait")).status == 404


async def test_a_session_that_is_called_is_not_idle(monkeypatch):
    monkeypatch.setattr(sessions, "SESSION_IDLE_TIMEOUT_SECONDS", 3)
    async with http_site(add, wait) as site:
        with stopped_clock(monkeypatch) as time:
            known_by = await site.session()
            for _ in range(3):
                await time.advance(2)
                assert (await site.calls(known_by, "add", a=1, b=2)).status == 200
            waiting = asyncio.create_task(site.calls(known_by, "wait", name="long", seconds=5))
            await begun("long")
            while not waiting.done():
                await time.advance(1)
            assert (await waiting).status == 200
            assert (await site.calls(known_by, "add", a=1, b=2)).status == 200
            await time.advance(4)
            assert (await site.calls(known_by, "add", a=1, b=2)).status == 404


async def test_a_question_that_comes_late_is_put_in_the_stream_that_has_begun(ways):
    async def person(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"who": "ada"})

    async with (
        within(),
        http_site(Runtime(Slow())) as site,
        http_client(site.url, HANDSHAKE, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("ask")

    assert result.structured_content == {"heard": {"who": "ada"}}
    assert ways.short == 1
