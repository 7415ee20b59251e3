"""Answers of operations that come piece by piece, stall, are cut off or never end."""

from __future__ import annotations

import asyncio

from tests.http.server import chunked
from tests.providers.openapi.api_server import document, operation, serving_api

DESCRIBED = document({"/x": {"post": operation()}})
BEGINNING = chunked(b'{"n": 1}\n', content_type="application/x-ndjson").removesuffix(b"0\r\n\r\n")


async def test_lines_of_json_are_the_result_together():
    answer = chunked(b'{"n": 1}\n', b'{"n": 2}\n', content_type="application/x-ndjson")
    async with serving_api(DESCRIBED, lambda _: answer) as api:
        assert (await api.call("send")).data == [{"n": 1}, {"n": 2}]


async def test_an_answer_that_stalls_ends_with_the_time_limit():
    async def answer(_):
        yield BEGINNING
        await asyncio.Event().wait()

    async with serving_api(DESCRIBED, answer, timeout=0.2) as api:
        assert (await api.call("send")).code == "timed_out"


async def test_an_answer_that_is_cut_off_is_no_result():
    async def answer(_):
        yield BEGINNING
        yield None

    async with serving_api(DESCRIBED, answer) as api:
        outcome = await api.call("send")

        assert outcome.code == "unavailable"
        assert outcome.executed  # the request was sent, and may have had its effect


async def test_an_answer_that_never_ends_is_too_large():
    async def answer(_):
        yield BEGINNING
        line = b'"' + b"x" * 1_000 + b'"\n'
        while True:
            yield b"%x\r\n%b\r\n" % (len(line) * 60, line * 60)

    async with serving_api(DESCRIBED, answer, http={"max_bytes": "1MB"}) as api:
        assert (await api.call("send")).code == "too_large"
