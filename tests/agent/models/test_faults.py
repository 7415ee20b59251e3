"""Against llmock, a model server that injects faults and judges its client: no verdict is a FAIL."""

from __future__ import annotations

import pytest
from llmock.scenarios import Fail, Match, StreamFault

from surehand.agent.models.base import AnswerRestarted, TextChunk
from surehand.agent.models.errors import ContextTooLong
from surehand.agent.models.retries import MAX_ATTEMPTS, RetryingModel
from surehand.core.clock import Clock
from tests.agent.models.wires import WIRES, HastyClock, build_model, collect, fail, request, user

pytestmark = [pytest.mark.parametrize("wire", WIRES), pytest.mark.timeout(60)]
SHORT_IDLE_TIMEOUT = 0.5
QUOTA = 6_000
"""Tokens a minute."""


def retrying(wire, llmock, *, clock=None, **settings):
    base_url = llmock.base_url("anthropic" if wire == "anthropic" else "openai")
    return RetryingModel(build_model(wire, base_url, **settings), clock=clock or HastyClock())


async def test_a_healthy_server_answers_with_a_call_and_then_with_text(wire, llmock):
    model = retrying(wire, llmock)

    chunks, answer = await collect(model)
    assert [(call.name, call.arguments) for call in answer.calls] == [("get_weather", '{"city": "mock-city"}')]
    assert answer.usage.tokens_in > 0
    chunks, answer = await collect(model, request(tools=()))
    assert answer.text
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)) == answer.text

    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("status", [408, 409, 500, 502])
async def test_a_passing_failure_is_retried(wire, llmock, status):
    llmock.fail(status, times=2)

    chunks, answer = await collect(retrying(wire, llmock))

    assert [type(chunk) for chunk in chunks[:2]] == [AnswerRestarted, AnswerRestarted]
    assert len(answer.calls) == 1
    llmock.assert_resilient()  # not strict: on a busy machine the delays do not look as if they grew


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 501])
async def test_a_failure_that_cannot_pass_is_not_retried(wire, llmock, status):
    llmock.fail(status)

    error = await fail(retrying(wire, llmock))

    assert str(status) in str(error)
    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("status", [429, 503, 504, 529])
async def test_retry_after_is_respected(wire, llmock, status):
    llmock.fail(status, times=2, retry_after=0.3)

    await collect(retrying(wire, llmock, clock=Clock()))

    assert len(llmock.requests) == 3
    llmock.assert_resilient(strict=True)


async def test_a_quota_of_tokens_is_respected(wire, llmock):
    llmock.limits(tpm=QUOTA)
    await collect(retrying(wire, llmock, max_tokens=QUOTA - 200))  # takes nearly all of it

    chunks, _ = await collect(retrying(wire, llmock, clock=Clock(), max_tokens=300))

    assert any(isinstance(chunk, AnswerRestarted) and chunk.delay > 0 for chunk in chunks)
    assert {record.status for record in llmock.requests} == {200, 429}
    llmock.assert_resilient(strict=True)


async def test_a_slow_stream_that_takes_longer_than_the_idle_timeout_is_read_to_its_end(wire, llmock):
    text = " ".join(f"word{number}" for number in range(60))
    llmock.reply(text)
    llmock.pace(40)

    chunks, answer = await collect(retrying(wire, llmock, idle_timeout=1.0), request(tools=()))

    assert answer.text == text
    assert not any(isinstance(chunk, AnswerRestarted) for chunk in chunks)
    assert llmock.requests[0].chunks_sent > 25
    llmock.assert_resilient(strict=True)


async def test_an_outage_ends_after_a_few_attempts(wire, llmock):
    llmock.outage(status=500)

    error = await fail(retrying(wire, llmock))

    assert "500" in str(error)
    assert len(llmock.requests) == MAX_ATTEMPTS
    llmock.assert_resilient()  # not strict: on a busy machine the delays do not look as if they grew


async def test_a_prompt_that_is_too_long_is_not_retried_and_says_so(wire, llmock):
    llmock.context_overflow()
    assert isinstance(await fail(retrying(wire, llmock)), ContextTooLong)

    llmock.limits(context_window=1)
    another = request(user("And in Rome?"))
    assert isinstance(await fail(retrying(wire, llmock), another), ContextTooLong)
    assert len(llmock.requests) == 2
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("kind", ["truncate", "disconnect", "malformed"])
@pytest.mark.parametrize("after_chunks", [0, 1, 2, 3])
async def test_a_broken_stream_is_retried_and_its_calls_are_not_given(wire, llmock, kind, after_chunks):
    llmock.call_tool("get_weather", {"city": "Paris"}, times=None)
    llmock.add(StreamFault(kind, after_chunks=after_chunks, match=Match(stream=True)))

    chunks, answer = await collect(retrying(wire, llmock))

    assert sum(isinstance(chunk, AnswerRestarted) for chunk in chunks) == 1
    assert [call.arguments for call in answer.calls] == ['{"city": "Paris"}']
    assert len(llmock.requests) == 2
    llmock.assert_resilient()  # not strict: it takes a corrupt chunk for ignored if the rest was sent before we hung up


@pytest.mark.parametrize("events_left", [1, 2, 3, 4])
async def test_a_stream_that_is_cut_close_to_its_end_is_retried(wire, llmock, events_left):
    llmock.call_tool("get_weather", {"city": "Paris"}, times=None)
    model = retrying(wire, llmock)
    await collect(model)
    (whole,) = llmock.requests

    llmock.truncate(after_chunks=whole.chunks_sent - events_left)
    _, answer = await collect(model)

    assert [call.arguments for call in answer.calls] == ['{"city": "Paris"}']
    assert len(llmock.requests) == 3
    llmock.assert_resilient(strict=True)


async def test_a_stalled_stream_is_given_up_and_retried(wire, llmock):
    llmock.stall(after_chunks=2, seconds=3)

    await collect(retrying(wire, llmock, idle_timeout=SHORT_IDLE_TIMEOUT))

    assert len(llmock.requests) == 2
    llmock.assert_resilient(strict=True)


async def test_a_late_answer_and_a_late_first_token_are_given_up_and_retried(wire, llmock):
    model = retrying(wire, llmock, idle_timeout=SHORT_IDLE_TIMEOUT)

    llmock.delay(3)
    await collect(model)
    llmock.slow_first_token(3)
    await collect(model)

    llmock.assert_resilient()


async def test_malformed_arguments_and_unknown_tools_are_passed_on_for_the_runtime_to_refuse(wire, llmock):
    model = retrying(wire, llmock)

    llmock.break_tool_call("malformed_arguments")
    _, malformed = await collect(model)
    llmock.break_tool_call("unknown_tool")
    _, unknown = await collect(model)

    assert malformed.calls[0].arguments == '{"city": "'
    assert unknown.calls[0].name == "llmock_unknown_tool"
    llmock.assert_resilient(strict=True)


async def test_many_faults_in_a_row_are_survived(wire, llmock):
    llmock.add(Fail(500), Fail(429, retry_after=0.1))
    llmock.truncate(after_chunks=2)

    _, answer = await collect(retrying(wire, llmock, clock=Clock()))

    assert len(answer.calls) == 1
    llmock.assert_resilient()  # not strict: on a busy machine the delays do not look as if they grew
