"""A stream that ends early, drops, is corrupt or falls silent is a failed request, and gives no calls."""

from __future__ import annotations

import asyncio

import pytest

from surehand.agent.models.sdk_model import ModelSettings
from tests.agent.models.byte_server import serve, stream_then, stream_then_repeat
from tests.agent.models.wires import WIRES, answer_events, build_model, chat_chunk, collect, fail, sse

CALL = [("call_1", "pay", '{"amount": 5}')]
pytestmark = pytest.mark.parametrize("wire", WIRES)
_FINAL_EVENTS = {"openai": 2, "responses": 1, "anthropic": 1}
"""Events at the end, from the one on that says that the answer is complete."""
_WRONG_FIELDS = {
    "openai": b'{"choices": 5}',
    "responses": b'{"type": "response.function_call_arguments.delta", "output_index": 99, "delta": "x"}',
    "anthropic": b'{"type": "content_block_delta", "index": 99, "delta": {"type": "text_delta", "text": "x"}}',
}

_PINGS = {
    "openai": chat_chunk({"content": ""}),
    "responses": sse({"type": "keepalive", "sequence_number": 9}, "keepalive"),
    "anthropic": sse({"type": "ping"}, "ping"),
}


def split_before_end(wire: str) -> tuple[bytes, bytes]:
    """The bytes before the event that completes an answer with a call, and those of this event and the rest."""
    events = answer_events(wire, calls=CALL)
    count = _FINAL_EVENTS[wire]
    return b"".join(events[:-count]), b"".join(events[-count:])


async def test_an_answer_that_is_cut_between_two_events_fails(wire):
    events = answer_events(wire, calls=CALL)
    complete_at = len(events) - _FINAL_EVENTS[wire]
    for count in range(complete_at + 1):
        async with serve(b"".join(events[:count])) as server:
            error = await fail(build_model(wire, server.url))

        assert error.retryable
        assert "incomplete" in str(error)


@pytest.mark.timeout(180)  # one request for each byte
async def test_an_answer_that_is_cut_at_any_byte_of_its_last_event_fails_until_the_event_is_whole(wire):
    start, end = split_before_end(wire)
    event_length = end.index(b"\n\n") + 2
    cuts = iter(range(event_length))
    async with serve(*[start + end[:cut] for cut in cuts], start + end[:event_length]) as server:
        model = build_model(wire, server.url)
        for _ in range(event_length):
            assert (await fail(model)).retryable

        _, answer = await collect(model)
    assert [call.arguments for call in answer.calls] == ['{"amount": 5}']


async def test_an_answer_that_is_cut_at_any_byte_of_a_call_fails(wire):
    events = answer_events(wire, calls=CALL)
    place = next(index for index, event in enumerate(events) if b"pay" in event)
    start, event = b"".join(events[:place]), events[place]
    async with serve(*[start + event[:cut] for cut in range(len(event) + 1)]) as server:
        model = build_model(wire, server.url)
        for _ in range(len(event) + 1):
            assert (await fail(model)).retryable


@pytest.mark.parametrize(
    "garbage",
    [
        b"data: {not json}\n\n",
        b"data: \xff\xfe\x00\n\n",
        b"data: 5\n\n",
        b"data: null\n\n",
        b"data: []\n\n",
        b"data: WRONG FIELDS\n\n",
    ],
    ids=["not JSON", "not UTF-8", "a number", "null", "a list", "wrong fields"],
)
async def test_a_corrupt_event_fails_the_answer(wire, garbage):
    events = answer_events(wire, calls=CALL)
    garbage = garbage.replace(b"WRONG FIELDS", _WRONG_FIELDS[wire])
    corrupt = b"event: response.output_item.done\n" + garbage if wire != "openai" else garbage
    async with serve(b"".join([*events[:2], corrupt, *events[2:]])) as server:
        error = await fail(build_model(wire, server.url))

    assert error.retryable
    assert "cannot be read" in str(error)


async def test_a_connection_that_drops_in_the_middle_fails_the_answer(wire):
    start, _ = split_before_end(wire)

    async def drop(writer):
        size = f"{len(start):x}\r\n".encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head + size + start + b"\r\n")  # no last chunk
        await writer.drain()

    async with serve(drop) as server:
        error = await fail(build_model(wire, server.url))

    assert error.retryable
    assert "broke in the middle" in str(error)


async def test_a_server_that_falls_silent_fails_the_answer(wire):
    start, _ = split_before_end(wire)
    async with serve(stream_then(start, asyncio.Event().wait)) as server:
        error = await fail(build_model(wire, server.url, idle_timeout=0.3))

    assert error.retryable
    assert str(error) == f"{wire}:m1 sent nothing of its answer for 0.3 seconds."


@pytest.mark.parametrize("heartbeat", ["comments", "pings"])
async def test_a_server_that_sends_nothing_but_heartbeats_fails_the_answer(wire, heartbeat):
    start, _ = split_before_end(wire)
    ping = b": keep-alive\n\n" if heartbeat == "comments" else _PINGS[wire]
    async with serve(stream_then_repeat(start, ping)) as server:
        error = await fail(build_model(wire, server.url, idle_timeout=0.3))

    assert error.retryable
    assert str(error) == f"{wire}:m1 sent nothing of its answer for 0.3 seconds."


async def test_heartbeats_between_the_events_of_an_answer_are_skipped(wire):
    events = answer_events(wire, calls=CALL)
    body = b"".join(event + b": keep-alive\n\n" + _PINGS[wire] for event in events[:-1]) + events[-1]
    async with serve(body) as server:
        _, answer = await collect(build_model(wire, server.url))

    assert [call.arguments for call in answer.calls] == ['{"amount": 5}']


async def test_an_error_in_the_middle_of_the_answer_fails_it(wire):
    start, _ = split_before_end(wire)
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Too many requests right now."}}
    async with serve(start + sse(body, "error")) as server:
        error = await fail(build_model(wire, server.url))

    assert error.retryable
    assert "Too many requests right now." in str(error)


async def test_an_error_in_the_middle_of_the_answer_does_not_show_a_key_of_the_environment(wire, monkeypatch):
    model_class = type(build_model(wire, "http://unused"))
    monkeypatch.setenv(model_class.key_variable, "sk-from-the-environment")
    start, _ = split_before_end(wire)
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "No room for sk-from-the-environment."}}
    async with serve(start + sse(body, "error")) as server:
        error = await fail(model_class("m1", ModelSettings(base_url=server.url)))

    assert "No room for [redacted]." in str(error)


async def test_calls_of_an_answer_that_was_cut_at_its_token_limit_are_not_made(wire):
    body = b"".join(answer_events(wire, calls=CALL))
    body = body.replace(b'"finish_reason": "tool_calls"', b'"finish_reason": "length"')
    body = body.replace(b'"stop_reason": "tool_use"', b'"stop_reason": "max_tokens"')
    incomplete = b'"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "usage"'
    body = body.replace(b'"status": "completed", "usage"', incomplete)
    async with serve(body) as server:
        error = await fail(build_model(wire, server.url))

    assert not error.retryable
    assert "max_tokens" in str(error)
