"""Limits of calls: pauses that services ask for, sizes of responses and lists, time of all pages together, memory."""

import asyncio
import json
import tracemalloc

import pytest

from surehand import rest
from surehand.providers.rest.sender import MAX_RESPONSE_BYTES
from surehand.testing import ManualClock
from tests.http.server import chunked, reply, serving
from tests.providers.rest.calling import OK, rest_tool
from tests.providers.rest.sending import exchanging

JSON = {"content_type": "application/json"}


def limited(seconds):
    """A server that asks for a pause before it answers."""
    answers = [reply("later", 429, "Slow down", retry_after=seconds), OK]
    return lambda asked: answers.pop(0)


@pytest.mark.parametrize("seconds", [1, 20, 300])
async def test_a_call_that_only_reads_waits_as_long_as_the_service_asks(seconds):
    clock = ManualClock()
    async with rest_tool("GET", "/", answer=limited(seconds), timeout="off", runtime={"clock": clock}) as call:
        running = asyncio.create_task(call())
        while not call.server.asked:  # noqa: ASYNC110 - the server is real, and has no event for it
            await asyncio.sleep(0)
        await clock.advance(seconds - 0.5)
        assert not running.done()
        await clock.advance(0.5)

        assert (await running).meta.attempts == 2


@pytest.mark.parametrize(("asked", "known"), [("301", 301), ("1e9", 86_400), ("Fri, 31 Dec 2999 23:59:59 GMT", 86_400)])
async def test_nobody_waits_longer_than_five_minutes_because_a_service_asks(asked, known):
    async with rest_tool("GET", "/", answer=limited(asked)) as call:
        outcome = await call()

        assert (outcome.code, outcome.retry_after, outcome.meta.attempts) == ("rate_limited", known, 1)


@pytest.mark.parametrize("length", [str(MAX_RESPONSE_BYTES + 1), None])
async def test_a_response_is_read_up_to_its_limit(length):
    async def answer(asked):
        if length is not None:
            yield reply(content_length=length, **JSON)  # the announced size is enough: nothing is read
            return
        yield chunked(**JSON).removesuffix(b"0\r\n\r\n")
        while True:
            yield b"10000\r\n" + b"1" * 65536 + b"\r\n"

    async with rest_tool("GET", "/", answer=answer) as call:
        outcome = await call()

        assert outcome.code == "too_large"


async def test_a_developer_sets_the_size_of_responses():
    body = json.dumps(["x" * 1_000] * 10)
    async with rest_tool("GET", "/", answer=lambda _: reply(body, **JSON), http={"max_bytes": "5kB"}) as call:
        assert (await call()).code == "too_large"
    async with rest_tool("GET", "/", answer=lambda _: reply(body, **JSON), http={"max_bytes": "20kB"}) as call:
        assert (await call()).ok


def endless_pages(asked):
    number = int(asked.path.rpartition("=")[2] or 0)
    return reply(json.dumps(["x" * 1_000]), link=f"</list?page={number + 1}>; rel=next", **JSON)


async def test_all_pages_together_are_at_most_as_large_as_one_response():
    options = {"paginate": {"link": True, "max_pages": 1_000}, "http": {"max_bytes": "5kB"}}
    async with rest_tool("GET", "/list?page=0", answer=endless_pages, **options) as call:
        outcome = await call()

        assert outcome.metadata == {"pages": 5, "has_more": True}
        assert len(outcome.data) == 5
        assert "there are more" in outcome.text


async def test_the_time_limit_of_a_tool_is_for_all_pages_together():
    started = []

    async def answer(asked):
        started.append(asked)
        if len(started) == 3:
            await asyncio.Event().wait()
        yield endless_pages(asked)

    async with rest_tool("GET", "/list?page=0", answer=answer, paginate="link", timeout=0.5, retries=0) as call:
        assert (await call()).code == "timed_out"
        assert len(started) == 3


async def test_the_time_limit_of_a_call_without_a_runtime_is_for_all_pages_together():
    async def answer(asked):
        await asyncio.sleep(0.2)
        yield endless_pages(asked)

    async with serving(answer) as server:
        url = f"http://127.0.0.1:{server.port}/list?page=0"
        tool = rest("GET", url, name="pages", paginate={"link": True, "max_pages": 1_000}, timeout=0.5)
        outcome = await tool.run({})

        assert outcome.code == "timed_out"
        assert len(server.asked) < 5


async def test_a_large_json_response_takes_little_more_memory_than_its_text_and_its_values():
    rows = [{"id": n, "name": f"näme {n}", "active": True} for n in range(40_000)]
    body = json.dumps(rows, ensure_ascii=False).encode()
    response = reply(body, **JSON)
    async with exchanging(lambda _: response) as exchange:
        tracemalloc.start()
        try:
            done = await exchange.send()
            parsed, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert done.data == rows
    assert peak <= parsed + 6 * len(body)  # what the server and the connection hold is among it
