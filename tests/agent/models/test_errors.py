"""Errors of servers: which are worth another attempt, how long to wait, and that none shows the key."""

from __future__ import annotations

import socket

import pytest

from surehand.agent.models.base import AnswerRestarted
from surehand.agent.models.errors import ContextTooLong
from surehand.agent.models.retries import RetryingModel
from tests.agent.models.byte_server import error_response, serve
from tests.agent.models.wires import KEY, WIRES, HastyClock, answer_events, build_model, collect, fail


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_repeats_the_key_in_its_error_does_not_get_it_shown(wire):
    body = {"error": {"type": "authentication_error", "message": f"Incorrect API key provided: {KEY}."}}
    async with serve(error_response(401, body)) as server:
        error = await fail(build_model(wire, server.url))

    said = "Incorrect API key provided: [redacted]. Check the API key of this model."
    assert str(error) == f"{wire}:m1 answered 401 (authentication_error): {said}"
    assert not error.retryable


async def test_an_empty_account_is_not_retried_though_its_status_is_that_of_a_rate_limit():
    body = {"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You have no credit."}}
    async with serve(error_response(429, body)) as server:
        error = await fail(build_model("openai", server.url))

    assert not error.retryable
    assert "You have no credit." in str(error)


async def test_the_server_s_own_advice_not_to_retry_is_taken():
    async with serve(error_response(500, {"error": "Broken."}, x_should_retry="false")) as server:
        error = await fail(build_model("openai", server.url))

    assert not error.retryable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry_after": "3"}, 3.0), ({"retry_after_ms": "250"}, 0.25), ({"retry_after": "soon"}, None), ({}, None)],
)
async def test_the_time_to_wait_is_read_from_the_headers(headers, seconds):
    async with serve(error_response(429, {"error": {"message": "Slow down."}}, **headers)) as server:
        error = await fail(build_model("anthropic", server.url))

    assert error.retry_after == seconds
    assert error.retryable


@pytest.mark.parametrize("wire", WIRES)
async def test_a_rate_limit_that_does_not_say_how_long_is_waited_for_with_growing_delays(wire):
    busy = error_response(429, {"error": {"message": "Slow down."}})
    async with serve(busy, busy, b"".join(answer_events(wire, "Hello."))) as server:
        chunks, answer = await collect(RetryingModel(build_model(wire, server.url), clock=HastyClock()))

    first, second = [chunk.delay for chunk in chunks if isinstance(chunk, AnswerRestarted)]
    assert 0 < first < second
    assert answer.text == "Hello."


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
        "the request exceeds the available context size",
    ],
)
async def test_a_conversation_that_is_too_long_is_recognized(wire, message):
    body = {"error": {"type": "invalid_request_error", "message": message}}
    async with serve(error_response(400, body)) as server:
        error = await fail(build_model(wire, server.url))

    assert isinstance(error, ContextTooLong)


async def test_a_date_to_wait_for_in_the_past_means_now():
    header = "Wed, 21 Oct 2015 07:28:00 GMT"
    async with serve(error_response(503, {}, retry_after=header)) as server:
        error = await fail(build_model("anthropic", server.url))

    assert error.retry_after == 0.0


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_is_not_there_is_worth_another_attempt(wire):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error = await fail(build_model(wire, f"http://127.0.0.1:{unused.getsockname()[1]}"))

    assert error.retryable
    assert str(error).startswith(f"The connection to {wire}:m1 failed: ")


async def test_an_error_page_that_is_not_json_is_shown_shortened():
    async def write_page(writer):
        page = b"<html>" + b"Bad gateway. " * 500
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: %d\r\n\r\n" % len(page) + page)
        await writer.drain()

    async with serve(write_page) as server:
        error = await fail(build_model("openai", server.url))

    assert error.retryable
    assert len(str(error)) < 700
