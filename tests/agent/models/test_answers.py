"""An answer arrives in chunks and then whole, with its calls, over every wire; the next request carries it back."""

from __future__ import annotations

import asyncio
import json

import pytest

from surehand import Image, tool
from surehand.agent.models.base import ModelRequest, TextChunk, ToolInputChunk
from surehand.agent.models.usage import Price
from surehand.core.content import block_fields
from tests.agent.models.byte_server import serve, stream_then
from tests.agent.models.wires import KEY, WIRES, answer_events, build_model, chat_chunk, collect, request, sse, user

TWO_CALLS = [("call_1", "get_weather", '{"city": "Paris"}'), ("call_1", "get_weather", '{"city": "Rome"}')]
pytestmark = pytest.mark.parametrize("wire", WIRES)


def answered(*call_ids, results=("Sunny.", "Rain.")):
    """A conversation in which the model has made calls with these ids, and has been given the results."""
    functions = [{"name": "get_weather", "arguments": '{"city": "Paris"}'} for _ in call_ids]
    calls = [{"id": id, "type": "function", "function": each} for id, each in zip(call_ids, functions, strict=True)]
    messages = [
        {"role": "system", "content": "Be brief."},
        user("Weather?"),
        {"role": "assistant", "content": None, "tool_calls": calls},
    ]
    for call_id, result in zip(call_ids, results, strict=False):
        messages.append({"role": "tool", "tool_call_id": call_id, "name": "get_weather", "content": result})
    return messages


def sent_calls_and_results(wire, body):
    """The ids of calls and of results, and the texts of the results, as a request carries them."""
    if wire == "openai":
        calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
        results = [(m["tool_call_id"], m["content"]) for m in body["messages"] if m["role"] == "tool"]
    elif wire == "responses":
        calls = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
        outputs = [item for item in body["input"] if item.get("type") == "function_call_output"]
        results = [(item["call_id"], item["output"]) for item in outputs]
    else:
        blocks = [block for message in body["messages"] for block in message["content"]]
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        found = [block for block in blocks if block["type"] == "tool_result"]
        results = [(block["tool_use_id"], block["content"][0]["text"]) for block in found]
    return calls, results


async def test_text_and_arguments_stream_and_the_answer_holds_them_whole(wire):
    async with serve(b"".join(answer_events(wire, "Let me look.", TWO_CALLS))) as server:
        chunks, answer = await collect(build_model(wire, server.url))

    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)) == "Let me look."
    for position, (_, name, arguments) in enumerate(TWO_CALLS):
        pieces = [each for each in chunks if isinstance(each, ToolInputChunk) and each.position == position]
        assert len(pieces) > 1
        assert {piece.name for piece in pieces} == {name}
        assert "".join(piece.text for piece in pieces) == arguments
    assert answer.text == "Let me look."
    assert [(call.model_id, call.name, call.arguments) for call in answer.calls] == TWO_CALLS
    assert answer.stop_reason == "tool_calls"


async def test_calls_with_the_same_id_are_sent_back_with_ids_of_their_own(wire):
    async with serve(b"".join(answer_events(wire))) as server:
        await collect(build_model(wire, server.url), request(*answered("call_1", "call_1")))

    calls, results = sent_calls_and_results(wire, server.bodies[0])
    assert len(set(calls)) == 2
    assert results == [(calls[0], "Sunny."), (calls[1], "Rain.")]


async def test_ids_that_an_api_would_refuse_are_replaced_and_others_kept(wire):
    long_id = "a-run-with-a-long-name.3.0" * 4
    async with serve(b"".join(answer_events(wire))) as server:
        await collect(build_model(wire, server.url), request(*answered(long_id, "call_abc")))

    calls, results = sent_calls_and_results(wire, server.bodies[0])
    assert len(calls[0]) <= 40
    assert "." not in calls[0]
    assert calls[1] == "call_abc"
    assert [id for id, _ in results] == calls


async def test_a_result_without_its_call_is_sent_as_text(wire):
    result = {"role": "tool", "tool_call_id": "gone", "name": "get_weather", "content": "Sunny."}
    async with serve(b"".join(answer_events(wire))) as server:
        await collect(build_model(wire, server.url), request(user("Hello"), result))

    assert sent_calls_and_results(wire, server.bodies[0]) == ([], [])
    assert "[Tool Result: get_weather] Sunny." in json.dumps(server.bodies[0])


async def test_images_of_prompts_and_results_are_carried(wire):
    picture = block_fields(Image(data="aGVsbG8=", mime_type="image/png"))
    messages = answered("call_1", results=([{"type": "text", "text": "A map."}, picture],))
    asked = request(*messages, {"role": "user", "content": [{"type": "text", "text": "And this?"}, picture]})
    async with serve(b"".join(answer_events(wire))) as server:
        await collect(build_model(wire, server.url), asked)

    body = json.dumps(server.bodies[0])
    assert body.count("aGVsbG8=") == 2
    assert body.index("A map.") < body.index("And this?")


async def test_a_hosted_tool_is_passed_on_in_the_words_of_its_provider(wire):
    entries = {"openai": {"type": "web_search"}, "anthropic": {"type": "web_search_20250305", "name": "web_search"}}
    hosted = tool.hosted("search", options=entries)
    asked = ModelRequest([user("News?")], [], hosted=(hosted,))
    async with serve(b"".join(answer_events(wire))) as server:
        await collect(build_model(wire, server.url), asked)

    provider = "anthropic" if wire == "anthropic" else "openai"
    assert server.bodies[0]["tools"] == [entries[provider]]


async def test_settings_reach_the_server_in_the_words_of_its_api(wire):
    settings = {"temperature": 0.2, "max_tokens": 300, "options": {"seed": 7}}
    async with serve(b"".join(answer_events(wire))) as server:
        await collect(build_model(wire, server.url, **settings))

    body = server.bodies[0]
    assert body["temperature"] == 0.2
    assert body["seed"] == 7
    assert body["max_output_tokens" if wire == "responses" else "max_tokens"] == 300


async def test_a_price_gives_the_cost_and_without_one_it_is_unknown(wire):
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    events = answer_events(wire)
    if wire == "openai":
        events.insert(-1, chat_chunk({}, usage=usage))
    async with serve(b"".join(events)) as server:
        _, priced = await collect(build_model(wire, server.url, price=Price(input=1.0, output=2.0)))
        _, unpriced = await collect(build_model(wire, server.url))

    assert (priced.usage.tokens_in, priced.usage.tokens_out) == (7, 3)
    assert priced.usage.cost == pytest.approx(13 / 1_000_000)
    assert unpriced.usage.cost is None


async def test_leaving_a_stream_closes_the_http_request(wire):
    events = answer_events(wire)
    async with serve(stream_then(b"".join(events[:-2]), asyncio.Event().wait)) as server:
        stream = build_model(wire, server.url).stream(request())
        await anext(stream)
        await stream.aclose()

        await asyncio.wait_for(server.closed_by_client.wait(), 20)


async def test_cancelling_a_request_closes_the_http_request(wire):
    begun = asyncio.Event()

    async def wait_forever():
        begun.set()
        await asyncio.Event().wait()

    async with serve(stream_then(b"", wait_forever)) as server:
        asking = asyncio.create_task(collect(build_model(wire, server.url)))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        await asyncio.wait_for(server.closed_by_client.wait(), 20)


async def test_the_key_goes_to_the_server_and_into_no_text_of_the_model(wire):
    async with serve(b"".join(answer_events(wire))) as server:
        model = build_model(wire, server.url)
        await collect(model)

    assert KEY in str(server.headers[0])
    assert KEY not in repr(model)
    assert KEY not in repr(model.settings)


async def test_an_unknown_event_between_others_changes_nothing(wire):
    events = answer_events(wire, calls=TWO_CALLS)
    unknown = b": a comment\n\n" if wire == "openai" else sse({"type": "weather_report"}, "weather_report")
    events.insert(2, unknown)
    async with serve(b"".join(events)) as server:
        _, answer = await collect(build_model(wire, server.url))

    assert len(answer.calls) == 2
