"""Retries: after a growing delay or the one that the server asks for, bounded in number and time."""

from __future__ import annotations

import asyncio

import pytest

from surehand.agent.models.base import AnswerRestarted, ModelError, ModelRequest
from surehand.agent.models.retries import RetryingModel
from surehand.agent.models.scripted import ScriptedModel
from surehand.testing import ManualClock

BUSY = ModelError("Busy.", retryable=True)


async def run(model, clock):
    """The chunks of a request, or its error, while the clock is advanced for it."""

    async def collect():
        return [chunk async for chunk in model.stream(ModelRequest([{"role": "user", "content": "Hello"}]))]

    asking = asyncio.create_task(collect())
    while not asking.done():
        await clock.advance(0.05)
    return await asking


def delays(chunks):
    return [chunk.delay for chunk in chunks if isinstance(chunk, AnswerRestarted)]


async def test_the_delay_grows_with_each_attempt():
    clock = ManualClock()
    chunks = await run(RetryingModel(ScriptedModel(BUSY, BUSY, BUSY, "Hello."), clock=clock), clock)

    first, second, third = delays(chunks)
    assert 0.4 <= first <= 0.6
    assert first * 1.2 < second < third
    assert chunks[-1].text == "Hello."


async def test_the_delay_that_the_server_asks_for_is_taken():
    clock = ManualClock()
    started_at = clock.now()
    later = ModelError("Busy.", retryable=True, retry_after=7.0)
    chunks = await run(RetryingModel(ScriptedModel(later, "Hello."), clock=clock), clock)

    assert delays(chunks) == [7.0]
    assert clock.now() - started_at >= 7.0


@pytest.mark.parametrize(
    ("replies", "requests"),
    [
        ([BUSY] * 9, 4),
        ([ModelError("Wrong key.")], 1),
        ([ModelError("Come back tomorrow.", retryable=True, retry_after=86_400)], 1),
        ([ModelError("Busy.", retryable=True, retry_after=50)] * 9, 3),
    ],
    ids=["too often", "cannot succeed", "too long a wait", "too long in all"],
)
async def test_attempts_are_bounded_in_number_and_in_time(replies, requests):
    clock = ManualClock()
    scripted = ScriptedModel(*replies)

    with pytest.raises(ModelError) as caught:
        await run(RetryingModel(scripted, clock=clock), clock)

    assert caught.value is replies[0]
    assert len(scripted.requests) == requests


async def test_a_stream_that_ends_without_an_answer_is_retried():
    class Empty(ScriptedModel):
        async def stream(self, request):
            async for chunk in super().stream(request):
                if len(self.requests) > 1:
                    yield chunk

    clock = ManualClock()
    chunks = await run(RetryingModel(Empty("Hello.", "Hello."), clock=clock), clock)

    assert "ended without an answer" in chunks[0].reason
    assert chunks[-1].text == "Hello."


async def test_cancelling_the_wait_between_two_attempts_ends_it():
    scripted = ScriptedModel(BUSY, "Hello.")
    stream = RetryingModel(scripted, clock=ManualClock()).stream(ModelRequest([]))
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(scripted.requests) == 1
