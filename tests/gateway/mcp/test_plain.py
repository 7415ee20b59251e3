"""Requests over HTTP that are plain are read and answered in one piece, and nobody can tell."""

import asyncio
import gc
import re
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.gateway.mcp.lines_peer import SOON, message
from tests.gateway.mcp.standing import standing_still
from tests.gateway.mcp.web_peer import LEGACY, Connection, Site, calling, listening, modern, on_port, request
from toolwright import Runtime, gateway, tool
from toolwright.gateway.mcp.http.patience import Limits, Patient
from toolwright.gateway.mcp.http.plain import LONGEST, Plain, head_of

_VARIES = re.compile(rb"(?<=date: )[^\r]+|(?<=mcp-session-id: )[^\r]+")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def echo(value: Any = None) -> Any:
    """Say the same."""
    return value


@tool
async def wait(seconds: float = 60) -> str:
    """Wait for long."""
    await asyncio.sleep(seconds)
    return "waited"


@pytest.fixture
def counted(monkeypatch):
    """How many answers were written in one piece."""
    said = []
    say = Plain._say

    def saying(self: Plain, body: bytes) -> bool:
        said.append(say(self, body))
        return said[-1]

    monkeypatch.setattr(Plain, "_say", saying)
    return said


@asynccontextmanager
async def both(monkeypatch):
    """What is answered to data, byte by byte, and what the library would answer alone."""
    async with listening(add, echo, wait) as site:

        async def ask(data: bytes, *, answers: int = 1) -> tuple[bytes, bytes]:
            plain = await heard(site, data, answers)
            with monkeypatch.context() as without:
                without.setattr(Patient, "_is_taken", lambda self, come: False)
                return plain, await heard(site, data, answers)

        yield ask


async def heard(site: Site, data: bytes, answers: int) -> bytes:
    """So many answers as they come, and whether the connection goes on."""
    connection = await site.connect()
    try:
        await connection.send(data)
        come = b"".join([await raw(connection) for _ in range(answers)])
        await connection.send(calling("add", id=99, a=1, b=1))
        try:
            return come + await raw(connection)
        except (asyncio.IncompleteReadError, ConnectionError):
            return come + b"closed"
    finally:
        await connection.close()


async def raw(connection: Connection) -> bytes:
    """One answer as it came, without what differs from one to the next."""
    async with asyncio.timeout(SOON):
        head = await connection.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        body = await connection.reader.readexactly(int(length[1])) if length else await chunks(connection.reader)
    return _VARIES.sub(b"", head) + body


async def chunks(reader: asyncio.StreamReader) -> bytes:
    come = b""
    while not come.endswith(b"0\r\n\r\n"):
        come += await reader.readuntil(b"\r\n")
    return come


def hello() -> Any:
    about = {"name": "web", "version": "1"}
    return message("initialize", 0, protocolVersion=LEGACY, capabilities={}, clientInfo=about)


ASKED = {
    "a call": calling("add", a=1, b=2),
    "a call that fails": calling("add", a="x"),
    "a long text": calling("echo", value="x" * 10_000),
    "a long body": request(b" " * LONGEST + b"{"),
    "a list": modern("tools/list"),
    "an unknown method": modern("none"),
    "what is no message": request(b"{"),
    "nothing": request(b""),
    "a session": request(hello()),
    "a session that is none": request(hello(), ("Mcp-Session-Id", "none")),
    "a notification": request(message("notifications/initialized"), ("MCP-Protocol-Version", "2026-07-28")),
    "another path": request(b"{}", path="/other"),
    "a path with more to it": request(b"{}", path="/mcp?a=%20"),
    "another host": request(b"{}", host="example.org"),
    "another method": request(b"", method="GET", path="/other"),
    "a method that there is not": request(b"", method="PUT"),
    "a header twice": request(b"{}", ("X-A", "1"), ("X-A", "2")),
    "a header without a value": request(b"{}", ("X-A", "")),
    "letters of others": request(b"{}", ("X-A", "\xe9")),
    "the last one": request(b"{}", ("Connection", "close")),
}


@pytest.mark.parametrize("what", ASKED)
async def test_a_request_is_answered_byte_for_byte_as_the_library_does(what, monkeypatch):
    async with both(monkeypatch) as ask:
        plain, alone = await ask(ASKED[what])

    assert plain == alone


async def test_what_is_plain_is_answered_in_one_piece(counted):
    async with listening(add) as site:
        connection = await site.connect()
        for number in range(3):
            await connection.send(calling("add", id=number, a=1, b=number))
            assert (await connection.answer()).status == 200
        await connection.close()

    assert counted == [True] * 3


async def test_a_request_is_the_same_however_it_is_cut():
    whole = calling("add", a=1, b=2)
    async with listening(add) as site:
        connection = await site.connect()
        for cut in range(1, len(whole), 7):
            await connection.send(whole[:cut])
            await asyncio.sleep(0)
            await connection.send(whole[cut:])
            assert (await connection.answer()).json["result"]["structuredContent"] == {"result": 3}
        await connection.close()


async def test_requests_that_come_before_others_are_answered_have_their_turn(monkeypatch):
    pair = calling("wait", seconds=0.1) + calling("add", a=1, b=2) + modern("tools/list")
    async with both(monkeypatch) as ask:
        plain, alone = await ask(pair, answers=3)

    assert plain == alone


async def test_a_request_that_comes_while_another_runs_waits_for_it():
    async with listening(add, wait) as site:
        connection = await site.connect()
        await connection.send(calling("wait", seconds=0.1))
        await asyncio.sleep(0.02)
        await connection.send(calling("add", a=1, b=2))
        first, second = await connection.answer(), await connection.answer()
        await connection.send(calling("add", a=2, b=2))
        third = await connection.answer()
        await connection.close()

    assert b"waited" in first.body
    assert [each.json["result"]["structuredContent"]["result"] for each in (second, third)] == [3, 4]


async def test_requests_on_one_connection_know_nothing_of_each_other():
    noted: ContextVar[str] = ContextVar("noted", default="nothing")

    @tool
    async def note(text: str) -> str:
        """Say what was noted before, and note another."""
        before = noted.get()
        noted.set(text)
        return before

    async with listening(note) as site:
        connection = await site.connect()
        await connection.send(b"".join(calling("note", text=text) for text in "abc"))
        together = [await connection.answer() for _ in range(3)]
        await connection.send(calling("note", text="d"))
        alone = await connection.answer()
        await connection.close()

    said = [each.json["result"]["content"][0]["text"] for each in (*together, alone)]
    assert said == ["nothing"] * 4


async def test_an_idle_connection_does_not_keep_its_last_request():
    async with listening(echo) as site:
        connection = await site.connect()
        await connection.send(calling("echo", value="said here alone"))
        assert (await connection.answer()).status == 200
        there = [each for each in gc.get_objects() if type(each) is Plain]  # those of other tests, too
        await connection.close()

    assert there
    assert not any(b"said here alone" in each._data for each in there)


async def test_whoever_is_refused_is_told_before_the_body_has_come():
    async with listening(add) as site:
        answer = await site.ask(request(b"x" * 100, host="example.org")[:-100])

    assert answer.status == 421


async def test_a_connection_that_is_quiet_after_plain_requests_is_closed(monkeypatch):
    async with listening(add, limits=Limits(keep_alive=5, stopping=0.2)) as site:
        connection = await site.connect()
        with standing_still(monkeypatch) as time:
            for _ in range(3):
                await connection.send(calling("add", a=1, b=2))
                assert (await connection.answer()).status == 200
                await time.passes(4)  # it is counted from the last of them
            await time.passes(2)
            assert await connection.ends()
        await connection.close()


HEAD = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"


def test_a_plain_head_is_read():
    head = head_of(HEAD)

    assert head is not None
    assert (head.path, head.length) == (b"/mcp", 2)
    assert head.headers == [(b"host", b"a"), (b"content-length", b"2")]


def with_line(line: bytes) -> bytes:
    return HEAD[:-2] + line + b"\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        HEAD.replace(b"POST", b"GET"),
        HEAD.replace(b"1.1", b"1.0"),
        HEAD.replace(b"/mcp", b"/m%63p"),
        HEAD.replace(b"/mcp", b"http://a/mcp"),
        HEAD.replace(b"/mcp", b"/mcp?a"),
        HEAD.replace(b"\r\n", b"\n"),
        HEAD.replace(b"Host: a\r\n", b""),
        HEAD.replace(b"Content-Length: 2\r\n", b""),
        HEAD.replace(b": 2", b": +2"),
        HEAD.replace(b": 2", b": 2, 2"),
        HEAD.replace(b": 2", b": %d" % (LONGEST + 1)),
        HEAD.replace(b": 2", b": " + b"9" * 5000),
        HEAD.replace(b": a", b":a"),
        HEAD.replace(b"Host", b"Host "),
        with_line(b"content-length: 2"),
        with_line(b"HOST: b"),
        with_line(b"Transfer-Encoding: chunked"),
        with_line(b"Connection: close"),
        with_line(b"Connection: Upgrade"),
        with_line(b"Upgrade: websocket"),
        with_line(b"Expect: 100-continue"),
        with_line(b" folded"),
        with_line(b"X-A: \x00"),
        with_line(b"X-A: b\rc"),
        with_line(b"X-A"),
        with_line(b": b"),
    ],
)
def test_whatever_is_not_plain_is_left_to_the_library(data):
    assert head_of(data) is None


async def test_what_somebody_adds_to_the_app_is_served_as_well():
    app = gateway.mcp.app(Runtime(add))
    async with on_port(app) as site:
        before = await site.ask(request(b"", method="GET", path="/health"))
        app.router.routes.insert(0, Route("/health", lambda _: PlainTextResponse("well")))
        after = await site.ask(request(b"", method="GET", path="/health"))
        called = await site.ask(calling("add", a=1, b=2))

    assert (before.status, after.body, called.status) == (404, b"well", 200)


async def forging(_: Any) -> Response:
    return Response(b"ok", headers={"x-name": "x\r\nset-cookie: evil=1"})


async def twice(scope: Any, receive: Any, send: Any) -> None:
    await Response(b"ab")(scope, receive, send)
    await send({"type": "http.response.body", "body": b"cd"})


class Twice:
    __call__ = staticmethod(twice)


@pytest.mark.parametrize(("path", "wanted"), [("/forging", b""), ("/twice", b"ab")])
async def test_an_app_that_answers_wrongly_loses_its_connection_and_no_more(path, wanted):
    app = gateway.mcp.app(Runtime(add))
    app.router.routes[:0] = [Route("/forging", forging, methods=["POST"]), Route("/twice", Twice(), methods=["POST"])]
    async with on_port(app) as site:
        connection = await site.connect()
        await connection.send(request(b"{}", path=path))
        come = await asyncio.wait_for(connection.reader.read(), SOON)
        await connection.close()

    assert come.partition(b"\r\n\r\n")[2] == wanted
    assert b"evil" not in come
