"""More requests than may be in flight: they are refused at once, and nothing that was acknowledged is lost."""

import asyncio

import pytest

from bench.overload import run
from surehand.gateway.access.identity import OPERATOR
from surehand.gateway.access.overload import early_refusal
from surehand.gateway.access.request_limits import GatewayLimits
from tests.gateway.api.served_gateway import Gate, build_runtime, serve

ONE = GatewayLimits(requests=1)
WHOLE = b"POST /api/tools/add/call HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


async def test_one_request_too_many_is_refused_before_its_token_is_checked():
    gate = Gate()
    checked = []

    async def auth(request):
        checked.append(request.url.path)
        return OPERATOR

    async with serve(build_runtime(gate.tool), auth=auth, limits=ONE) as gateway:
        running = asyncio.create_task(gateway.call("wait"))
        await gate.started.wait()
        refused = [await gateway.call("add", {"a": 1, "b": 2}) for _ in range(3)]
        healthy = await gateway.client.get("/healthz")
        async with gateway.events() as events:
            stream_status = events.response.status_code
        gate.opened.set()
        first = await running
        later = await gateway.call("add", {"a": 1, "b": 2})

    assert {(each.status_code, each.json()["code"], each.headers["retry-after"]) for each in refused} == {
        (429, "rate_limited", "1")
    }
    assert refused[0].headers["x-content-type-options"] == "nosniff"
    assert (healthy.status_code, stream_status) == (200, 200)
    assert first.json()["data"] == "opened"
    assert later.json()["data"] == 3
    assert len(checked) == 3  # the first call, the stream of events, and the last call


async def test_a_request_that_arrives_in_parts_is_refused_too():
    gate = Gate()

    async def parts():
        yield b'{"arguments": '
        yield b'{"a": 1, "b": 2}}'

    async with serve(build_runtime(gate.tool), limits=ONE) as gateway:
        running = asyncio.create_task(gateway.call("wait"))
        await gate.started.wait()
        refused = await gateway.client.post(
            "/api/tools/add/call", content=parts(), headers={"content-type": "application/json"}
        )
        gate.opened.set()
        await running

    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")


@pytest.mark.parametrize(
    "data",
    [
        WHOLE[:-1],
        WHOLE + WHOLE,
        WHOLE + b"GET",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /api/events?family=000 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        WHOLE.replace(b"Host: x", b"Host: x\r\nConnection: close"),
        WHOLE.replace(b"Host: x", b"Host: x\r\nConnection: upgrade\r\nUpgrade: h2c"),
        WHOLE.replace(b"POST", b"HEAD").replace(b"GET", b"HEAD"),
        b"\x16\x03\x01 not HTTP",
    ],
)
def test_only_one_plain_whole_request_is_refused_before_it_reaches_the_app(data):
    assert early_refusal(lambda: True).response_to(data) is None


def test_the_early_refusal_is_a_whole_response():
    head, _, body = early_refusal(lambda: True).response_to(WHOLE).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert f"content-length: {len(body)}".encode() in head
    assert b'"rate_limited"' in body


async def test_requests_that_begin_together_are_all_answered_in_turns():
    async with serve(build_runtime()) as gateway:
        answers = await asyncio.gather(*(gateway.call("add", {"a": each, "b": 0}) for each in range(40)))

    assert [each.json()["data"] for each in answers] == list(range(40))


@pytest.mark.long
@pytest.mark.timeout(120)
async def test_under_ten_times_its_capacity_the_gateway_loses_nothing_that_it_acknowledged():
    results = await run(seconds=2.0, connections=500)

    assert results["goodput, calls/s"] > 0
    assert results["refused with 429"] > 0
    assert results["other answers"] == 0
    assert results["refusals without Retry-After"] == 0
    assert results["acknowledged and lost"] == 0
