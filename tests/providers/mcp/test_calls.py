"""Calls on their way: written past the library's session, over connections that are kept, and never lost in between."""

import asyncio
import json
import socket
import ssl
import sys
from collections import Counter
from pathlib import Path

import httpcore2
import pytest
import trustme
from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from toolwright.providers.mcp.routes import pieces, posts

import toolwright.providers.mcp.talk  # noqa: F401 - it takes a second, which is no test's own
from tests.providers.mcp.peers.bare import bare
from tests.providers.mcp.steady import until
from toolwright import Runtime, mcp
from toolwright.http import prompt

pytestmark = pytest.mark.timeout(30, func_only=True)
TOOLS = [{"name": "look", "inputSchema": {"type": "object"}}]
SAID = {"content": [{"type": "text", "text": "seen"}]}
INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "x", "version": "1"},
}


class Web:
    """A server of the older era that answers calls with events, chunk by chunk."""

    def __init__(self, *, ends=True):
        self.ends, self.calls = ends, Counter()

    async def __call__(self, asked):
        match asked.message.get("method"):
            case None:
                await asked.answer(405)
            case "initialize":
                await asked.result(INITIALIZED)
            case "tools/list":
                await asked.result({"tools": TOOLS})
            case "tools/call":
                await self.call(asked)
            case _:
                await asked.answer(202)

    async def call(self, asked):
        self.calls[id(asked.writer)] += 1
        message = {"jsonrpc": "2.0", "id": asked.message["id"], "result": SAID}
        asked.writer.write(b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        await chunk(asked.writer, f"event: message\ndata: {json.dumps(message)}\n\n".encode())
        if self.ends:
            await asyncio.sleep(0.01)
            await chunk(asked.writer, b"")


async def chunk(writer, data):
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()


def provider(url, **options):
    return mcp.http(url, namespace="web", manifest=False, protocol="legacy", **options)


@pytest.fixture
def given_back(monkeypatch):
    """The connections that have become free."""
    streams, give_back = [], posts.Posts.give_back

    def noted(self, stream, keeps):
        give_back(self, stream, keeps)
        streams.append(stream)

    monkeypatch.setattr(posts.Posts, "give_back", noted)
    monkeypatch.setattr(prompt, "FRESH", 60.0)  # however slow the machine
    monkeypatch.setattr(pieces, "REST", 60.0)
    return streams


async def test_a_connection_is_used_again_once_its_answer_has_ended(given_back):
    web = Web()

    async with bare(web) as url, Runtime(provider(url)) as runtime:
        for _ in range(4):
            assert (await runtime.call("web__look")).text == "seen"
            await until(lambda: given_back)
            given_back.clear()

    assert list(web.calls.values()) == [4]


async def test_an_answer_does_not_wait_for_the_end_of_its_stream(monkeypatch):
    monkeypatch.setattr(pieces, "REST", 0.05)
    web = Web(ends=False)

    async with bare(web) as url, Runtime(provider(url)) as runtime:
        for _ in range(3):
            assert (await runtime.call("web__look")).text == "seen"
            await asyncio.sleep(0.1)

    assert list(web.calls.values()) == [1, 1, 1]  # each stream that does not end is broken off, with its connection


async def test_a_connection_that_has_been_quiet_is_not_trusted(monkeypatch):
    monkeypatch.setattr(prompt, "FRESH", 0.05)
    web = Web()

    async with bare(web) as url, Runtime(provider(url)) as runtime:
        for _ in range(2):
            assert (await runtime.call("web__look")).text == "seen"
            await asyncio.sleep(0.15)

    assert list(web.calls.values()) == [1, 1]


async def test_a_connection_that_the_server_has_closed_is_not_used():
    closed = Counter()

    async def closing(asked):
        await web(asked)
        if asked.method == "POST" and asked.message["method"] == "tools/call":
            closed["times"] += 1
            asked.writer.close()

    web = Web()
    async with bare(closing) as url, Runtime(provider(url)) as runtime:
        for _ in range(3):
            assert (await runtime.call("web__look")).text == "seen"
            await asyncio.sleep(0.05)

    assert closed["times"] == 3


async def test_a_request_goes_out_in_one_piece_and_what_the_server_s_kernel_keeps_back_is_called_for():
    """That kernel sends the second piece of an answer when ours has confirmed the first."""
    come, left = [], asyncio.Event()

    async def serve(reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        while data := await reader.read(1 << 16):
            come.append(data)
            writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\n")
            writer.write(b"seen")
        writer.close()
        left.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        stream = await prompt.prompt("127.0.0.1", server.sockets[0].getsockname()[1], 20.0)
        took = [await exchanged(stream) for _ in range(20)]
        await stream.aclose()
        await left.wait()

    assert come == [b"headbody"] * 20
    assert sorted(took)[5] < 0.03  # it would be 0.04 for each but the first


async def test_a_connection_can_be_secured_and_carries_more_than_it_holds():
    authority, left = trustme.CA(), asyncio.Event()
    there, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(there)
    authority.configure_trust(trusting)

    async def echo(reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()
        left.set()

    async with await asyncio.start_server(echo, "127.0.0.1", 0, ssl=there) as server:
        port = server.sockets[0].getsockname()[1]
        stream = await (await prompt.prompt("127.0.0.1", port, 20.0)).start_tls(trusting, "localhost", 20.0)
        come, large = b"", b"x" * (4 * prompt.HELD)
        sending = asyncio.create_task(sent(stream, large))
        while len(come) < len(large):
            come += await stream.read(1 << 16, 20.0)
        await sending
        known = stream.get_extra_info("ssl_object"), stream.get_extra_info("is_readable")
        await stream.aclose()
        await left.wait()
        with pytest.raises(httpcore2.ConnectError) as refused:
            await (await prompt.prompt("127.0.0.1", port, 20.0)).start_tls(trusting, "other.test", 20.0)
        while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110 - the server's own, which has seen the refusal in a moment
            await asyncio.sleep(0.01)

    assert come == large
    assert known[0] is not None
    assert known[1] is False
    assert isinstance(refused.value.__cause__, ssl.SSLCertVerificationError)


async def sent(stream, data):
    await stream.write(data)
    await stream.write(b"")


async def test_a_connection_says_why_nothing_more_comes():
    async def serve(reader, writer):
        await reader.read(1)
        writer.write(b"some")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        stream = await prompt.prompt("127.0.0.1", port, 20.0)
        with pytest.raises(httpcore2.ReadTimeout):
            await stream.read(10, 0.05)
        await sent(stream, b"x")
        assert [await stream.read(10, 20.0), await stream.read(10, 20.0)] == [b"some", b""]
        assert stream.get_extra_info("is_readable") is True
        with pytest.raises(httpcore2.WriteError):
            await sent(stream, b"x")
        await stream.aclose()
    with pytest.raises(httpcore2.ConnectError):
        await prompt.prompt("127.0.0.1", port, 20.0)


async def exchanged(stream):
    clock = asyncio.get_running_loop().time
    began, come = clock(), b""
    await stream.write(b"head")
    await stream.write(b"body")
    while not come.endswith(b"seen"):
        come += await stream.read(1 << 16)
    return clock() - began


# Over stdin and stdout

SERVER = """
import json, sys, time
def tell(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n"); sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
        tell({"id": message["id"], "result": {"protocolVersion": "2025-11-25", **about}})
    elif method == "tools/list":
        names = ("meta", "text_id", "newer", "deaf", "hold", "seen")
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        tell({"id": message["id"], "result": {"tools": tools}})
    elif method == "notifications/cancelled":
        cancelled = params["requestId"]
    elif method == "tools/call":
        name, answer = params["name"], json.dumps(params.get("_meta"))
        if name == "deaf":
            time.sleep(60)
        if name == "hold":
            held = message["id"]
            open(sys.argv[0] + ".held", "w").close()
            continue
        if name == "seen":
            answer = json.dumps(held == cancelled)
        result = {"content": [{"type": "text", "text": answer}]}
        if name == "newer":
            result = {**result, "resultType": "input_required", "inputRequests": {}}
        tell({"id": str(message["id"]) if name == "text_id" else message["id"], "result": result})
"""


@pytest.fixture
def stdio(tmp_path: Path):
    (tmp_path / "server.py").write_text(SERVER)

    def made(**options):
        given = {"namespace": "x", "manifest": False, "protocol": "legacy", **options}
        return mcp.stdio(sys.executable, "-I", "-S", str(tmp_path / "server.py"), **given)

    return made


async def test_a_server_that_writes_numbers_as_text_is_understood(stdio):
    async with Runtime(stdio()) as runtime:
        assert (await runtime.call("x__text_id")).ok


async def test_what_only_the_newer_protocol_says_means_nothing_in_the_older(stdio):
    async with Runtime(stdio()) as runtime:
        assert (await runtime.call("x__newer")).ok


async def test_the_trace_that_a_call_belongs_to_goes_along(stdio):
    span = NonRecordingSpan(SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1)))

    async with Runtime(stdio()) as runtime:
        token = context.attach(trace.set_span_in_context(span))
        try:
            within = json.loads((await runtime.call("x__meta")).text)
        finally:
            context.detach(token)
        without = json.loads((await runtime.call("x__meta")).text)

    assert within["traceparent"] == f"00-{1:032x}-{2:016x}-01"
    assert "traceparent" not in without


async def test_a_cancelled_call_is_cancelled_at_the_server_under_its_own_number(stdio, tmp_path):
    async with Runtime(stdio()) as runtime:
        call = asyncio.create_task(runtime.call("x__hold"))
        await until((tmp_path / "server.py.held").exists)
        call.cancel()
        await asyncio.wait({call})

        assert (await runtime.call("x__seen")).text == "true"


async def test_whoever_cannot_even_be_written_to_is_given_up_in_time(stdio):
    """The first call is stuck in the server, the others in the pipe or before it."""
    large = {"text": "x" * 200_000}

    async with Runtime(stdio(timeout=0.3)) as runtime:
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*(runtime.call("x__deaf", large) for _ in range(3)))

    assert {outcome.code for outcome in outcomes} <= {"timed_out", "unknown_effect", "unavailable"}
    assert outcomes[0].code == "timed_out"
