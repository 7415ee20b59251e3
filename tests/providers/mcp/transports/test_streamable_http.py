"""Calls that this package posts over streamable HTTP have the same outcome as through the MCP SDK's transport."""

import asyncio
import gzip
import json
import re
import ssl
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import product

import pytest
import trustme

import surehand.providers.mcp.connection.tool_call  # noqa: F401 - it takes a second, which is no test's own
from surehand import Pending, Runtime, mcp
from surehand.http.connector import Connector
from surehand.http.settings import HttpSettings
from surehand.providers.mcp.transports import http_client, streamable_http
from surehand.providers.mcp.transports.streamable_http import StreamableHttpTransport
from tests.providers.mcp.peers.raw_http_server import SERVERS_BY_URL, serve_raw_http
from tests.providers.mcp.steady_server import wait_until

pytestmark = pytest.mark.timeout(30, func_only=True)
ERAS = ("2026-07-28", "legacy")
LIST = {"ttlMs": 0, "cacheScope": "private"}
HEADED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
TOOLS = [{"name": "look", "inputSchema": HEADED}]
SAID = {"content": [{"type": "text", "text": "seen"}], "structuredContent": {"a": [1, 2.5, None, "ü"]}}
VERSION = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "x", "version": "1"},
}
SWOLLEN = gzip.compress(b" " * 3_000_000)
JSON = "Content-Type: application/json\r\n"
EVENTS = "Content-Type: text/event-stream\r\n"


class Web:
    """A server of both eras, which answers a call as it is told to."""

    def __init__(self, call, *, session=None):
        self.call, self.session = call, session
        self.calls, self.ways, self.others = [], [], []

    async def __call__(self, asked):
        if asked.method != "POST":
            await asked.answer(405)
            return
        given = {"mcp_session_id": self.session} if self.session else {}
        match asked.message.get("method"):
            case "initialize":
                await asked.result(VERSION, **given)
            case "server/discover":
                await asked.result({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **LIST})
            case "tools/list":
                await asked.result({"tools": TOOLS, **LIST})
            case "tools/call":
                self.calls.append(seen_request(asked))
                self.ways.append(id(asked.writer))
                await self.call(asked)
            case other:
                self.others.append((other, asked.message))
                await asked.answer(202)


def seen_request(asked):
    """A request as it came, without what differs from one to the next."""
    body = re.sub(rb'("(?:id|progressToken)"): ?\d+', rb"\1:0", asked.body)
    return asked.path, {**asked.headers, "host": "", "content-length": ""}, body


def answer_to(asked, result=None, **more):
    return json.dumps(
        {"jsonrpc": "2.0", "id": asked.message["id"], "result": SAID if result is None else result, **more}
    )


def raw(head, body=""):
    """Answer with these very bytes."""

    async def call(asked):
        whole = (body(asked) if callable(body) else body).encode()
        asked.writer.write(f"HTTP/1.1 {head}".replace("LENGTH", str(len(whole))).encode() + b"\r\n" + whole)
        await asked.writer.drain()

    return call


def ending(call):
    async def then_end(asked):
        await call(asked)
        asked.writer.close()

    return then_end


def chunked(*pieces, head=EVENTS, pause=0.0):
    async def call(asked):
        asked.writer.write(f"HTTP/1.1 200 OK\r\n{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for piece in (*pieces, ""):
            data = (piece(asked) if callable(piece) else piece).encode()
            asked.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await asked.writer.drain()
            await asyncio.sleep(pause)

    return call


def event(asked, *, before="event: message\r\n", end="\r\n\r\n", **message):
    return f"{before}data: {json.dumps({'jsonrpc': '2.0', **message}) if message else answer_to(asked)}{end}"


def progress(asked):
    token = asked.message["params"]["_meta"]["progressToken"]
    params = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
    return event(asked, method="notifications/progress", params=params)


def log(asked):
    return event(asked, method="notifications/message", params={"level": "info", "data": "x"})


async def packed(asked):
    body = gzip.compress(answer_to(asked).encode())
    await asked.answer(200, body, content_type="application/json", content_encoding="gzip")


async def bomb(asked):
    await asked.answer(200, SWOLLEN, content_type="application/json", content_encoding="gzip")


async def gone(asked):
    asked.writer.close()


async def silent(asked):
    await asyncio.sleep(60)


async def slowly(asked):
    body = answer_to(asked)
    asked.writer.write(f"HTTP/1.1 200 OK\r\n{JSON}Content-Length: {len(body)}\r\n\r\n".encode())
    for at in range(0, len(body), 20):
        asked.writer.write(body[at : at + 20].encode())
        await asked.writer.drain()
        await asyncio.sleep(0.02)


async def elsewhere(asked, status=307, where="/there"):
    if asked.path == "/there":
        await asked.result(SAID)
    else:
        await asked.answer(status, "", location=where)


def status(number, **headers):
    async def call(asked):
        await asked.answer(number, "no", content_type="text/plain", **headers)

    return call


def refusal(number, code):
    async def call(asked):
        error = {"code": code, "message": "not so"}
        await asked.answer(number, {"jsonrpc": "2.0", "id": asked.message["id"], "error": error})

    return call


def result(value):
    async def call(asked):
        await asked.result(value)

    return call


SIZED = f"200 OK\r\n{JSON}Content-Length: LENGTH\r\n"
PLAIN_RESULTS = {
    "a value": result(SAID),
    "a text": result({"content": [{"type": "text", "text": "x" * 100_000}]}),
    "an error of the tool": result({"content": [{"type": "text", "text": "bad"}], "isError": True}),
    "no result of a tool": result({"content": 5}),
    "an event": chunked(event),
    "an event with more before it": chunked(partial(event, before=": hello\nid: 4\nevent: message\n", end="\n\n")),
    "an event in pieces": chunked(lambda asked: event(asked)[:40], lambda asked: event(asked)[40:], pause=0.01),
    "chunks of json": chunked(answer_to, head=JSON),
    "an answer byte by byte": slowly,
    "an answer and the end": ending(raw(f"{SIZED}Connection: close\r\n", answer_to)),
    "more than the answer": ending(raw(SIZED, lambda asked: answer_to(asked) + "   ")),
}
"""Results that are delivered at once."""
OTHERS = {
    "an error": refusal(200, -32602),
    "an error with a status": refusal(400, -32602),
    "headers of an older list": refusal(400, -32020),
    "progress": chunked(progress, event),
    "progress slowly": chunked(progress, log, progress, event, pause=0.02),
    "an empty event": chunked("id: 1\r\ndata: \r\n\r\n", event),
    "another name": chunked("event: other\ndata: x\n\n", event),
    "no answer in a stream": chunked(log),
    "an empty stream": chunked(),
    "packed": packed,
    "a bomb": bomb,
    "too large": result({"content": [{"type": "text", "text": "x" * 400_000}]}),
    "too large in chunks": chunked("x" * 200_000, "x" * 200_000, head=JSON),
    "an event too large": chunked(lambda asked: event(asked, id=1, result={"x": "x" * 400_000})),
    "too many values": result({"content": [], "structuredContent": {"a": [[]] * 130_000}}),
    "a number as text": raw(
        SIZED, lambda asked: answer_to(asked).replace('"id": ', '"id": "').replace(', "r', '", "r')
    ),
    "another number": ending(raw(f"200 OK\r\n{EVENTS}", lambda asked: event(asked, id=1, result=SAID))),
    "no json": raw(SIZED, "{"),
    "no object": raw(SIZED, "[]"),
    "nothing": raw(SIZED, ""),
    "no type": raw("200 OK\r\nContent-Length: LENGTH\r\n", answer_to),
    "another type": raw("200 OK\r\nContent-Type: text/html\r\nContent-Length: LENGTH\r\n", answer_to),
    "no length": ending(raw(f"200 OK\r\n{JSON}", answer_to)),
    "a strange connection": raw(f"{SIZED}Connection: keep-alive, x\r\n", answer_to),
    "two lengths": raw(f"{SIZED}Content-Length: 5\r\n", answer_to),
    "a length and chunks": raw(f"{SIZED}Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
    "a number of its own first": raw(f"100 Continue\r\n\r\nHTTP/1.1 {SIZED}", answer_to),
    "a folded line": raw(f"{SIZED}X: y\r\n z\r\n", answer_to),
    "a head without an end": ending(raw("200 OK\r\n" + "X: y\r\n" * 20_000)),
    "a large head": raw(
        SIZED + "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 1200, answer_to
    ),
    "no http": ending(raw("what?\r\n", "no")),
    "the end before anything": gone,
    "the end in the middle": ending(raw(f"200 OK\r\n{JSON}Content-Length: 1000\r\n", answer_to)),
    "the end in a chunk": ending(raw(f"200 OK\r\n{EVENTS}Transfer-Encoding: chunked\r\n", "ff\r\ndata")),
    "an extended chunk": raw(f"200 OK\r\n{JSON}Transfer-Encoding: chunked\r\n", "2;x=y\r\n{}\r\n0\r\n\r\n"),
    "a trailer": raw(f"200 OK\r\n{JSON}Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\nX: y\r\n\r\n"),
    "silence": silent,
    "there": elsewhere,
    "found elsewhere": partial(elsewhere, status=302),
    "another host": partial(elsewhere, where="http://other.test/"),
    **{f"status {number}": status(number) for number in (202, 204, 400, 401, 403, 404, 408, 410, 429, 500, 503)},
}
"""What is read as messages, or fails."""


@pytest.fixture
def direct(monkeypatch):
    """Whether each call was posted by us."""
    posted, try_send_call = [], StreamableHttpTransport.try_send_call

    def noted(self, *call):
        posted.append(try_send_call(self, *call))
        return posted[-1]

    monkeypatch.setattr(StreamableHttpTransport, "try_send_call", noted)
    return posted


async def connections_are_idle():
    """Wait until no response is being read any more."""
    names = ("mcp: tools/call", "mcp: rest of an event stream")
    await wait_until(lambda: not any(task.get_name() in names for task in asyncio.all_tasks()))


def provider(url, era, **options):
    given = {"max_frame": 300_000, **options}
    return mcp.http(f"{url}/mcp", namespace="web", manifest=False, protocol=era, headers={"X-Own": "k"}, **given)


def comparable_outcome(outcome, url):
    words = re.sub(r"\d+ bytes of headers", "", f"{getattr(outcome, 'message', '')}".replace(url, "URL"))
    return type(outcome), outcome.ok, getattr(outcome, "data", None), outcome.text if outcome.ok else words, (
        getattr(outcome, "code", None), getattr(outcome, "executed", None)
    )  # fmt: skip


async def outcomes_and_calls(call, era, session=None):
    """Two calls, one after the other: what comes of them, and what the server has seen."""
    web = Web(call, session=session)
    settings = HttpSettings(timeout=None, read_timeout=0.5 if call is silent else 30.0)
    async with serve_raw_http(web) as url, Runtime(provider(url, era, settings=settings)) as runtime:
        outcomes = [comparable_outcome(await runtime.call("web__look", {"region": "über"}), url) for _ in range(2)]
    return outcomes, web.calls


@pytest.mark.parametrize(
    ("name", "era"),
    [
        *product((*PLAIN_RESULTS, *OTHERS), ("2026-07-28",)),
        *product(PLAIN_RESULTS, ("legacy",)),
        *(pytest.param(name, "legacy", marks=pytest.mark.long) for name in OTHERS),
    ],
)
async def test_a_call_has_the_same_outcome_as_through_the_sdk(name, era, direct, monkeypatch):
    call = (PLAIN_RESULTS | OTHERS)[name]
    session = "one" if era == "legacy" else None
    here = await outcomes_and_calls(call, era, session)
    assert direct[0] is True
    monkeypatch.setattr(StreamableHttpTransport, "try_send_call", lambda *call: False)
    there = await outcomes_and_calls(call, era, session)

    assert here == there


# How they go


@pytest.mark.parametrize("era", ERAS)
async def test_one_connection_is_reused_for_consecutive_calls(era, monkeypatch):
    monkeypatch.setattr(http_client, "DRAIN_TIMEOUT_SECONDS", 60.0)  # however slow the machine
    calls = iter([result(SAID), chunked(event), chunked(progress, event), packed, refusal(400, -1), result(SAID)])

    async def call(asked):
        await next(calls)(asked)

    web = Web(call)
    async with serve_raw_http(web) as url, Runtime(provider(url, era)) as runtime:
        for _ in range(6):
            await runtime.call("web__look")
            await connections_are_idle()

    assert len(web.calls) == 6
    assert len(set(web.ways)) == 1


async def test_a_connection_closed_by_the_server_is_not_reused_even_before_the_close_is_seen():
    come = []

    async def call(asked):
        come.append(asked)
        await asked.result(SAID)

    web = Web(call)
    async with serve_raw_http(web) as url, Runtime(provider(url, "legacy")) as runtime:
        assert (await runtime.call("web__look")).ok
        come[0].hang_up()  # the event loop has no turn before the next call
        assert (await runtime.call("web__look")).ok

    assert len(set(web.ways)) == 2


async def test_more_calls_than_connections_are_all_made():
    at_once = set()

    async def call(asked):
        at_once.add(asked.writer)
        await asyncio.sleep(0.02)
        await asked.result(SAID)

    settings = HttpSettings(timeout=None, max_connections=6)
    async with serve_raw_http(Web(call)) as url, Runtime(provider(url, "legacy", settings=settings)) as runtime:
        outcomes = await asyncio.gather(*(runtime.call("web__look") for _ in range(30)))

    assert all(outcome.ok for outcome in outcomes)
    assert len(at_once) <= 6


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["silent", "begun"])
async def test_a_cancelled_call_is_signalled_as_the_protocol_requires(era, how):
    came, left = asyncio.Event(), asyncio.Event()

    async def call(asked):
        if how == "begun":
            asked.writer.write(f"HTTP/1.1 200 OK\r\n{EVENTS}Transfer-Encoding: chunked\r\n\r\n".encode())
            data = progress(asked).encode()
            asked.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        came.set()
        with suppress(ConnectionError):
            await asked.writer._reader.read(1)
        left.set()

    web = Web(call)
    async with serve_raw_http(web) as url, Runtime(provider(url, era)) as runtime:
        task = asyncio.create_task(runtime.call("web__look"))
        await came.wait()
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait({task})
        if era == "legacy":
            while not any(method == "notifications/cancelled" for method, _ in web.others):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert not left.is_set()
        else:
            await left.wait()

    told_so = [message for method, message in web.others if method == "notifications/cancelled"]
    assert len(told_so) == (era == "legacy")


async def test_a_call_cancelled_before_the_connection_is_open_is_not_sent(monkeypatch):
    dialling, go_on, connect_tcp = asyncio.Event(), asyncio.Event(), Connector.connect_tcp

    async def slow(self, *address, **options):
        dialling.set()
        await go_on.wait()
        return await connect_tcp(self, *address, **options)

    web = Web(result(SAID))
    async with serve_raw_http(web) as url:
        given = mcp.http(url, namespace="web", manifest=False, protocol="legacy", headers={"Connection": "close"})
        async with Runtime(given) as runtime:
            monkeypatch.setattr(Connector, "connect_tcp", slow)
            task = asyncio.create_task(runtime.call("web__look", {"region": "one"}))
            await dialling.wait()
            task.cancel()
            await asyncio.wait({task})
            await connections_are_idle()
            go_on.set()
            assert (await runtime.call("web__look", {"region": "two"})).ok

    assert [json.loads(body)["params"]["arguments"]["region"] for _, _, body in web.calls] == ["two"]
    assert [method for method, _ in web.others] == ["notifications/initialized"]


async def test_a_server_can_ask_within_a_response_stream():
    replied = asyncio.Event()

    async def call(asked):
        asked.writer.write(f"HTTP/1.1 200 OK\r\n{EVENTS}Transfer-Encoding: chunked\r\n\r\n".encode())
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
        params = {"message": "Really?", "requestedSchema": schema}
        for data in (event(asked, id=7, method="elicitation/create", params=params), event(asked), ""):
            asked.writer.write(f"{len(data):x}\r\n{data}\r\n".encode())
            await asked.writer.drain()
            await replied.wait()

    class Asking(Web):
        async def __call__(self, asked):
            if asked.method == "POST" and "result" in asked.message:
                replied.set()
            await super().__call__(asked)

    web = Asking(call)
    async with serve_raw_http(web) as url, Runtime(provider(url, "legacy")) as runtime:
        pending = await runtime.call("web__look")
        assert isinstance(pending, Pending)
        done = await runtime.settle(pending.call_id, {"ok": True})

    assert done.ok
    assert [message["result"]["content"] for method, message in web.others if method is None] == [{"ok": True}]


@pytest.mark.parametrize("where", ["before", "between"])
async def test_an_unreachable_server_was_sent_nothing(where):
    web = Web(ending(raw(f"{SIZED}Connection: close\r\n", answer_to)))
    closing = {"Connection": "close"}  # no connection is left from before
    async with serve_raw_http(web) as url:
        given = mcp.http(url, namespace="web", manifest=False, protocol="2026-07-28", headers=closing)
        async with Runtime(given) as runtime:
            if where == "between":
                assert (await runtime.call("web__look")).ok
            SERVERS_BY_URL[url].close()
            outcome = await runtime.call("web__look")

    assert (outcome.ok, outcome.executed) == (False, False)


@pytest.mark.parametrize(
    "options", [{"auth": True}, {"headers": {"Mcp-Name": "x"}}, {"headers": {"Connection": "close"}}]
)
async def test_sign_in_and_headers_are_sent_with_calls(direct, options):
    class Known:
        def auth_for(self, who, url):
            return ("me", "word")

    if "auth" in options:
        options = {"auth": Known()}
    web = Web(result(SAID))
    async with serve_raw_http(web) as url:
        given = mcp.http(f"{url}/mcp", namespace="web", manifest=False, protocol="legacy", **options)
        async with Runtime(given) as runtime:
            assert (await runtime.call("web__look")).ok

    [(_, headers, _)] = web.calls
    assert direct == [True]
    assert headers.get("authorization") == ("Basic bWU6d29yZA==" if "auth" in options else None)


async def test_redirects_within_the_origin_are_followed():
    web = Web(elsewhere)

    async with serve_raw_http(web) as url, Runtime(provider(url, "legacy")) as runtime:
        assert [(await runtime.call("web__look")).ok for _ in range(2)] == [True, True]

    assert [path for path, _, _ in web.calls] == ["/mcp", "/there"] * 2


class Resuming(Web):
    """A server whose streams break off after an event, and go on where the client says."""

    def __init__(self, *, status=200):
        super().__init__(self.begin, session="one")
        self.status, self.resumed = status, []

    async def begin(self, asked):
        self.asked = asked
        await chunked("id: e1\nretry: 1\ndata:\n\n", progress)(asked)

    async def __call__(self, asked):
        if asked.method == "GET" and "last-event-id" in asked.headers:
            self.resumed.append(asked.headers["last-event-id"])
            await (chunked(event(self.asked))(asked) if self.status == 200 else asked.answer(self.status))
        else:
            await super().__call__(asked)


class EndingStreams(Web):
    """A server whose stream of notifications ends at once, and that wants it to be opened again without a pause."""

    def __init__(self):
        super().__init__(answer_to, session="one")
        self.opened_at = []
        self.has_opened_thrice = asyncio.Event()

    async def __call__(self, asked):
        if asked.method != "GET":
            await super().__call__(asked)
            return
        self.opened_at.append(asyncio.get_running_loop().time())
        if len(self.opened_at) == 3:
            self.has_opened_thrice.set()
        await chunked("id: e1\nretry: 0\ndata:\n\n")(asked)


async def test_a_notification_stream_is_not_reopened_without_a_pause():
    web = EndingStreams()

    async with serve_raw_http(web) as url, Runtime(provider(url, "legacy", required=True)):
        await web.has_opened_thrice.wait()

    first, second, third = web.opened_at[:3]
    assert third - first >= 1.5 * http_client.MIN_RECONNECT_INTERVAL_SECONDS
    assert second > first


@pytest.mark.parametrize("direct_path", [True, False])
async def test_a_broken_stream_is_resumed(direct_path, monkeypatch):
    if not direct_path:
        monkeypatch.setattr(StreamableHttpTransport, "try_send_call", lambda *call: False)
    web = Resuming()

    async with serve_raw_http(web) as url, Runtime(provider(url, "legacy")) as runtime:
        assert (await runtime.call("web__look")).data == SAID["structuredContent"]

    assert web.resumed == ["e1"]


@pytest.mark.parametrize("direct_path", [True, False])
async def test_a_stream_that_cannot_be_resumed_leaves_the_effect_unknown(direct_path, monkeypatch):
    if not direct_path:
        monkeypatch.setattr(StreamableHttpTransport, "try_send_call", lambda *call: False)
    web = Resuming(status=400)

    async with serve_raw_http(web) as url, Runtime(provider(url, "legacy")) as runtime:
        outcome = await runtime.call("web__look")

    assert web.resumed == ["e1"] * streamable_http.MAX_RESUME_ATTEMPTS
    assert (outcome.code, "attempts were exhausted" in outcome.message) == ("unknown_effect", True)


@pytest.mark.parametrize("era", ERAS)
async def test_progress_is_delivered_before_the_result(era):
    web = Web(chunked(progress, event))

    async with serve_raw_http(web) as url, Runtime(provider(url, era)) as runtime:
        events = [each async for each in runtime.stream("web__look")]

    assert [type(each).__name__ for each in events] == ["CallStarted", "CallProgress", "CallEnded"]


async def test_calls_are_posted_over_tls_too(direct):
    authority, there, trusting = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(there)
    authority.configure_trust(trusting)
    web = Web(result(SAID))

    async with secret(web, there) as url:
        given = provider(url, "2026-07-28", settings=HttpSettings(timeout=None, verify=trusting))
        async with Runtime(given) as runtime:
            assert [(await runtime.call("web__look")).text for _ in range(3)]

    assert direct == [True] * 3
    assert len(web.calls) == 3


@asynccontextmanager
async def secret(web, trust):
    """The same server, behind one that speaks in secret."""
    async with serve_raw_http(web) as url:
        tasks = set()

        async def copy(reader, writer):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
            writer.close()

        async def serve(reader, writer):
            tasks.add(asyncio.current_task())
            there = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            await asyncio.gather(copy(reader, there[1]), copy(there[0], writer), return_exceptions=True)

        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=trust) as server:
            yield f"https://localhost:{server.sockets[0].getsockname()[1]}"
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
