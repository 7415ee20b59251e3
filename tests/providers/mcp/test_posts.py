"""Calls that go straight: over connections of their own, and with the outcome that they have through the library."""

import asyncio
import gzip
import json
import re
import ssl
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import product

import httpx2
import pytest
import trustme
from toolwright.providers.mcp.routes import exchange, posts

import toolwright.providers.mcp.talk  # noqa: F401 - it takes a second, which is no test's own
from tests.providers.mcp.peers.bare import LISTENING, bare
from tests.providers.mcp.steady import until
from tests.providers.mcp.test_calls import given_back as given_back
from toolwright import Pending, Runtime, mcp
from toolwright.core.errors import Denied
from toolwright.http.answer import Answer, Unusual
from toolwright.http.settings import Settings
from toolwright.http.transport import GuardedTransport

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
                self.calls.append(shown(asked))
                self.ways.append(id(asked.writer))
                await self.call(asked)
            case other:
                self.others.append((other, asked.message))
                await asked.answer(202)


def shown(asked):
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
STRAIGHT = {
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
"""What is read here."""
OTHERWISE = {
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
"""What is read by the library."""


@pytest.fixture
def straight(monkeypatch):
    """Which calls went straight."""
    sent, send = [], posts.Posts.send

    def noted(self, *call):
        sent.append(send(self, *call))
        return sent[-1]

    monkeypatch.setattr(posts.Posts, "send", noted)
    return sent


def provider(url, era, **options):
    given = {"max_frame": 300_000, **options}
    return mcp.http(f"{url}/mcp", namespace="web", manifest=False, protocol=era, headers={"X-Own": "k"}, **given)


def told(outcome, url):
    words = re.sub(r"\d+ bytes of headers", "", f"{getattr(outcome, 'message', '')}".replace(url, "URL"))
    return type(outcome), outcome.ok, getattr(outcome, "data", None), outcome.text if outcome.ok else words, (
        getattr(outcome, "code", None), getattr(outcome, "executed", None)
    )  # fmt: skip


async def seen(call, era, session=None):
    """Two calls, one after the other: what comes of them, and what the server has seen."""
    web = Web(call, session=session)
    settings = Settings(timeout=None, read_timeout=0.5 if call is silent else 30.0)
    async with bare(web) as url, Runtime(provider(url, era, settings=settings)) as runtime:
        outcomes = [told(await runtime.call("web__look", {"region": "über"}), url) for _ in range(2)]
    return outcomes, web.calls


@pytest.mark.parametrize(
    ("name", "era"),
    [
        *product((*STRAIGHT, *OTHERWISE), ("2026-07-28",)),
        *product(STRAIGHT, ("legacy",)),
        *(pytest.param(name, "legacy", marks=pytest.mark.long) for name in OTHERWISE),
    ],
)
async def test_a_call_has_the_outcome_that_it_has_through_the_library(name, era, straight, monkeypatch):
    call = (STRAIGHT | OTHERWISE)[name]
    session = "one" if era == "legacy" else None
    here = await seen(call, era, session)
    went = list(straight)
    monkeypatch.setattr(exchange, "may_go_straight", lambda client, url: False)
    there = await seen(call, era, session)

    assert here == there
    assert went[0] is True
    assert len(straight) == len(went)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", STRAIGHT)
async def test_what_is_plain_is_not_handed_over(name, era, monkeypatch):
    monkeypatch.setattr(posts.Posts, "hand_over", None)

    outcomes, _ = await seen(STRAIGHT[name], era)

    assert len(outcomes) == 2


# How they go


@pytest.mark.parametrize("era", ERAS)
async def test_one_connection_serves_one_call_after_another_whoever_reads_the_answers(era, given_back):
    calls = iter([result(SAID), chunked(event), chunked(progress, event), packed, refusal(400, -1), result(SAID)])

    async def call(asked):
        await next(calls)(asked)

    web = Web(call)
    async with bare(web) as url, Runtime(provider(url, era)) as runtime:
        for _ in range(6):
            await runtime.call("web__look")
            await until(lambda: given_back)
            given_back.clear()

    assert len(web.calls) == 6
    assert len(set(web.ways)) == 1


async def test_a_connection_that_the_server_has_closed_is_not_used_even_if_nobody_has_heard_of_it_yet():
    come = []

    async def call(asked):
        come.append(asked)
        await asked.result(SAID)

    web = Web(call)
    async with bare(web) as url, Runtime(provider(url, "legacy")) as runtime:
        assert (await runtime.call("web__look")).ok
        come[0].hang_up()  # the event loop has no turn before the next call
        assert (await runtime.call("web__look")).ok

    assert len(set(web.ways)) == 2


async def test_more_calls_than_there_may_be_connections_are_all_made():
    at_once = set()

    async def call(asked):
        at_once.add(asked.writer)
        await asyncio.sleep(0.02)
        await asked.result(SAID)

    settings = Settings(timeout=None, max_connections=6)
    async with bare(Web(call)) as url, Runtime(provider(url, "legacy", settings=settings)) as runtime:
        outcomes = await asyncio.gather(*(runtime.call("web__look") for _ in range(30)))

    assert all(outcome.ok for outcome in outcomes)
    assert len(at_once) <= 6


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["silent", "begun"])
async def test_a_call_that_nobody_wants_is_told_as_the_protocol_has_it(era, how):
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
    async with bare(web) as url, Runtime(provider(url, era)) as runtime:
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


async def test_a_call_that_nobody_wants_before_there_is_a_connection_is_not_sent(monkeypatch):
    dialling, go_on = asyncio.Event(), asyncio.Event()
    dial = GuardedTransport.dial

    async def slow(self, url, timeout):
        dialling.set()
        await go_on.wait()
        return await dial(self, url, timeout)

    monkeypatch.setattr(GuardedTransport, "dial", slow)
    web = Web(result(SAID))
    async with bare(web) as url, Runtime(provider(url, "legacy")) as runtime:
        task = asyncio.create_task(runtime.call("web__look", {"region": "one"}))
        await dialling.wait()
        task.cancel()
        await asyncio.wait({task})
        await asyncio.sleep(0.02)
        go_on.set()
        assert (await runtime.call("web__look", {"region": "two"})).ok

    assert [json.loads(body)["params"]["arguments"]["region"] for _, _, body in web.calls] == ["two"]
    assert not web.others[1:]  # but for the one that says that the connection is there


async def test_a_server_may_ask_in_the_middle_of_an_answer():
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
    async with bare(web) as url, Runtime(provider(url, "legacy")) as runtime:
        pending = await runtime.call("web__look")
        assert isinstance(pending, Pending)
        done = await runtime.settle(pending.call_id, {"ok": True})

    assert done.ok
    assert [message["result"]["content"] for method, message in web.others if method is None] == [{"ok": True}]


@pytest.mark.parametrize("where", ["before", "between"])
async def test_a_server_that_is_not_there_was_sent_nothing(where):
    web = Web(ending(raw(f"{SIZED}Connection: close\r\n", answer_to)))
    async with bare(web) as url, Runtime(provider(url, "2026-07-28")) as runtime:
        if where == "between":
            assert (await runtime.call("web__look")).ok
        LISTENING[url].close()
        outcome = await runtime.call("web__look")

    assert (outcome.ok, outcome.executed) == (False, False)


async def test_whoever_signs_in_or_speaks_of_the_protocol_himself_goes_through_the_library(straight):
    class Known:
        def auth_for(self, who, url):
            return ("me", "word")

    for options in ({"auth": Known()}, {"headers": {"Mcp-Name": "x"}}, {"headers": {"Connection": "close"}}):
        async with bare(Web(result(SAID))) as url:
            given = mcp.http(f"{url}/mcp", namespace="web", manifest=False, protocol="legacy", **options)
            async with Runtime(given) as runtime:
                assert (await runtime.call("web__look")).ok

    assert straight == []


async def test_what_leads_elsewhere_is_followed_by_the_library_from_then_on(straight):
    web = Web(elsewhere)

    async with bare(web) as url, Runtime(provider(url, "legacy")) as runtime:
        assert [(await runtime.call("web__look")).ok for _ in range(2)] == [True, True]

    assert straight == [True, False]
    assert [path for path, _, _ in web.calls] == ["/mcp", "/there"] * 2


async def test_calls_go_straight_in_secret_too(straight):
    authority, there, trusting = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(there)
    authority.configure_trust(trusting)
    web = Web(result(SAID))

    async with secret(web, there) as url:
        given = provider(url, "2026-07-28", settings=Settings(timeout=None, verify=trusting))
        async with Runtime(given) as runtime:
            assert [(await runtime.call("web__look")).text for _ in range(3)]

    assert straight == [True] * 3
    assert len(web.calls) == 3


@asynccontextmanager
async def secret(web, trust):
    """The same server, behind one that speaks in secret."""
    async with bare(web) as url:
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


async def test_no_connection_is_made_past_the_guard():
    transport = GuardedTransport(Settings())
    for url in ("http://127.0.0.1/", "https://[::1]/", "http://169.254.169.254/", "http://localhost:8080/"):
        with pytest.raises(Denied):
            await transport.dial(httpx2.URL(url), 1.0)
    await transport.aclose()


# How answers are read

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WHOLE = [
    (PLAIN + b"Content-Length: 4\r\n\r\nseen", b"seen"),
    (PLAIN + b"Transfer-Encoding: chunked\r\n\r\n2\r\nse\r\n2\r\nen\r\n0\r\n\r\n", b"seen"),
]


@pytest.mark.parametrize(("data", "body"), WHOLE)
def test_an_answer_is_the_same_however_it_is_cut(data, body):
    for at in range(1, len(data)):
        answer = Answer(1000)
        answer.feed(data[:at])
        assert not answer.is_whole
        answer.feed(data[at:])
        assert (answer.is_whole, answer.body, answer.keeps, answer.raw) == (True, body, True, data)


@pytest.mark.parametrize(("data", "body"), WHOLE)
def test_what_comes_after_an_answer_is_no_part_of_it_and_ends_the_connection(data, body):
    answer = Answer(1000)
    answer.feed(data + b"HTTP/1.1 200 OK\r\n")

    assert (answer.is_whole, answer.body, answer.keeps) == (True, body, False)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nseen",
        b"HTTP/1.1 201 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nseen",
        PLAIN + b"\r\nseen",
        PLAIN + b"Content-Length : 4\r\n\r\nseen",
        PLAIN + b"Content-Length: +4\r\n\r\nseen",
        PLAIN + b"Content-Length: 4, 4\r\n\r\nseen",
        PLAIN + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nseen",
        PLAIN + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        PLAIN + b"Content-Length: 5000\r\n\r\n",
        PLAIN + b"Content-Length: 4\r\nContent-Encoding: identity\r\n\r\nseen",
        PLAIN + b"Content-Length: 4\r\nX: \x00\r\n\r\nseen",
        PLAIN + b"Content-Length: 4\nX: y\r\n\r\nseen",
        PLAIN + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        PLAIN + b"Transfer-Encoding: chunked\r\n\r\n-2\r\nse\r\n",
        PLAIN + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\nse\r\n0\r\n\r\n",
        PLAIN + b"Transfer-Encoding: chunked\r\n\r\n2\r\nseen\r\n",
        PLAIN + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n",
        PLAIN + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 65,
        PLAIN + b"X: " + b"y" * 17_000,
    ],
)
def test_whatever_is_not_plain_is_left_to_others(data):
    answer = Answer(2000 if len(data) < 2000 else 100_000)
    with pytest.raises(Unusual):
        answer.feed(data)
    assert answer.raw == data
