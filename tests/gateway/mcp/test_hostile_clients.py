"""Hostile clients get clean errors, do not affect other clients, and leave no state."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import psutil
import pytest

from surehand.gateway.mcp.request_limits import MAX_IN_FLIGHT_BYTES
from tests.gateway.mcp import processes
from tests.gateway.mcp.http_peer import HttpSite, RawConnection, call_request, modern_request, request
from tests.gateway.mcp.processes import PROCESS_TOOLS, http_process, stdio_process
from tests.gateway.mcp.raw_client import eventually
from tests.gateway.mcp.stdio_peer import META, TIMEOUT_SECONDS, StdioPeer, call, encode_line, message

surehand = processes.surehand  # a fixture
LEFT = ("tasks", "descriptors", "children")
FLOODS = [2_000, pytest.param(10_000, marks=pytest.mark.long)]
FLOODS_OVER_HTTP = [1_000, pytest.param(5_000, marks=pytest.mark.long)]
MEMORY = 48 << 20
"""Bytes that the worst may take beyond what serving takes anyway."""
LATE = 2.0
"""Seconds of the server's own time within which others are answered, whatever else the machine does meanwhile."""


@pytest.fixture(scope="module")
def site(surehand):
    """One server for all of these tests: what one of them leaves, the next would find."""
    with http_process(surehand) as (found, _):
        yield found


async def told(site: HttpSite) -> dict[str, int]:
    answer = await site.ask(call_request("state"))
    found: dict[str, int] = answer.json["result"]["structuredContent"]
    return found


@asynccontextmanager
async def others_served(site: HttpSite) -> AsyncIterator[None]:
    """Somebody else calls all the while and is answered soon; and in the end, the server has what it had before."""
    await site.ask(request(b"", *await site.session(), method="DELETE"))  # what the first of them begins, is there
    before = await told(site)
    server, slowest = psutil.Process(before["pid"]), 0.0

    async def call_on() -> None:
        nonlocal slowest
        while True:
            began = _spent(server)
            assert (await site.ask(call_request("add", a=1, b=1))).status == 200
            slowest = max(slowest, _spent(server) - began)
            await asyncio.sleep(0.02)

    other = asyncio.create_task(call_on())
    try:
        yield
        assert not other.done(), other
    finally:
        other.cancel()
        await asyncio.wait({other})
    assert slowest < LATE
    after = await _settled(site, before)
    assert after["tasks"] <= before["tasks"]
    assert after["descriptors"] <= before["descriptors"]
    assert after["children"] == before["children"]
    assert after["memory"] < before["memory"] + MEMORY


def _spent(server: psutil.Process) -> float:
    times = server.cpu_times()
    return times.user + times.system


async def _settled(site: HttpSite, before: dict[str, int]) -> dict[str, int]:
    until = time.monotonic() + TIMEOUT_SECONDS
    while True:
        after = await told(site)
        if all(after[each] <= before[each] for each in LEFT) or time.monotonic() > until:
            return after
        await asyncio.sleep(0.03)


@pytest.mark.parametrize("requests", FLOODS)
async def test_a_flood_of_requests_over_a_pipe_is_answered(surehand, requests):
    kinds: list[Any] = [
        lambda number: encode_line(call(number, "add", True, a=number, b=1)),
        lambda number: encode_line(message("no/such", number, _meta=META)),
        lambda number: encode_line(message("tools/call", number, name="sub", _meta=META)),
        lambda number: b'{"jsonrpc":"2.0","id":%d,"method":5}\n' % number,
        lambda number: b"nonsense %d\n" % number,
        lambda number: (
            encode_line(message("notifications/cancelled", requestId=number)) + encode_line(message("ping", number))
        ),
    ]
    async with stdio_process(surehand) as (peer, _):
        first = (await peer.ask(call("s", "state", True)))["result"]["structuredContent"]
        flood = b"".join(kinds[number % len(kinds)](number) for number in range(requests))
        sending = asyncio.create_task(asyncio.to_thread(_write_all, peer, flood))
        answers = [await asyncio.wait_for(peer.reader.readline(), TIMEOUT_SECONDS) for _ in range(requests)]
        await sending
        until, last = time.monotonic() + TIMEOUT_SECONDS, {}
        while any(last.get(each, first[each] + 1) > first[each] for each in LEFT) and time.monotonic() < until:
            last = (await peer.ask(call("s", "state", True)))["result"]["structuredContent"]

    results = [answer for answer in map(json.loads, answers) if "result" in answer]
    assert len(results) == -(-requests // len(kinds))
    assert all(answer["result"]["structuredContent"] == {"result": answer["id"] + 1} for answer in results)
    assert all(last[each] <= first[each] for each in LEFT)
    assert last["memory"] < first["memory"] + MEMORY


def _write_all(peer: Any, data: bytes) -> None:
    descriptor = os.dup(peer.writer.get_extra_info("pipe").fileno())
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


async def test_a_line_of_a_hundred_megabytes_takes_no_room(surehand):
    async with stdio_process(surehand) as (peer, _):
        first = (await peer.ask(call("s", "state", True)))["result"]["structuredContent"]
        head = b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"'
        await asyncio.to_thread(_write_all, peer, head + b"x" * (100 << 20) + b'"}}\n')
        refused = await peer.receive()
        last = (await peer.ask(call("s", "state", True)))["result"]["structuredContent"]

    assert (refused["id"], refused["error"]["code"]) == (77, -32600)
    assert last["memory"] < first["memory"] + MEMORY


async def test_streams_by_the_hundred_over_a_pipe_are_let_go(surehand):
    listen = {"notifications": {"toolsListChanged": True}, "_meta": META}

    async def state(peer: StdioPeer) -> dict[str, int]:
        found: dict[str, int] = (await peer.ask(call("s", "state", True)))["result"]["structuredContent"]
        return found

    async with stdio_process(surehand) as (peer, process):
        before, opened = await state(peer), []
        for _ in range(2):  # more than may be open at one time
            await peer.send(*(message("subscriptions/listen", number, **listen) for number in range(200)))
            opened += [(await peer.receive()).get("method") for _ in range(200)]
            await peer.send(*(message("notifications/cancelled", requestId=number) for number in range(200)))
            until, after = time.monotonic() + TIMEOUT_SECONDS, await state(peer)
            while any(after[each] > before[each] for each in LEFT) and time.monotonic() < until:
                after = await state(peer)
            assert all(after[each] <= before[each] for each in LEFT)

    assert opened == ["notifications/subscriptions/acknowledged"] * 400
    assert after["memory"] < before["memory"] + MEMORY
    assert process.returncode == 0


CLIENT = """\
import json, subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
for number, name in enumerate(["state", "wait", "wait", "block"]):
    params = {"name": name, "arguments": {}, "_meta": meta}
    asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    server.stdin.write(json.dumps(asked).encode() + b"\\n")
print(json.loads(server.stdout.readline())["result"]["structuredContent"]["pid"], flush=True)
time.sleep(60)
"""


async def test_a_server_ends_when_its_client_is_killed_in_the_middle_of_calls(surehand, tmp_path):
    command = [sys.executable, "-I", "-S", "-c", CLIENT, *surehand, "mcp", "--tools", PROCESS_TOOLS]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    served = int(await asyncio.to_thread(client.stdout.readline))
    os.kill(client.pid, signal.SIGKILL)
    client.communicate()

    await eventually(lambda: not os.path.exists(f"/proc/{served}"))


@pytest.mark.parametrize("requests", FLOODS_OVER_HTTP)
async def test_a_flood_of_requests_over_http_is_answered_and_others_are_served(site, requests):
    refused = [
        (request(b"nonsense"), 400),
        (call_request("add", ("Origin", "http://evil.test"), a=1, b=1), 403),
        (call_request("add", ("Host", "evil.test"), a=1, b=1), 421),
        (request(b"{}", path="/x"), 404),
        (request(b"", ("Mcp-Session-Id", "x"), method="GET"), 404),
        (request(b"", method="PUT"), 405),
    ]
    kinds = [
        *(refused * 4)[:22],
        (call_request("add", a=1, b=1), 200),
        (modern_request("no/such"), 404),
        (call_request("add", ("Mcp-Name", "sub"), a=1, b=1), 400),
    ]
    lines, each = 20, requests // 20 // len(kinds)

    async def flood() -> list[int]:
        connection, seen = await site.connect(), b""
        for number in range(1, each + 1):
            await connection.send(b"".join(data for data, _ in kinds))  # the next before the last is answered
            while seen.count(b"HTTP/1.1 ") < number * len(kinds):
                seen += await asyncio.wait_for(connection.reader.read(1 << 16), TIMEOUT_SECONDS)
        await connection.close()
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", seen)]

    async with others_served(site):
        answers = await asyncio.gather(*(flood() for _ in range(lines)))

    assert answers == [[wanted for _, wanted in kinds] * each] * lines


async def test_half_open_connections_by_the_hundred_leave_room_for_others(site):
    whole = call_request("add", a=1, b=1)
    async with others_served(site):
        left: list[RawConnection] = []
        for number in range(700):
            connection = await site.connect()
            with suppress(ConnectionError):
                await connection.send(whole[: number % 200])
            left.append(connection)
        for connection in left:
            connection.writer.transport.abort()


@pytest.mark.parametrize("chunked", [False, True])
async def test_half_open_bodies_by_the_hundred_leave_room_for_others(site, chunked):
    begun = request(b"", ("Content-Length", str(4 << 20))) + b"{"
    if chunked:
        begun = request(b"", ("Transfer-Encoding", "chunked")).replace(b"Content-Length: 0\r\n", b"") + b"1\r\n{\r\n"

    async with others_served(site):
        left = [await site.connect() for _ in range(300)]
        for connection in left:
            await connection.send(begun)
        answers = [(await site.ask(call_request("add", a=1, b=1))).status for _ in range(5)]
        for connection in left:
            connection.writer.transport.abort()

    assert answers == [200] * 5


async def test_unfinished_bodies_take_no_more_memory_than_allowed(site):
    whole = request(b"x" * (4 << 20))
    await site.ask(whole)  # from then on, memory that was let go of is used again where it fits, and not given back
    before = (await told(site))["memory"]

    left = [await site.connect() for _ in range(80)]
    for connection in left:
        await connection.send(whole[:-1])
    taken = (await told(site))["memory"] - before
    for connection in left:
        connection.writer.transport.abort()

    assert taken < MAX_IN_FLIGHT_BYTES + 2 * MEMORY


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_of_a_hundred_megabytes_takes_no_room(site, chunked):
    piece = b"x" * (1 << 20)
    head = request(b"", ("Content-Length", str(100 << 20)))
    if chunked:
        piece = b"100000\r\n" + piece + b"\r\n"
        head = request(b"", ("Transfer-Encoding", "chunked")).replace(b"Content-Length: 0\r\n", b"")

    async with others_served(site):
        connection = await site.connect()
        await connection.send(head)
        answering = asyncio.create_task(connection.answer())
        with suppress(ConnectionError):
            for _ in range(100):
                await asyncio.wait_for(connection.send(piece), TIMEOUT_SECONDS)
        answer = await answering
        await connection.close()

    assert answer.status == 413


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n" * 50_000,
        b"GET " + b"/" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n"
        + b"".join(b"X-%d: %s\r\n" % (number, b"y" * 1000) for number in range(200))
        + b"\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"POST /mcp HTTP/1.1\r\n\r\n",
        b"\x00" * 1000,
    ],
    ids=range(10),
)
async def test_bytes_that_are_not_http_end_only_their_own_connection(site, sent):
    async with others_served(site):
        connection = await site.connect()
        with suppress(OSError):
            await connection.send(sent)
            connection.writer.write_eof()
        came = b""
        with suppress(ConnectionError):
            came = await asyncio.wait_for(connection.reader.read(1 << 16), TIMEOUT_SECONDS)
        await connection.close()

    assert came == b"" or came.startswith(b"HTTP/1.1 4")
    assert b"Traceback" not in came


async def test_streams_by_the_hundred_over_http_are_let_go(site):
    async with others_served(site):
        opened = await asyncio.gather(*(_listener(site) for _ in range(300)))
        for number, connection in enumerate(opened):
            if number % 2:
                connection.writer.transport.abort()
            else:
                await connection.close()


async def _listener(site: HttpSite) -> RawConnection:
    connection = await site.connect()
    await connection.send(modern_request("subscriptions/listen", 1, notifications={"toolsListChanged": True}))
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), TIMEOUT_SECONDS)
    return connection


CALLERS = """\
import socket, sys, time
port, asked = int(sys.argv[1]), sys.stdin.buffer.read()
opened = []
for _ in range(50):
    opened.append(socket.create_connection(("127.0.0.1", port)))
    opened[-1].sendall(asked)
print("called", flush=True)
time.sleep(60)
"""


async def test_calls_of_a_client_that_is_killed_are_cancelled(site):
    async with others_served(site):
        client = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", CALLERS, str(site.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(call_request("wait"))
        client.stdin.close()
        await asyncio.to_thread(client.stdout.readline)
        for _ in range(200):
            if (await told(site))["tasks"] >= 50:  # they run
                break
            await asyncio.sleep(0.02)
        os.kill(client.pid, signal.SIGKILL)
        client.wait()
        client.stdout.close()


async def test_sessions_that_are_opened_and_ended_by_the_hundred_leave_nothing(site):
    async def come_and_go() -> None:
        known = await site.session()
        assert (await site.calls(known, "add", a=1, b=1)).status == 200
        assert (await site.ask(request(b"", *known, method="DELETE"))).status == 200
        assert (await site.calls(known, "add", a=1, b=1)).status == 404

    async with others_served(site):
        for _ in range(10):
            await asyncio.gather(*(come_and_go() for _ in range(10)))
