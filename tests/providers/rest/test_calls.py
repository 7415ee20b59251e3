"""REST tools in a runtime: retries, idempotency keys, approvals, caches, streams, deadlines and cancellation."""

import asyncio
import ssl

import pytest
import trustme

from surehand import Policy, Runtime, rest
from tests.http.server import chunked, reply, serving
from tests.providers.rest.calling import OK, object_schema, rest_tool

STRING = {"type": "string"}


def failing(times, status=503, **headers):
    """A server that fails some times before it answers."""
    left = [reply("later", status, "Later", **headers)] * times

    def answer(asked):
        return left.pop() if left else OK

    return answer


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408])
async def test_a_call_that_only_reads_is_retried_after_a_temporary_failure(status):
    async with rest_tool("GET", "/", answer=failing(2, status, retry_after="0")) as call:
        outcome = await call()

        assert outcome.ok
        assert (outcome.meta.attempts, len(call.server.asked)) == (3, 3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 501])
async def test_other_failures_are_not_retried(status):
    async with rest_tool("GET", "/", answer=failing(1, status)) as call:
        assert not (await call()).ok

        assert len(call.server.asked) == 1


async def test_a_call_that_writes_is_not_retried_and_carries_its_idempotency_key():
    async with rest_tool("POST", "/", answer=failing(1)) as call:
        outcome = await call.runtime.call("api", {}, call_id="call-7")

        assert (outcome.code, outcome.executed) == ("unavailable", True)
        assert [asked.headers["idempotency-key"] for asked in call.server.asked] == ["call-7"]


async def test_a_repeatable_call_that_writes_has_no_idempotency_key_and_is_retried():
    async with rest_tool("PUT", "/", answer=failing(1, retry_after="0"), repeatable=True) as call:
        assert (await call()).ok

        assert ["idempotency-key" in asked.headers for asked in call.server.asked] == [False, False]


async def test_an_idempotency_key_of_the_template_stays():
    parameters = object_schema(key=STRING)
    headers = {"Idempotency-Key": "order-${parameters.key}"}
    async with rest_tool("POST", "/", headers=headers, parameters=parameters) as call:
        await call(key="9")

        assert call.asked.headers["idempotency-key"] == "order-9"


async def test_the_pause_that_a_service_asks_for_is_part_of_the_outcome():
    async with rest_tool("GET", "/", answer=failing(1, 429, retry_after="20"), retries=0) as call:
        outcome = await call()

        assert (outcome.code, outcome.retry_after) == ("rate_limited", 20)


async def test_whoever_approves_sees_the_request_that_will_be_sent():
    options = {
        "parameters": object_schema(to=STRING, amount={"type": "number"}),
        "auth": "${env.TOKEN}",
        "headers": {"X-Api-Key": "hard-coded"},
        "environment": {"TOKEN": "s3cr3t-token"},
    }
    async with rest_tool("POST", "/pay/{to}", runtime={"policy": Policy.default()}, **options) as call:
        waits = await call.runtime.call("api", {"to": "Ada", "amount": 5}, call_id="c1")
        url = f"http://127.0.0.1:{call.server.port}/pay/Ada"
        done = await call.runtime.approve("c1")

        assert waits.message == f"Send POST {url}?"
        assert waits.request["preview"] == (
            f"POST {url}\nX-Api-Key: [redacted]\nContent-Type: application/json\nAccept: application/json, */*;q=0.8\n"
            'Idempotency-Key: c1\nAuthorization: Bearer [redacted]\n\n{"amount":5}'
        )
        assert done.ok
        assert call.asked.headers["authorization"] == "Bearer s3cr3t-token"
        assert (call.asked.path, call.asked.body) == ("/pay/Ada", b'{"amount":5}')


async def test_the_word_before_a_token_is_no_secret():
    body = '{"hint": "use a bearer token", "you": "t0ken-value"}'
    options = {"headers": {"Authorization": "Bearer ${env.TOKEN}"}, "environment": {"TOKEN": "t0ken-value"}}
    async with rest_tool(
        "GET", "/", answer=lambda asked: reply(body, content_type="application/json"), **options
    ) as call:
        outcome = await call()

        assert call.asked.headers["authorization"] == "Bearer t0ken-value"
        assert outcome.data == {"hint": "use a bearer token", "you": "[redacted]"}


async def test_a_preview_has_no_default_that_is_not_sent():
    parameters = object_schema(to={"type": "string", "default": "Ada"}, note={"type": "string", "default": "none"})
    async with rest_tool("POST", "/{to}", parameters=parameters, runtime={"policy": Policy.default()}) as call:
        waits = await call()
        await call.runtime.approve(waits.call_id)

        sent = f"POST http://127.0.0.1:{call.server.port}{call.asked.path}"
        assert waits.request["preview"].startswith(f"{sent}\n")
        assert waits.request["preview"].endswith("\n\n{}")
        assert (call.asked.path, call.asked.body) == ("/Ada", b"{}")


@pytest.mark.parametrize("environment", [{}, {"TOKEN": "x"}])
async def test_nobody_is_asked_about_a_request_that_cannot_be_sent(environment):
    options = {"parameters": object_schema(to=STRING), "auth": "${env.TOKEN}", "environment": environment}
    async with rest_tool("POST", "/{to}", runtime={"policy": Policy.default()}, **options) as call:
        outcome = await call(to="..")

        assert not outcome.ok
        assert not outcome.executed
        assert await call.runtime.pending() == []


async def test_an_approval_does_not_hold_for_another_request_of_the_same_name(tmp_path):
    store = str(tmp_path / "calls.db")
    parameters = object_schema(to=STRING)
    policy = Policy.default()
    async with serving(lambda asked: OK) as server:
        url = f"http://127.0.0.1:{server.port}"
        async with Runtime(
            rest("POST", f"{url}/a", name="api", parameters=parameters), store=store, policy=policy
        ) as one:
            waits = await one.call("api", {"to": "Ada"}, call_id="c1")
        async with Runtime(
            rest("POST", f"{url}/b", name="api", parameters=parameters), store=store, policy=policy
        ) as two:
            answer = await two.approve(waits.call_id)

    assert not answer.ok
    assert server.asked == []


async def test_results_can_be_cached():
    async with rest_tool("GET", "/", cache=60) as call:
        await call()
        second = await call()

        assert second.meta.cached
        assert len(call.server.asked) == 1


async def test_items_of_a_stream_are_events_of_the_call():
    body = chunked(b'{"text": "one"}\n', b'{"text": "two"}\n', content_type="application/x-ndjson")
    async with rest_tool("GET", "/", answer=lambda asked: body) as call:
        events = [event async for event in call.runtime.stream("api", {})]

        messages = [event.message for event in events if type(event).__name__ == "CallProgress"]
        assert messages == ["one", "two"]
        assert events[-1].outcome.data == [{"text": "one"}, {"text": "two"}]


def stalling(started):
    async def answer(asked):
        yield chunked(b'{"n": 1}\n', content_type="application/x-ndjson").removesuffix(b"0\r\n\r\n")
        started.set()
        await asyncio.Event().wait()

    return answer


async def test_a_stream_that_stalls_ends_with_the_time_limit():
    started = asyncio.Event()
    async with rest_tool("GET", "/", answer=stalling(started), timeout=0.1, retries=0) as call:
        outcome = await call()

        assert outcome.code == "timed_out"


async def test_a_cancelled_call_closes_its_connection():
    started = asyncio.Event()
    async with rest_tool("GET", "/", answer=stalling(started)) as call:
        running = asyncio.create_task(call.runtime.call("api", {}, call_id="c1"))
        await started.wait()
        await call.runtime.cancel("c1")

        assert (await running).code == "cancelled"


async def test_events_without_end_end_with_a_limit():
    async def answer(asked):
        yield chunked(content_type="text/event-stream").removesuffix(b"0\r\n\r\n")
        event = b"data: " + b"x" * 100_000 + b"\n\n"
        while True:
            yield b"%x\r\n%b\r\n" % (len(event), event)

    async with rest_tool("GET", "/", answer=answer, http={"max_bytes": "1MB"}) as call:
        assert (await call()).code == "too_large"


async def test_connections_are_used_again():
    async with rest_tool("GET", "/") as call:
        for _ in range(5):
            await call()

        assert call.server.connections == 1


async def test_a_tool_runs_without_a_runtime():
    async with serving(lambda asked: OK) as server:
        outcome = await rest("GET", f"http://127.0.0.1:{server.port}/x", name="api").run({})

    assert outcome.data == {"ok": True}


async def test_pick_and_redact_shape_the_result():
    body = '{"data": {"user": {"name": "Ada", "ssn": "078-05-1120"}}}'
    options = {"answer": lambda asked: reply(body, content_type="application/json"), "redact": ["ssn"]}
    async with rest_tool("GET", "/", pick="data.user", **options) as call:
        assert (await call()).data == {"name": "Ada", "ssn": "[redacted]"}


async def test_a_service_with_a_certificate_of_its_own_authority():
    authority = trustme.CA()
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server_context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with serving(lambda asked: OK, server_context) as server:
        url = f"https://127.0.0.1:{server.port}/"
        trusted = rest("GET", url, name="trusted", http={"verify": trusting})
        other = rest("GET", url, name="other", retries=0)
        async with Runtime(trusted, other) as runtime:
            outcomes = [await runtime.call("trusted"), await runtime.call("trusted"), await runtime.call("other")]

    assert [outcome.ok for outcome in outcomes] == [True, True, False]
    assert (outcomes[2].code, outcomes[2].executed) == ("failed", False)
    assert "certificate" in outcomes[2].message


async def test_many_calls_that_are_cancelled_at_any_moment_leave_nothing_behind():
    async def slow(asked):
        for piece in (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n",
            b"content-length: 2\r\n\r\n",
            b"{",
            b"}",
        ):
            await asyncio.sleep(0)
            yield piece

    async with rest_tool("GET", "/", answer=slow, retries=0) as call:
        for turns in range(60):
            running = [asyncio.create_task(call()) for _ in range(4)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        assert (await call()).data == {}
        assert call.runtime.stats().abandoned == 0
