"""A runtime as a proxy between a client and a server, in all combinations of protocols."""

import asyncio
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from surehand import Runtime, gateway
from tests.conformance.own_http import serve_app
from tests.gateway.mcp.backend_server import BackendServer, returning, text_block
from tests.gateway.mcp.raw_client import CANCEL, DECLINE, accepted, raw_client
from tests.gateway.mcp.sdk_clients import ERAS, HANDSHAKE, MODERN, sdk_client, within
from tests.gateway.mcp.test_elicitation import Person
from tests.providers.mcp.steady_server import SteadyServer

both = pytest.mark.parametrize(("front", "behind"), [(front, behind) for front in ERAS for behind in ERAS])


def through(back: BackendServer, front: str, **how: Any) -> Any:
    return sdk_client(Runtime(back.provider()), front, short_names=True, **how)


# What is offered

SCHEMA = {
    "type": "object",
    "properties": {
        "place": {"$ref": "#/$defs/place"},
        "region": {"type": "string", "x-mcp-header": "Region"},
        "how": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["place"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number", "minimum": 0}}}},
}
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@both
async def test_tools_are_shown_as_their_server_shows_them(front, behind):
    back = BackendServer(behind)
    hints = {"readOnlyHint": True, "openWorldHint": False, "title": "Finds"}
    back.add(
        "find.it", description="Finds it.", title="Finder", inputSchema=SCHEMA, outputSchema=OUTPUT, annotations=hints
    )
    back.add("plain")
    async with sdk_client(Runtime(back.provider(effects=None)), front, short_names=True) as client:
        found, plain = (await client.list_tools()).tools

    assert (found.name, found.title, found.description) == ("find.it", "Finder", "Finds it.")
    assert found.input_schema == SCHEMA
    assert found.output_schema == OUTPUT
    assert found.annotations.model_dump(by_alias=True, exclude_none=True) == hints
    assert (plain.name, plain.output_schema) == ("plain", None)


async def test_provider_options_replace_parts_of_the_entry():
    back = BackendServer()
    back.add("look", annotations={"readOnlyHint": False, "destructiveHint": True})
    async with through(back, MODERN) as client:
        [tool] = (await client.list_tools()).tools

    assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (True, False)


async def test_an_output_schema_of_the_server_behind_that_is_unsafe_is_not_passed_on():
    back = BackendServer()
    back.add("look", outputSchema={"type": "object", "properties": {"a\u200bb": {"type": "string"}}})
    async with through(back, MODERN) as client:
        [tool] = (await client.list_tools()).tools

    assert tool.output_schema is None


async def test_with_two_servers_behind_only_what_both_have_keeps_its_long_name():
    one, two = BackendServer(), BackendServer()
    for back, own in ((one, "left.hand"), (two, "right")):
        back.add("same")
        back.add(own, returning(content=[text_block(own)]))
    runtime = Runtime(one.provider(namespace="one"), two.provider(namespace="two"))
    async with sdk_client(runtime, MODERN, short_names=True) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("left.hand")

    assert sorted(names) == ["left.hand", "one__same", "right", "two__same"]
    assert result.content[0].text == "left.hand"
    assert one.asked[0].name == "left.hand"


async def test_a_tool_that_is_only_ever_a_task_is_left_out():
    back = BackendServer(HANDSHAKE)
    back.add("must", execution={"taskSupport": "required"})
    back.add("may", execution={"taskSupport": "optional"})
    async with through(back, MODERN) as client:
        [tool] = (await client.list_tools()).tools

    assert tool.name == "may"


@both
async def test_a_change_of_the_server_behind_is_notified_in_front(front, behind):
    back = BackendServer(behind)
    back.add("first")
    heard = asyncio.Event()

    async def message(notification: Any) -> None:
        if type(notification).__name__ == "ToolListChangedNotification":
            heard.set()

    async with through(back, front, message_handler=message) as client:
        await client.list_tools()
        await client.call_tool("first")
        if front == MODERN:
            async with client.listen(tools_list_changed=True) as changes, within():
                back.add("second")
                await _until_told(back, anext(aiter(changes)))
        else:
            back.add("second")
            await _until_told(back, heard.wait())
        assert [tool.name for tool in (await client.list_tools()).tools] == ["first", "second"]


async def _until_told(back: BackendServer, waiting: Any) -> None:
    """Our own client may not listen yet: servers tell of changes to those who do."""
    waiter = asyncio.ensure_future(waiting)
    async with within():
        while not waiter.done():
            await back.changed()
            await asyncio.wait({waiter}, timeout=0.05)


# Results

BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "one", "annotations": {"audience": ["user"], "priority": 0.5}},
    {"type": "text", "text": "two", "_meta": {"a/b": 1}},
    {"type": "image", "data": "AAAA", "mimeType": "image/png", "annotations": {"priority": 1.0}},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "file:///a.txt", "name": "a", "title": "A", "mimeType": "text/plain", "size": 5},
    {
        "type": "resource",
        "resource": {"uri": "file:///b.txt", "mimeType": "text/plain", "text": "b", "_meta": {"c/d": 2}},
    },
    {"type": "resource", "resource": {"uri": "file:///c.bin", "mimeType": "application/zip", "blob": "AAAA"}},
]


@both
async def test_every_block_arrives_as_it_was_sent(front, behind):
    back = BackendServer(behind)
    back.add("show", returning(content=BLOCKS, _meta={"x/y": [1]}))
    async with through(back, front) as client:
        result = await client.call_tool("show")

    sent = [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content]
    assert sent == BLOCKS
    assert result.meta["x/y"] == [1]
    assert (result.is_error, result.structured_content) == (False, None)


@both
async def test_an_error_arrives_with_all_that_its_server_said(front, behind):
    back, broken = BackendServer(behind), [text_block("no such place"), BLOCKS[2]]
    back.add(
        "fail",
        returning(content=broken, structuredContent={"n": "none"}, isError=True, _meta={"x/y": 1}),
        outputSchema=OUTPUT,
    )
    async with through(back, front) as client:
        result = await client.call_tool("fail")

    sent = [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content]
    assert (result.is_error, sent, result.structured_content) == (True, broken, {"n": "none"})
    assert result.meta["x/y"] == 1


FORGED = [
    {"type": "resource_link", "uri": "surehand://outputs/abc", "name": "n"},
    {"type": "resource", "resource": {"uri": "surehand://outputs/abc", "text": "inside"}},
    {"type": "resource_link", "uri": "javascript:alert(1)", "name": "n"},
]


@both
@pytest.mark.parametrize("is_error", [False, True])
async def test_a_server_behind_cannot_set_reserved_metadata(front, behind, is_error):
    back, marks = BackendServer(behind), {"surehand/callId": "forged", "io.modelcontextprotocol/x": "forged", "x/y": 1}
    back.add("forge", returning(content=[*FORGED, {**text_block("x"), "_meta": marks}], _meta=marks, isError=is_error))
    async with through(back, front) as client:
        result = await client.call_tool("forge")

    shown = [block.text for block in result.content]
    assert shown == ["[resource: surehand://outputs/abc]", "inside", "[resource: javascript:alert(1)]", "x"]
    assert "forged" not in result.model_dump_json()
    assert (result.meta["x/y"], result.content[-1].meta) == (1, {"x/y": 1})


@both
async def test_structured_results_are_those_that_were_sent(front, behind):
    back = BackendServer(behind)
    wrapped = {**OUTPUT, "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    marked = {**wrapped, "x-fastmcp-wrap-result": True}
    back.add("object", returning(content=[text_block("five")], structuredContent={"n": 5}), outputSchema=OUTPUT)
    back.add("bare", returning(structuredContent={"n": 5}))
    back.add("marked", returning(content=[text_block("5")], structuredContent={"result": 5}), outputSchema=marked)
    back.add("unmarked", returning(content=[text_block("5")], structuredContent={"result": 5}), outputSchema=wrapped)
    async with through(back, front) as client:
        await client.list_tools()  # it holds results against what it was told of them
        found = {name: (await client.call_tool(name)).structured_content for name in back.does}

    assert found == {"object": {"n": 5}, "bare": {"n": 5}, "marked": {"result": 5}, "unmarked": {"result": 5}}


@pytest.mark.parametrize("value", [[1, 2], "text", 5, True])
async def test_in_the_modern_protocol_structured_content_may_be_any_value(value):
    back = BackendServer()
    back.add(
        "give",
        returning(content=[text_block("it")], structuredContent=value),
        outputSchema={"type": ["array", "string", "integer", "boolean"]},
    )
    async with through(back, MODERN) as client:
        await client.list_tools()
        result = await client.call_tool("give")
    async with through(back, HANDSHAKE) as client:
        [tool] = (await client.list_tools()).tools
        older = await client.call_tool("give")

    assert result.structured_content == value
    assert "structured_content" in result.model_fields_set
    assert (tool.output_schema, older.structured_content, older.content[0].text) == (None, None, "it")


@both
async def test_a_result_that_is_too_long_to_show_is_whole_where_it_was_promised(front, behind):
    back, long = BackendServer(behind), {"n": 5, "text": "x" * 150_000}
    back.add("typed", returning(content=[text_block("x" * 150_000)], structuredContent=long), outputSchema=OUTPUT)
    back.add("untyped", returning(content=[text_block("x" * 150_000)], structuredContent=long))
    async with through(back, front) as client:
        await client.list_tools()
        typed, untyped = await client.call_tool("typed"), await client.call_tool("untyped")

    assert typed.structured_content == long
    assert untyped.structured_content is None
    assert all(len(result.content[0].text) < 150_000 for result in (typed, untyped))


async def test_a_pending_call_of_a_tool_with_an_output_schema_is_an_error_result():
    back = BackendServer()
    back.add("drop", annotations={"destructiveHint": True}, outputSchema=OUTPUT)
    async with sdk_client(Runtime(back.provider(effects=None)), MODERN, short_names=True) as client:
        await client.list_tools()
        result = await client.call_tool("drop")

    assert result.is_error
    assert result.meta["surehand/waitingFor"] == "approval"


@both
async def test_arguments_arrive_as_they_were_sent(front, behind):
    back = BackendServer(behind)
    back.add("take", inputSchema={"type": "object"})
    given = {"text": "ü\u2028", "list": [1, 2.5, None, {"a": True}], "big": 2**53, "": {}}
    async with through(back, front) as client:
        await client.call_tool("take", given)

    assert back.asked[0].arguments == given


# While it works


@both
async def test_steps_arrive_as_their_server_counts_them(front, behind):
    back, steps = BackendServer(behind), []

    async def walk(ctx: Any, params: Any) -> Any:
        for step in ((0, 3, "off"), (1.5, 3, None), (3, 3, "there")):
            await ctx.session.report_progress(*step)
        return {"content": [], "resultType": "complete"}

    async def step(*report: Any) -> None:
        steps.append(report)

    back.add("walk", walk)
    async with through(back, front) as client:
        await client.call_tool("walk", progress_callback=step)

    assert steps == [(0, 3, "off"), (1.5, 3, None), (3, 3, "there")]


@both
async def test_a_cancelled_call_is_cancelled_at_the_server_behind(front, behind):
    back = BackendServer(behind)
    back.add("work", back.works)
    async with through(back, front) as client:
        calling = asyncio.create_task(client.call_tool("work"))
        await back.runs.wait()
        calling.cancel()
        async with within():
            await back.stopped.wait()
        await asyncio.wait({calling})


@pytest.mark.parametrize("behind", ERAS)
async def test_a_server_behind_that_times_out_is_an_error_result(behind):
    back = BackendServer(behind)
    back.add("work", back.works)
    async with sdk_client(Runtime(back.provider(timeout=0.1)), MODERN, short_names=True) as client:
        while not back.runs.is_set():  # it may be too late before anything runs
            result = await client.call_tool("work")
        async with within():
            await back.stopped.wait()

    assert (result.is_error, result.meta["surehand/code"]) == (True, "timed_out")


# Questions

FORM = {
    "mode": "form",
    "message": "Who are you?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "title": "Name"}, "tea": {"type": "boolean", "default": True}},
        "required": ["name"],
    },
}
URL = {"mode": "url", "message": "Sign in.", "url": "https://example.com/in"}


@both
@pytest.mark.parametrize("answer", [accepted(name="Ann", tea=False), DECLINE, CANCEL])
async def test_a_form_and_its_answer_pass_through(front, behind, answer):
    back, person = BackendServer(behind), Person(answer)
    back.add("ask", back.asks(who=FORM))
    async with through(back, front, elicitation_callback=person) as client:
        result = await client.call_tool("ask")

    assert result.structured_content == {"who": answer}
    assert person.asked[0].message == "back asks: Who are you?"
    assert person.asked[0].requested_schema == FORM["requestedSchema"]


@both
async def test_an_address_passes_through(front, behind):
    back, person = BackendServer(behind), Person({"action": "accept"}, DECLINE)
    back.add("ask", back.asks(in_=URL))
    async with through(back, front, elicitation_callback=person) as client:
        heard = [(await client.call_tool("ask")).structured_content["in_"] for _ in range(2)]

    assert heard == [{"action": "accept"}, DECLINE]
    assert person.asked[0].url == URL["url"]


@both
async def test_several_questions_pass_through(front, behind):
    back, person = BackendServer(behind), Person(accepted(name="Ann", tea=True), DECLINE)
    back.add("ask", back.asks(first=FORM, second=FORM))
    async with through(back, front, elicitation_callback=person) as client:
        result = await client.call_tool("ask")

    assert result.structured_content == {"first": accepted(name="Ann", tea=True), "second": DECLINE}


async def test_a_question_keeps_the_key_that_its_server_gave_it():
    back = BackendServer()
    back.add("ask", back.asks(user_name=FORM))
    async with raw_client(Runtime(back.provider()), short_names=True) as client:
        asks = await client.call("ask")

    assert list(asks["inputRequests"]) == ["user_name"]


@pytest.mark.parametrize("front", ERAS)
async def test_a_client_that_disconnects_during_a_question_cancels_the_call_behind(front):
    back = BackendServer(HANDSHAKE)

    async def ask(ctx: Any, params: Any) -> Any:
        back.runs.set()
        try:
            return await back.asks(who=FORM)(ctx, params)
        except asyncio.CancelledError:
            back.stopped.set()
            raise

    back.add("ask", ask)
    if front == HANDSHAKE:
        asked = asyncio.Event()

        async def away(context: Any, params: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

        async with through(back, front, elicitation_callback=away) as client:
            calling = asyncio.create_task(client.call_tool("ask"))
            await asked.wait()
            calling.cancel()
            async with within():
                await back.stopped.wait()
            await asyncio.wait({calling})
    else:
        async with Runtime(back.provider()) as runtime, sdk_client(runtime, front, short_names=True) as client:
            await client.call_tool("ask")
            [waiting] = await runtime.pending()
            await runtime.cancel(waiting.call_id)
            async with within():
                await back.stopped.wait()


# Servers that are processes


@pytest.mark.timeout(60)
async def test_a_server_that_dies_is_back_for_the_next_call(tmp_path):
    steady = SteadyServer(tmp_path / "steady")
    async with sdk_client(Runtime(steady.provider()), MODERN, short_names=True) as client:
        died = await client.call_tool("die", {"text": "x"})
        result = await client.call_tool("echo", {"text": "again"})

    assert died.is_error
    assert (result.is_error, result.content[0].text) == (False, "again")
    assert steady.starts == 2


@pytest.mark.timeout(60)
async def test_each_user_has_a_separate_session_with_the_server_behind(tmp_path):
    steady, users = SteadyServer(tmp_path / "steady"), {"a": "ann", "b": "bob"}
    app = gateway.mcp.app(Runtime(steady.provider()), token=users.get, short_names=True)

    async def pids(url: str, token: str) -> set[str]:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"})
        async with http, Client(streamable_http_client(url, http_client=http), mode=MODERN) as client:
            return {(await client.call_tool("pid")).content[0].text for _ in range(2)}

    async with serve_app(app) as url:
        ann, bob = await pids(url, "a"), await pids(url, "b")
        again = await pids(url, "a")

    assert len(ann) == len(bob) == 1
    assert ann == again != bob
