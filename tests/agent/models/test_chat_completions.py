"""Chat Completions as other servers than OpenAI's speak it."""

from __future__ import annotations

import pytest
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from surehand.agent.models.base import ModelRequest
from surehand.agent.models.chat_completions import build_messages
from tests.agent.models.byte_server import serve
from tests.agent.models.wires import build_model, chat_chunk, collect, fail, request, sse, user


def fragment(index=None, id=None, name=None, arguments=None):
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": id, "type": "function", "function": function}
    return {key: value for key, value in fields.items() if value is not None}


async def read_calls(*fragments, finish_reason="tool_calls"):
    events = [chat_chunk({"tool_calls": [each]}) for each in fragments]
    async with serve(b"".join([*events, chat_chunk({}, finish_reason), sse("[DONE]")])) as server:
        _, answer = await collect(build_model("openai", server.url))
    return [(call.name, call.arguments) for call in answer.calls]


TWO = [("add", '{"a": 1}'), ("sub", '{"a": 2}')]


@pytest.mark.parametrize(
    "fragments",
    [
        [fragment(0, "call_1", "add", '{"a": 1}'), fragment(0, "call_2", "sub", '{"a": 2}')],
        [fragment(0, "call_1", "add", '{"a": 1}'), fragment(0, "call_1", "sub", '{"a": 2}')],
        [fragment(None, None, "add", '{"a": 1}'), fragment(None, None, "sub", '{"a": 2}')],
        [fragment(None, "x", "add", '{"a"'), fragment(arguments=": 1}"), fragment(None, "y", "sub", '{"a": 2}')],
        [fragment(0, "x", "add", '{"a"'), fragment(0, "x", "add", ": 1}"), fragment(1, "y", "sub", '{"a": 2}')],
        [fragment(0, "x", "add"), fragment(1, "y", "sub", '{"a": 2'), fragment(0, None, None, '{"a": 1}'),
         fragment(1, None, None, "}")],
    ],
    ids=["index 0 for all", "the same id too", "no index, no id", "no index", "name repeated", "interleaved"],
)  # fmt: skip
async def test_calls_are_told_apart_however_a_server_numbers_them(fragments):
    assert await read_calls(*fragments) == TWO


async def test_a_finish_reason_of_a_server_s_own_completes_an_answer():
    assert await read_calls(fragment(0, "x", "add", "{}"), finish_reason="eos") == [("add", "{}")]


async def test_a_call_without_a_name_fails_the_answer():
    async with serve(chat_chunk({"tool_calls": [fragment(0, "x", None, "{}")]}) + chat_chunk({}, "stop")) as server:
        error = await fail(build_model("openai", server.url))

    assert "without a name" in str(error)


async def test_an_answer_whose_announced_usage_never_came_was_cut():
    async with serve(chat_chunk({"content": "Hi"}, usage=None) + chat_chunk({}, "stop", usage=None)) as server:
        error = await fail(build_model("openai", server.url))

    assert error.retryable


async def test_a_server_without_usage_gets_an_estimate_so_that_limits_hold():
    async with serve(chat_chunk({"content": "Hello there."}) + chat_chunk({}, "stop")) as server:
        _, answer = await collect(build_model("openai", server.url))

    assert answer.usage.tokens_in > 10
    assert answer.usage.tokens_out == 3


async def test_a_cost_that_the_server_reports_is_taken():
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "cost": 0.25}
    async with serve(chat_chunk({"content": "Hi"}, "stop", usage=usage)) as server:
        _, answer = await collect(build_model("openai", server.url))

    assert answer.usage.cost == 0.25


async def test_reasoning_that_a_server_wants_back_with_its_calls_is_sent_back():
    thoughts = [chat_chunk({"reasoning_content": "The user "}), chat_chunk({"reasoning_content": "asks."})]
    calls = chat_chunk({"tool_calls": [fragment(0, "x", "add", "{}")]}) + chat_chunk({}, "tool_calls")
    async with serve(b"".join(thoughts) + calls) as server:
        model = build_model("openai", server.url)
        _, answer = await collect(model)
        call = {"id": "x", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [call], "provider_items": answer.provider_items}
        await collect(model, request(user("Add"), message))

    assert server.bodies[1]["messages"][1]["reasoning_content"] == "The user asks."


async def test_the_schema_of_the_output_is_sent_unless_there_are_tools():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    async with serve(chat_chunk({"content": "{}"}, "stop")) as server:
        model = build_model("openai", server.url)
        await collect(model, ModelRequest([user("Hi")], output_schema=schema))
        await collect(model, ModelRequest([user("Hi")], request().tools, output_schema=schema))

    assert server.bodies[0]["response_format"]["json_schema"]["schema"] == schema
    assert "response_format" not in server.bodies[1]


def test_messages_fit_the_sdk_s_types():
    picture = {"type": "image", "data": "aGVsbG8=", "mime_type": "image/png", "url": ""}
    archive = {"type": "file", "data": "aGVsbG8=", "mime_type": "application/zip", "filename": "all.zip", "url": ""}
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    built = build_messages(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "See"}, picture]},
            {"role": "assistant", "content": None, "tool_calls": [call, call]},
            {"role": "tool", "tool_call_id": "a", "name": "look", "content": [{"type": "text", "text": "1"}, picture]},
            {"role": "tool", "tool_call_id": "a", "name": "look", "content": [{"type": "text", "text": "2"}, archive]},
            {"role": "user", "content": "Thanks"},
        ]
    )

    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(built)
    assert [message["role"] for message in built] == ["system", "user", "assistant", "tool", "tool", "user", "user"]
    assert built[4]["content"].startswith("2\n(all.zip, application/zip, cannot be shown to you here.")
