"""Limits of what one client may take of a server."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from surehand import Runtime, tool
from surehand.gateway.mcp.http.admission import Admission
from surehand.jsonrpc.limits import CLIENT_MESSAGE_LIMITS
from tests.gateway.mcp.http_peer import (
    HANDSHAKE_VERSION,
    MODERN_VERSION,
    Header,
    HttpSite,
    RawConnection,
    call_request,
    http_site,
    modern_request,
    request,
)
from tests.gateway.mcp.processes import ROOT
from tests.gateway.mcp.stdio_peer import META, TIMEOUT_SECONDS, call, encode_line, message, stdio_peer

CAN = {
    **META,
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {"form": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}
MUCH = 4 * 1024 * 1024 - 2_000
INVALID_REQUEST, BUSY, INTERNAL_ERROR = -32600, -32000, -32603


@tool(effects={"read"})
async def echo(x: Any = "", v: Any = None) -> int:
    """How long it is."""
    return len(x)


@tool(effects={"write"}, confirm=True)
async def pay(v: Any = None) -> str:
    """Pay."""
    return "paid"


@tool(effects={"read"}, timeout="off")
async def hold(x: str = "") -> str:
    """Hold."""
    await asyncio.sleep(60)
    return "held"


@tool(effects={"read"}, provider_options={"mcp": {"execution": {"taskSupport": "required"}}})
async def job() -> str:
    """A job."""
    return "done"


@pytest.fixture
def uncollected():
    """What other tests have left is not looked through while something is measured."""
    gc.disable()
    yield
    gc.enable()


def of(user: str) -> Header:
    return "Authorization", f"Bearer {user}"


@asynccontextmanager
async def served(*tools: Any) -> AsyncIterator[HttpSite]:
    """A server whose tokens are the names of its users."""
    async with http_site(*tools, token=lambda shown: shown) as site:
        yield site


async def begun(site: HttpSite, data: bytes) -> RawConnection:
    """A request that is not answered soon."""
    connection = await site.connect()
    await connection.send(data)
    return connection


async def soon(true: Any) -> Any:
    """The first answer that it is true of."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not (found := await true()):  # noqa: ASYNC110 - over there, nobody tells
            await asyncio.sleep(0.01)
    return found


# What is in a message


def bodies(arguments: bytes) -> dict[str, bytes]:
    """The same call in both protocols."""
    meta = json.dumps(META).encode()
    start = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":'
    return {"older": start + arguments + b"}}", "newer": start + arguments + b',"_meta":' + meta + b"}}"}


BULKY = {
    "lists": b'{"v":[' + b"[]," * (MUCH // 3) + b"1]}",
    "objects": b'{"v":[' + b"{}," * (MUCH // 3) + b"1]}",
    "numbers": b'{"v":[' + b"1," * (MUCH // 2) + b"1]}",
    "texts": b'{"v":[' + b'"",' * (MUCH // 3) + b"1]}",
    "names": b"{" + b",".join(b'"k%d":1' % number for number in range(MUCH // 14)) + b"}",
    "depth": b'{"v":' + b"[" * (MUCH // 2) + b"]" * (MUCH // 2) + b"}",
}


@pytest.mark.parametrize("arguments", BULKY.values(), ids=BULKY.keys())
async def test_a_message_of_very_many_values_is_refused_before_it_is_read(arguments, uncollected):
    both = bodies(arguments)
    async with served(echo) as site:
        older = await site.session(of("ann"))
        newer = ("MCP-Protocol-Version", MODERN_VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo"), of("ann")
        began = time.process_time()
        answers = [await site.ask(request(both["older"], *older)), await site.ask(request(both["newer"], *newer))]
        took = time.process_time() - began
    async with stdio_peer(echo) as peer:
        told = await peer.ask(both["newer"] + b"\n")

    assert [(each.status, each.error) for each in answers] == [(400, INVALID_REQUEST)] * 2
    assert all("more than 50000 values" in each.json["error"]["message"] for each in answers)
    assert (told["error"]["code"], told["id"]) == (INVALID_REQUEST, 1)
    assert took < 1.0


TEXT = b'{"x":"' + b'[],{}\\",\\\\' * (MUCH // 12) + b'"}'


async def test_a_long_text_is_one_value_whatever_it_says():
    both, length = bodies(TEXT), len(json.loads(TEXT)["x"])
    async with served(echo) as site:
        older = await site.session(of("ann"))
        newer = ("MCP-Protocol-Version", MODERN_VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo"), of("ann")
        answers = [await site.ask(request(both["older"], *older)), await site.ask(request(both["newer"], *newer))]
    async with stdio_peer(echo) as peer:
        told = await peer.ask(both["newer"] + b"\n")

    assert [each.json["result"]["content"][0]["text"] for each in answers] == [str(length)] * 2
    assert told["result"]["content"][0]["text"] == str(length)


@pytest.mark.parametrize("packed", [b"[]," * (MUCH // 3), b'{\\"a\\":1},' * (MUCH // 10)])
async def test_json_within_a_text_is_not_read_for_long(packed, uncollected):
    @tool(effects={"read"})
    async def count(numbers: list[int]) -> int:
        """Count."""
        return len(numbers)

    body = bodies(b'{"numbers":"[' + packed + b'1]"}')["newer"].replace(b'"echo"', b'"count"')
    async with stdio_peer(count) as peer:
        began = time.process_time()
        told = await peer.ask(body + b"\n")
        took = time.process_time() - began

    assert told["result"]["isError"]
    assert took < 1.0


LONG_HELLO = CLIENT_MESSAGE_LIMITS.max_initialize_bytes


async def test_the_size_of_the_initialize_request_is_limited():
    hello = message(
        "initialize", 0, protocolVersion=HANDSHAKE_VERSION,
        capabilities={"experimental": {"a": {"b": "x" * LONG_HELLO}}},
        clientInfo={"name": "a", "version": "1"},
    )  # fmt: skip
    async with served(echo) as site:
        answer = await site.ask(request(hello, of("ann")))
    async with stdio_peer(echo) as peer:
        told = await peer.ask(hello)

    assert (answer.status, answer.error) == (400, INVALID_REQUEST)
    assert (told["error"]["code"], told["id"]) == (INVALID_REQUEST, 0)


LONG = "i" * (CLIENT_MESSAGE_LIMITS.max_id_length + 1)


@pytest.mark.parametrize("id", [LONG, 1 << CLIENT_MESSAGE_LIMITS.max_id_length])
async def test_an_id_that_is_long_is_refused(id):
    async with served(echo) as site:
        older = await site.session(of("ann"))
        answers = [
            await site.ask(request(call(id, "echo"), *older)),
            await site.ask(call_request("echo", of("ann"), id=id)),
            await site.ask(modern_request("tools/list", id, of("ann"))),
        ]
    async with stdio_peer(echo) as peer:
        told = await peer.ask(call(id, "echo", True))

    assert [(each.status, each.error) for each in answers] == [(400, INVALID_REQUEST)] * 3
    assert (told["error"]["code"], told["id"]) == (INVALID_REQUEST, None)


async def test_a_token_of_progress_that_is_long_is_refused():
    meta = {**META, "progressToken": LONG}
    async with served(echo) as site:
        older = await site.session(of("ann"))
        answers = [
            await site.ask(request(message("tools/call", 1, name="echo", arguments={}, _meta=meta), *older)),
            await site.ask(modern_request("tools/call", 1, of("ann"), name="echo", arguments={}, _meta=meta)),
        ]
        fine = await site.ask(
            modern_request(
                "tools/call", "i" * CLIENT_MESSAGE_LIMITS.max_id_length, of("ann"), name="echo", arguments={}
            )
        )

    assert [(each.status, each.error) for each in answers] == [(400, INVALID_REQUEST)] * 2
    assert fine.status == 200


GOOD = json.dumps(message("tasks/cancel", 1, _meta=CAN, taskId="a"))
ODD = {
    "nan": GOOD.replace('"method"', '"x": NaN, "method"').encode(),
    "infinite": GOOD.replace('"method"', '"x": -Infinity, "method"').encode(),
    "utf-16": GOOD.encode("utf-16"),
    "mark": b"\xef\xbb\xbf" + GOOD.encode(),
    "surrogate": GOOD.replace('"method"', '"x": "\\ud800", "method"').encode(),
    "depth": GOOD.replace('"method"', f'"x": {"[" * 500}{"]" * 500}, "method"').encode(),
}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD.keys())
async def test_both_protocols_read_json_alike(body):
    headers = ("MCP-Protocol-Version", MODERN_VERSION), ("Mcp-Method", "tasks/cancel"), ("Mcp-Name", "harmless")
    async with served(echo) as site:
        newer = await site.ask(request(body, *headers, of("ann")))
        older = await site.ask(request(body, *await site.session(of("ann"))))

    assert (newer.status, newer.error) == (older.status, older.error) == (400, -32700)
    assert newer.body == older.body


# What runs


@pytest.mark.parametrize("is_older", [True, False])
async def test_running_requests_of_one_user_have_a_limit_of_bytes(monkeypatch, is_older):
    monkeypatch.setattr("surehand.gateway.mcp.http.app.Admission", partial(Admission, max_bytes=100_000))
    async with served(hold, echo) as site:
        headers = await site.session(of("ann")) if is_older else ()

        def holding(id: int) -> bytes:
            text = "x" * 40_000
            return (
                request(call(id, "hold", x=text), *headers)
                if is_older
                else call_request("hold", of("ann"), id=id, x=text)
            )

        async def refused() -> Any:
            answer = await site.ask(call_request("echo", of("ann"), x="x" * 40_000))
            return answer if answer.status == 503 else None

        running = [await begun(site, holding(id)) for id in (1, 2)]
        await soon(refused)
        if is_older:
            for each in running:  # they go on without their clients
                await each.close()
        small, other = (
            await site.ask(call_request("echo", of("ann"))),
            await site.ask(call_request("echo", of("bob"), x="x" * 40_000)),
        )
        answer = await refused()
        for each in running:
            await each.close()

    assert answer is not None
    assert answer.error == BUSY
    assert (small.status, other.status) == (200, 200)


async def test_requests_of_one_user_that_run_leave_room_for_others(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.http.app.Admission", partial(Admission, max_requests=2))
    async with served(hold, echo) as site:
        running = [await begun(site, call_request("hold", of("ann"), id=id)) for id in (1, 2)]

        async def refused() -> bool:
            return (await site.ask(call_request("echo", of("ann")))).status == 503

        await soon(refused)
        other = await site.ask(call_request("echo", of("bob")))
        for each in running:
            await each.close()

        async def let_in() -> bool:
            return (await site.ask(call_request("echo", of("ann")))).status == 200

        await soon(let_in)

    assert other.status == 200


async def test_a_body_that_has_begun_to_come_makes_room_for_those_of_others(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.http.app.Admission", partial(Admission, max_bytes=100_000))
    long = call_request("echo", x="x" * 70_000)
    async with http_site(echo) as site:
        slow = await begun(site, long[:-1])
        small = await site.ask(call_request("echo"))
        quick = await begun(site, long[:-1])
        between = await site.ask(call_request("echo"))
        await quick.send(long[-1:])
        await slow.send(long[-1:])
        answers = [await quick.answer(), await slow.answer()]
        for each in (slow, quick):
            await each.close()

    assert (small.status, between.status) == (200, 200)
    assert [each.status for each in answers] == [200, 503]
    assert answers[1].error == BUSY


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_body_where_none_is_needed_takes_no_more_room_than_others(monkeypatch, method):
    monkeypatch.setattr("surehand.gateway.mcp.http.app.Admission", partial(Admission, max_bytes=100_000))
    needless = request(b"x" * 70_000, method=method)
    async with http_site(echo) as site:
        first = await begun(site, needless[:-1])
        await site.ask(call_request("echo"))
        second = await begun(site, needless[:-1])
        await site.ask(call_request("echo"))
        for each in (second, first):
            await each.send(needless[-1:])
        answers = [await second.answer(), await first.answer()]
        for each in (first, second):
            await each.close()

    assert [each.status for each in answers] == [400, 503]


async def test_over_stdio_running_requests_have_a_limit_of_bytes_and_others_wait():
    seen = asyncio.Event()

    @tool(effects={"read"})
    async def until(x: str) -> str:
        """Until it is seen."""
        await seen.wait()
        return "seen"

    text = "x" * 40_000
    async with stdio_peer(until, echo, limits={"max_in_flight_bytes": 100_000, "max_waiting_bytes": 50_000}) as peer:
        await peer.send(*(call(id, "until", True, x=text) for id in (1, 2, 3, 4)))
        refused = await peer.receive()
        seen.set()
        answers = await peer.answers(3)

    assert (refused["id"], refused["error"]["code"]) == (4, BUSY)
    assert {id: "result" in each for id, each in answers.items()} == {1: True, 2: True, 3: True}


async def test_requests_of_the_modern_protocol_belong_to_no_session(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.http.app.Admission", partial(Admission, max_requests_per_session=2))
    async with served(hold, echo) as site:
        bobs = await site.session(of("bob"))
        [session] = [each for each in bobs if each[0] == "Mcp-Session-Id"]
        running = [await begun(site, call_request("hold", of("ann"), session, id=id)) for id in range(3)]
        await asyncio.sleep(0.2)
        answer = await site.calls(bobs, "echo")
        for each in running:
            await each.close()

    assert answer.json["result"]["content"][0]["text"] == "0"


# What waits


async def test_the_pending_calls_of_one_user_are_limited(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.runtime_server.MAX_PENDING_CALLS_PER_USER", 2)
    runtime = Runtime(pay, echo)
    async with runtime, served(runtime) as site:

        async def paying(user: str) -> dict[str, Any]:
            answer = await site.ask(modern_request("tools/call", 1, of(user), name="pay", arguments={}, _meta=CAN))
            result: dict[str, Any] = answer.json["result"]
            return result

        first, _, third = [await paying("ann") for _ in range(3)]
        other, beside = await paying("bob"), await site.ask(call_request("echo", of("ann")))
        await runtime.approve(first["requestState"].rpartition("-")[0])
        again = await paying("ann")

    assert third["isError"]
    assert "too many calls wait for a person already" in third["content"][0]["text"]
    assert other["resultType"] == again["resultType"] == "input_required"
    assert beside.status == 200


async def test_pending_calls_have_a_limit_of_bytes(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.runtime_server.MAX_PENDING_BYTES_PER_USER", 100_000)
    runtime = Runtime(pay)
    async with runtime, stdio_peer(runtime) as peer:
        first, second, third = [
            await peer.ask(message("tools/call", id, name="pay", arguments={"v": "x" * 40_000}, _meta=CAN))
            for id in (1, 2, 3)
        ]
        kept = [each.raw_arguments for each in runtime._calls.load().local.invocations.values()]
        call_id = first["result"]["requestState"].rpartition("-")[0]
        approved = await runtime.approve(call_id)

    assert "inputRequests" in second["result"]
    assert third["result"]["isError"]
    assert kept == [{}, {}]
    assert approved.data == "paid"


# What lasts


async def test_the_sessions_of_one_user_are_limited(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.http.sessions.MAX_SESSIONS_PER_USER", 2)
    hello = message(
        "initialize", 0, protocolVersion=HANDSHAKE_VERSION, capabilities={}, clientInfo={"name": "a", "version": "1"}
    )
    async with served(echo) as site:
        anns = [await site.ask(request(hello, of("ann"))) for _ in range(3)]
        bobs = await site.ask(request(hello, of("bob")))
        ended = (
            ("Mcp-Session-Id", anns[0].headers["mcp-session-id"]),
            ("MCP-Protocol-Version", HANDSHAKE_VERSION),
            of("ann"),
        )
        await site.ask(request(b"", *ended, method="DELETE"))
        again = await site.ask(request(hello, of("ann")))

    assert [each.status for each in anns] == [200, 200, 503]
    assert anns[2].json["error"]["message"] == "Too many open sessions"
    assert (bobs.status, again.status) == (200, 200)


async def test_the_streams_of_one_user_are_limited(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.tasks.subscriptions.MAX_STREAMS_PER_USER", 2)

    def listen(user: str) -> bytes:
        return modern_request("subscriptions/listen", 9, of(user), notifications={"toolsListChanged": True})

    async with served(echo) as site:
        streams = [await begun(site, listen("ann")) for _ in range(2)]
        for each in streams:
            await each.reader.readuntil(b"acknowledged")
        refused = await site.ask(listen("ann"))
        bobs = await begun(site, listen("bob"))
        await asyncio.wait_for(bobs.reader.readuntil(b"acknowledged"), TIMEOUT_SECONDS)
        for each in (*streams, bobs):
            await each.close()

    assert refused.error == INTERNAL_ERROR
    assert "Too many streams" in refused.json["error"]["message"]


async def test_one_users_tasks_do_not_make_those_of_others_forgotten(monkeypatch):
    monkeypatch.setattr("surehand.runtime.durability.ledger.MAX_CALLS_IN_MEMORY", 10)
    async with served(job) as site:

        async def made(user: str) -> dict[str, Any]:
            answer = await site.ask(modern_request("tools/call", 1, of(user), name="job", arguments={}, _meta=CAN))
            result: dict[str, Any] = answer.json["result"]
            return result

        bobs = await made("bob")
        anns = [await made("ann") for _ in range(40)]
        for user, task in (("bob", bobs), ("ann", anns[0]), ("ann", anns[-1])):
            asked = modern_request("tasks/get", 1, of(user), taskId=task["taskId"], _meta=CAN)

            async def completed(asked: bytes = asked) -> bool:
                return (await site.ask(asked)).json["result"]["status"] == "completed"

            await soon(completed)

    assert bobs["ttlMs"] == 600_000


async def test_no_more_tasks_are_begun_than_can_be_remembered(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.tasks.retention.MAX_RETAINED_TASKS_PER_USER", 2)
    async with served(job) as site:
        anns = [
            await site.ask(modern_request("tools/call", 1, of("ann"), name="job", arguments={}, _meta=CAN))
            for _ in range(3)
        ]
        bobs = await site.ask(modern_request("tools/call", 1, of("bob"), name="job", arguments={}, _meta=CAN))

    assert ["result" in each.json for each in anns] == [True, True, False]
    assert anns[2].error == INTERNAL_ERROR
    assert "result" in bobs.json


# Whose it is


async def test_a_token_check_that_times_out_refuses_the_request(monkeypatch, caplog):
    monkeypatch.setattr("surehand.gateway.mcp.http.authentication.TOKEN_CHECK_TIMEOUT_SECONDS", 0.05)

    async def ask(shown: str) -> str:
        await asyncio.sleep(60)
        return shown

    async with http_site(echo, token=ask) as site:
        answer = await site.ask(call_request("echo", of("ann")))

    assert answer.status == 503
    assert "The token function failed" in caplog.text


@pytest.mark.parametrize("name", ["a\0b", "\ud800x"])
async def test_a_user_name_that_no_store_can_save_is_refused(name, caplog):
    async with http_site(echo, token=lambda _: name) as site:
        answer = await site.ask(call_request("echo", of("ann")))

    assert answer.status == 503
    assert "no store can save" in caplog.text


# Children

FORKING = f"""
import asyncio, os, sys, time
sys.path.insert(0, {str(ROOT)!r})
from surehand import Runtime, gateway, tool

@tool(effects={{"read"}})
async def fork() -> int:
    "Fork."
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    return child

asyncio.run(gateway.mcp.serve(Runtime(fork)))
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_that_a_handler_forks_does_not_keep_the_pipe_open():
    command = [sys.executable, "-W", "ignore", "-c", FORKING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(encode_line(call(1, "fork", True)))
        process.stdin.flush()
        child = json.loads(process.stdout.readline())["result"]["structuredContent"]["result"]
        try:
            process.stdin.close()
            process.wait(TIMEOUT_SECONDS)
            os.set_blocking(process.stdout.fileno(), False)
            assert os.read(process.stdout.fileno(), 1) == b""
        finally:
            os.kill(child, signal.SIGKILL)
