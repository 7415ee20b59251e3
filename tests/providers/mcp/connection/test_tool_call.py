"""Calls over HTTP and stdio, written without the SDK's session: reused connections, traces and cancellation."""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

import surehand.providers.mcp.connection.tool_call  # noqa: F401 - it takes a second, which is no test's own
from surehand import Runtime, mcp
from surehand.providers.mcp.connection import direct_call
from surehand.providers.mcp.transports import http_client
from tests.providers.mcp.peers.raw_http_server import serve_raw_http
from tests.providers.mcp.steady_server import wait_until

pytestmark = pytest.mark.timeout(30, func_only=True)
TOOLS = [{"name": "look", "inputSchema": {"type": "object"}}]
SAID = {"content": [{"type": "text", "text": "seen"}]}
INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "x", "version": "1"},
}


class Web:
    """A server of the handshake protocol that answers calls with event streams, chunk by chunk."""

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


async def test_a_result_does_not_wait_for_the_end_of_its_stream(monkeypatch):
    monkeypatch.setattr(http_client, "DRAIN_TIMEOUT_SECONDS", 0.05)
    web = Web(ends=False)

    async with serve_raw_http(web) as url, Runtime(provider(url)) as runtime:
        for _ in range(3):
            assert (await runtime.call("web__look")).text == "seen"
            await asyncio.sleep(0.1)

    assert list(web.calls.values()) == [1, 1, 1]  # each stream that does not end is broken off, with its connection


async def test_a_connection_closed_by_the_server_is_not_reused():
    closed = Counter()

    async def closing(asked):
        await web(asked)
        if asked.method == "POST" and asked.message["method"] == "tools/call":
            closed["times"] += 1
            asked.writer.close()

    web = Web()
    async with serve_raw_http(closing) as url, Runtime(provider(url)) as runtime:
        for _ in range(3):
            assert (await runtime.call("web__look")).text == "seen"
            await asyncio.sleep(0.05)

    assert closed["times"] == 3


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
        names = ("meta", "text_id", "newer", "deaf", "hold", "seen", "bad")
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
        if name == "bad":
            tell({"id": message["id"], "error": {"code": -32602, "message": "bad"}})
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


async def test_ids_that_a_server_sends_back_as_text_are_matched(stdio):
    async with Runtime(stdio()) as runtime:
        assert (await runtime.call("x__text_id")).ok


async def test_keys_of_the_modern_protocol_are_ignored_in_the_handshake_protocol(stdio):
    async with Runtime(stdio()) as runtime:
        assert (await runtime.call("x__newer")).ok


async def test_the_trace_context_of_a_call_is_sent(stdio):
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


async def test_a_traced_call_has_its_own_span_whose_context_is_sent(stdio, monkeypatch):
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(direct_call, "tracer", provider.get_tracer("test"))

    async with Runtime(stdio()) as runtime:
        with provider.get_tracer("test").start_as_current_span("outer") as outer:
            meta = json.loads((await runtime.call("x__meta")).text)
        assert not (await runtime.call("x__bad")).ok

    sent, _, failed = spans.get_finished_spans()
    assert (sent.name, sent.kind, sent.parent) == (
        "MCP send tools/call meta",
        SpanKind.CLIENT,
        outer.get_span_context(),
    )
    assert sent.attributes["mcp.method.name"] == "tools/call"
    assert meta["traceparent"].split("-")[2] == f"{sent.context.span_id:016x}"
    assert failed.attributes["error.type"] == "-32602"
    assert failed.status.status_code is StatusCode.ERROR


async def test_a_cancelled_call_is_cancelled_at_the_server_by_its_request_id(stdio, tmp_path):
    async with Runtime(stdio()) as runtime:
        call = asyncio.create_task(runtime.call("x__hold"))
        await wait_until((tmp_path / "server.py.held").exists)
        call.cancel()
        await asyncio.wait({call})

        assert (await runtime.call("x__seen")).text == "true"


async def test_a_call_to_a_server_that_does_not_read_times_out(stdio):
    """The first call is stuck in the server, the others in the pipe or before it."""
    large = {"text": "x" * 200_000}

    async with Runtime(stdio(timeout=0.3)) as runtime:
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*(runtime.call("x__deaf", large) for _ in range(3)))

    assert {outcome.code for outcome in outcomes} <= {"timed_out", "unknown_effect", "unavailable"}
    assert outcomes[0].code == "timed_out"
