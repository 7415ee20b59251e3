"""What a provider needs back unchanged: signed thinking, encrypted reasoning, and hosted calls."""

from __future__ import annotations

import json

from surehand.agent.models.anthropic_messages import build_messages
from surehand.agent.models.base import TextChunk
from surehand.agent.models.choose import choose_model
from surehand.agent.models.responses_api import build_input
from tests.agent.models.byte_server import serve
from tests.agent.models.wires import build_model, collect, sse, user


def assistant(answer, *call_ids):
    calls = [
        {"id": id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for id, call in zip(call_ids, answer.calls, strict=True)
    ]
    return {"role": "assistant", "content": answer.text, "tool_calls": calls, "provider_items": answer.provider_items}


def thinking_stream():
    blocks = [
        ({"type": "thinking", "thinking": "", "signature": ""}, [{"type": "thinking_delta", "thinking": "Hm."}]),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "I add."}]),
        ({"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}},
         [{"type": "input_json_delta", "partial_json": '{"a": 1}'}]),
    ]  # fmt: skip
    blocks[0][1].append({"type": "signature_delta", "signature": "signed"})
    events = [{"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}})
    events.append({"type": "message_stop"})
    return b"".join(sse(event, event["type"]) for event in events)


async def test_signed_thinking_of_anthropic_goes_back_in_place_with_the_ids_of_the_results():
    async with serve(thinking_stream()) as server:
        _, answer = await collect(build_model("anthropic", server.url))

    stored = json.loads(json.dumps(answer.provider_items))  # as the store keeps it
    message = assistant(answer, "run.1.0") | {"provider_items": stored}
    result = {"role": "tool", "tool_call_id": "run.1.0", "name": "add", "content": "2", "is_error": True}
    _, built = build_messages([user("Add"), message, result])

    thinking, text, call = built[1]["content"]
    assert thinking == {"type": "thinking", "thinking": "Hm.", "signature": "signed"}
    assert text == {"type": "text", "text": "I add."}
    assert call["input"] == {"a": 1}
    parts = [{"type": "text", "text": "2"}]
    assert built[2]["content"] == [
        {"type": "tool_result", "tool_use_id": call["id"], "content": parts, "is_error": True}
    ]
    assert answer.usage.tokens_out == 9


async def test_thinking_is_not_sent_to_another_provider():
    async with serve(thinking_stream()) as server:
        _, answer = await collect(build_model("anthropic", server.url))

    items = build_input([user("Add"), assistant(answer, "toolu_1")])

    assert "Hm." not in json.dumps(items)
    assert [item.get("type", item.get("role")) for item in items] == ["user", "assistant", "function_call"]


def response_stream(*items):
    response = {"id": "r", "object": "response", "created_at": 1, "model": "m1", "status": "completed", "output": items}
    return sse({"type": "response.completed", "sequence_number": 0, "response": response}, "response.completed")


CALL = {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "add", "arguments": "{}"}


async def test_encrypted_reasoning_goes_back_with_its_calls():
    reasoning = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "secret thoughts"}
    async with serve(response_stream(reasoning, CALL)) as server:
        _, answer = await collect(build_model("responses", server.url))

    items = build_input([user("Add"), assistant(answer, "call_1")])

    assert [item.get("type") for item in items[1:]] == ["reasoning", "function_call"]
    assert items[1]["encrypted_content"] == "secret thoughts"


async def test_reasoning_without_its_content_is_left_out_because_the_provider_stored_nothing():
    reasoning = {"type": "reasoning", "id": "rs", "summary": []}
    async with serve(response_stream(reasoning, CALL)) as server:
        _, answer = await collect(build_model("responses", server.url))

    assert server.bodies[0]["store"] is False
    items = build_input([user("Add"), assistant(answer, "call_1")])
    assert items[1:] == [{"type": "function_call", "call_id": "call_1", "name": "add", "arguments": "{}"}]


async def test_malformed_arguments_go_back_to_anthropic_as_an_object():
    call = {"id": "x", "type": "function", "function": {"name": "add", "arguments": '{"a": '}}
    _, built = build_messages([user("Add"), {"role": "assistant", "content": None, "tool_calls": [call]}])

    assert built[1]["content"][0]["input"] == {"malformed_json": '{"a": '}


def hosted_search(text, stop_reason):
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "news"}}
    return message_of([search, {"type": "text", "text": text}], stop_reason)


def message_of(blocks, stop_reason):
    events = [{"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 4}})
    events.append({"type": "message_stop"})
    return b"".join(sse(event, event["type"]) for event in events)


async def test_an_answer_that_anthropic_pauses_is_continued():
    async with serve(hosted_search("I search. ", "pause_turn"), hosted_search("Found it.", "end_turn")) as server:
        model = choose_model("anthropic:m1", base_url=server.url, api_key="k")
        chunks, answer = await collect(model)

    assert answer.text == "I search. Found it."
    assert answer.stop_reason == "stop"
    assert answer.usage.tokens_out == 8
    assert len(answer.provider_items) == 4
    sent_back = server.bodies[1]["messages"][-1]
    assert [block["type"] for block in sent_back["content"]] == ["server_tool_use", "text"]
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)) == answer.text


async def test_the_plain_end_of_a_paused_answer_goes_back_with_its_beginning():
    call = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}
    end = message_of([{"type": "text", "text": "Now I add."}, call], "tool_use")
    async with serve(hosted_search("I search. ", "pause_turn"), end) as server:
        _, answer = await collect(choose_model("anthropic:m1", base_url=server.url, api_key="k"))

    calls = [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]
    said = {"role": "assistant", "content": answer.text, "tool_calls": calls, "provider_items": answer.provider_items}
    _, built = build_messages([user("Go"), said, {"role": "tool", "tool_call_id": "c1", "content": "2"}])
    assert [block["type"] for block in built[1]["content"]] == ["server_tool_use", "text", "text", "tool_use"]
    assert built[1]["content"][-1]["id"] == built[2]["content"][0]["tool_use_id"]
