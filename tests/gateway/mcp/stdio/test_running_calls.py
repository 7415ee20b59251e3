"""Direct calls over stdio: their responses equal those of the MCP SDK."""

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from surehand import Context, Done, Failed, Image, Resource, Runtime, Text, ToolError, gateway, tool
from surehand.gateway.mcp.direct_calls import DirectCalls
from surehand.gateway.mcp.stdio.running_calls import InFlightRequests
from surehand.gateway.mcp.stdio.tool_call_request import ToolCallRequest
from surehand.observe import telemetry
from tests.gateway.mcp.stdio_peer import META, TIMEOUT_SECONDS, StdioPeer, call, message, stdio_peer

CAN_ASK = {"elicitation": {}}
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def blocks() -> Done:
    """Give blocks of several kinds."""
    return Done({"a": 1}, content=[Text("a"), Image("aGk=", "image/png"), Resource("https://example.org/x", "x")])


@tool
async def odd() -> str:
    """Give what no text on a wire can hold."""
    return "a\ud800b"


@tool
async def fail() -> None:
    """Fail."""
    raise ToolError("No such thing.", code="not_found")


@tool
async def lost() -> Failed:
    """Come to no end that a tool could tell of."""
    return Failed("interrupted", "It was interrupted.")


@tool
async def long() -> str:
    """Say much."""
    return "word " * 40_000


@tool(confirm=True, effects={"write"})
async def wipe(path: str) -> str:
    """Wipe."""
    return f"wiped {path}"


TOOLS = (add, blocks, odd, fail, lost, long, wipe)


async def passing(ctx: Any, call_next: Any) -> Any:
    """Somebody's own middleware: with it in the way, everything goes through the library."""
    return await call_next(ctx)


@pytest.fixture
def way(monkeypatch):
    """The tools whose calls went the short way."""
    taken: list[str] = []
    plain = DirectCalls.find_direct_tool

    def counted(self: DirectCalls, params: Any, user: str | None, *, is_modern: bool) -> Any:
        found = plain(self, params, user, is_modern=is_modern)
        if found is not None:
            taken.append(params["name"])
        return found

    monkeypatch.setattr(DirectCalls, "find_direct_tool", counted)
    return taken


async def said(capabilities: dict[str, Any], modern: bool, *requests: dict[str, Any], close: bool) -> list[Any]:
    """What a client is answered, with the short way or without."""
    made = gateway.mcp.server

    def closed(runtime: Runtime, **options: Any) -> Any:
        server = made(runtime, **options)
        if close:
            server.middleware.append(passing)
        return server

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway.mcp, "server", closed, raising=False)
        async with stdio_peer(*TOOLS) as peer:
            if not modern:
                await peer.handshake(**capabilities)
            return [await peer.ask(request) for request in requests]


def requests_of(modern: bool, capabilities: dict[str, Any]) -> list[dict[str, Any]]:
    meta = {"_meta": {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}} if modern else {}
    calls: list[tuple[str, Any]] = [
        ("add", {"a": 1, "b": 2}),
        ("add", {"a": "x"}),
        ("add", None),
        ("blocks", {}),
        ("odd", {}),
        ("fail", {}),
        ("lost", {}),
        ("nothing", {}),
    ]
    return [
        message("tools/call", number, name=name, **({} if given is None else {"arguments": given}), **meta)
        for number, (name, given) in enumerate(calls)
    ]


@pytest.mark.parametrize("modern", [False, True])
async def test_direct_answers_equal_those_of_the_sdk(modern, way):
    requests = requests_of(modern, {})

    short = await said({}, modern, *requests, close=False)
    taken = list(way)
    through = await said({}, modern, *requests, close=True)

    assert short == through
    assert taken == ["add", "add", "add", "blocks", "odd", "fail", "lost"]


ODD: list[dict[str, Any]] = [
    {"id": "7"},
    {"id": 7.0},
    {"id": 7.5},
    {"id": True},
    {"id": None},
    {"id": [7]},
    {"id": 10**30},
    {"jsonrpc": "1.0"},
    {"jsonrpc": 2.0},
    {"params": None},
    {"params": []},
    {"params": {}},
    {"more": 1},
]


@pytest.mark.parametrize("change", ODD, ids=str)
async def test_an_unusual_request_is_answered_like_the_sdk_does(change):
    asked = {**call(1, "add", a=1, b=2), **change}

    assert await said({}, False, asked, close=False) == await said({}, False, asked, close=True)


@pytest.mark.parametrize("missing", ["jsonrpc", "params"])
async def test_an_incomplete_request_is_answered_like_the_sdk_does(missing):
    asked = {key: value for key, value in call(1, "add", a=1, b=2).items() if key != missing}

    assert await said({}, False, asked, close=False) == await said({}, False, asked, close=True)


@pytest.mark.parametrize("modern", [False, True])
async def test_a_shortened_output_is_answered_like_the_sdk_does(modern):
    asked = requests_of(modern, {})[0] | {"id": 9}
    asked["params"] = {**asked["params"], "name": "long", "arguments": {}}

    [short] = await said({}, modern, asked, close=False)
    [through] = await said({}, modern, asked, close=True)

    assert short["result"].keys() == through["result"].keys()
    assert [each["type"] for each in short["result"]["content"]] == ["text", "resource_link"]
    assert len(short["result"]["content"][0]["text"]) == len(through["result"]["content"][0]["text"])


async def test_in_the_handshake_protocol_a_direct_call_asks_within_its_request(way):
    async with stdio_peer(*TOOLS) as peer:
        await peer.handshake(**CAN_ASK)
        asked = await peer.ask(call(1, "wipe", path="x"))
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {}}}
        done = await peer.ask(answer)

    assert asked["method"] == "elicitation/create"
    assert (done["id"], done["result"]["content"][0]["text"]) == (1, "wiped x")
    assert way == ["wipe"]


@pytest.mark.parametrize(("capabilities", "kind"), [(CAN_ASK, "input_required"), (TASKS, "task"), ({}, "complete")])
async def test_in_the_modern_protocol_a_pending_direct_call_gives_what_its_client_supports(capabilities, kind, way):
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}
    async with stdio_peer(*TOOLS) as peer:
        told = await peer.ask(message("tools/call", 1, name="wipe", arguments={"path": "x"}, _meta=meta))

    assert told["result"]["resultType"] == kind
    assert told["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "surehand"
    assert way == ["wipe"]


async def test_the_question_of_a_direct_call_is_answered_through_the_sdk():
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": CAN_ASK}
    given = {"name": "wipe", "arguments": {"path": "x"}, "_meta": meta}
    async with stdio_peer(*TOOLS) as peer:
        asked = (await peer.ask(message("tools/call", 1, **given)))["result"]
        answers = {key: {"action": "accept", "content": {}} for key in asked["inputRequests"]}
        again = {**given, "requestState": asked["requestState"], "inputResponses": answers}
        done = await peer.ask(message("tools/call", 2, **again))

    assert done["result"]["content"][0]["text"] == "wiped x"


UNUSUAL = [
    {"progressToken": 1},
    {"io.modelcontextprotocol/logLevel": "debug"},
    {"io.modelcontextprotocol/clientCapabilities": []},
    {"io.modelcontextprotocol/clientInfo": "x"},
    {"io.modelcontextprotocol/protocolVersion": "1999-01-01"},
]


@pytest.mark.parametrize("meta", UNUSUAL, ids=str)
async def test_requests_with_other_metadata_go_through_the_sdk(meta, way):
    async with stdio_peer(*TOOLS) as peer:
        await peer.ask(call(0, "add", True, a=1, b=1))
        way.clear()
        await peer.ask(message("tools/call", 1, name="add", arguments={"a": 1, "b": 2}, _meta={**META, **meta}))

    assert way == []


async def test_before_the_handshake_nothing_is_called(way):
    async with stdio_peer(*TOOLS) as peer:
        answer = await peer.ask(call(1, "add", a=1, b=2))

    assert "error" in answer
    assert way == []


async def test_a_call_right_behind_the_handshake_is_served(way):
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    async with stdio_peer(*TOOLS) as peer:
        hello, ready = message("initialize", 1, **about), message("notifications/initialized")
        await peer.send(hello, ready, call(2, "add", a=1, b=2))
        answers = await peer.answers(2)

    assert answers[2]["result"]["structuredContent"] == {"result": 3}
    assert way == ["add"]


class Waiting:
    """A tool that waits until it is cancelled."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    @property
    def tool(self) -> Any:
        @tool
        async def wait(ctx: Context) -> str:
            """Wait."""
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()
            return ""

        return wait


async def ask_and_cancel(peer: StdioPeer, waiting: Waiting, *, when: str) -> None:
    cancel = message("notifications/cancelled", requestId=1)
    if when != "while it runs":
        behind = [message("notifications/roots/list_changed")] if when == "before it is seen" else []
        await peer.send(*behind, call(1, "wait", True), cancel)
        return
    await peer.send(call(1, "wait", True))
    await asyncio.wait_for(waiting.begun.wait(), TIMEOUT_SECONDS)
    await peer.send(cancel)
    await asyncio.wait_for(waiting.ended.wait(), TIMEOUT_SECONDS)


@pytest.mark.parametrize("when", ["while it runs", "before it begins", "before it is seen"])
async def test_a_call_that_is_cancelled_is_not_answered_and_its_id_is_free_again(when):
    waiting = Waiting()
    async with stdio_peer(waiting.tool, add) as peer:
        await peer.ask(call(0, "add", True, a=1, b=1))
        await ask_and_cancel(peer, waiting, when=when)
        answers = [await peer.ask(call(number, "add", True, a=1, b=number)) for number in (2, 1)]

    assert [each["result"]["structuredContent"]["result"] for each in answers] == [3, 2]
    assert waiting.begun.is_set() == (when == "while it runs")


async def test_a_call_that_runs_when_the_connection_ends_gets_an_error():
    waiting = Waiting()
    async with stdio_peer(waiting.tool) as peer:
        await peer.send(call("007", "wait", True))
        await asyncio.wait_for(waiting.begun.wait(), TIMEOUT_SECONDS)
        peer.close()
        told = await peer.receive()

    assert (told["id"], told["error"]["message"]) == ("007", "Connection closed")
    assert waiting.ended.is_set()


noted: ContextVar[str] = ContextVar("noted", default="nothing")


async def test_a_call_that_starts_in_the_task_of_another_does_not_inherit_its_context():
    @tool
    async def note(text: str) -> str:
        """Say what was noted before, and note another."""
        before = noted.get()
        noted.set(text)
        return before

    async with stdio_peer(note, limits={"max_in_flight_requests": 1}) as peer:
        await peer.send(*(call(number, "note", True, text=str(number)) for number in range(3)))
        answers = await peer.answers(3)

    assert {each["result"]["content"][0]["text"] for each in answers.values()} == {"nothing"}


async def test_a_call_without_others_before_it_starts_without_waking_the_receiver(monkeypatch):
    seen: list[bool] = []
    take = InFlightRequests.try_handle

    def watched(self: InFlightRequests, given: Any) -> bool:
        seen.append(isinstance(given, ToolCallRequest))
        return take(self, given)

    monkeypatch.setattr(InFlightRequests, "try_handle", watched)
    async with stdio_peer(*TOOLS) as peer:
        await peer.ask(call(1, "add", True, a=1, b=1))  # whoever serves learns from the first which protocol it is
        await peer.ask(call(2, "add", True, a=1, b=2))
        await peer.send(call(3, "add", True, a=1, b=3), message("ping", 4, _meta=META), call(5, "add", True, a=1, b=5))
        await peer.answers(3)

    assert seen == [False, True, True, False, False]


async def test_middleware_of_the_application_sees_every_call(way):
    seen: list[str] = []

    async def look(ctx: Any, call_next: Any) -> Any:
        seen.append(ctx.method)
        return await call_next(ctx)

    server = gateway.mcp.server(Runtime(add))
    assert server.direct_calls is not None

    server.middleware.append(look)

    assert server.direct_calls is None


async def test_with_tracing_a_direct_call_has_the_spans_of_any_other(way):
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    seen = []
    for progress in ({}, {"progressToken": 1}):
        async with Runtime(add) as runtime:
            end = telemetry(runtime, provider)
            async with stdio_peer(runtime) as peer:
                await peer.ask(message("tools/call", 1, name="add", arguments={"a": 1, "b": 2}, _meta=META | progress))
            end()
        seen.append(
            [(each.name, each.status.status_code, each.attributes.keys()) for each in spans.get_finished_spans()]
        )
        spans.clear()

    assert way == ["add"]
    assert seen[0] == seen[1]
    assert len(seen[0]) == 1
