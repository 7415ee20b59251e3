"""HTTP requests as bytes on a socket: which ones are served, which are refused, and when the connection is closed."""

import asyncio
import socket
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from surehand import Context, DefinitionError, Runtime, gateway, tool
from surehand.gateway.mcp.http.connection import MAX_BYTES_PARSED_AT_ONCE, MAX_UNPARSED_BYTES
from surehand.gateway.mcp.http.connection_table import ConnectionLimits
from surehand.gateway.mcp.http.request_monitor import MAX_HEADERS
from tests.gateway.mcp.http_peer import (
    HttpSite,
    RawConnection,
    call_request,
    http_site,
    modern_request,
    request,
    serve_app,
)
from tests.gateway.mcp.stdio_peer import TIMEOUT_SECONDS
from tests.gateway.mcp.stopped_clock import stopped_clock


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def wait(seconds: float = 60) -> str:
    """Wait for long."""
    await asyncio.sleep(seconds)
    return "waited"


@tool
async def who(ctx: Context) -> str:
    """The user of the call."""
    return str(ctx.user)


CALL = call_request("add", a=1, b=2)
HEAD, BODY = CALL.partition(b"\r\n\r\n")[0] + b"\r\n", CALL.partition(b"\r\n\r\n")[2]
CHUNKED = HEAD.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
CHUNKS = b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
LENGTH = b"Content-Length: %d" % len(BODY)


def with_line(line: bytes, head: bytes = HEAD) -> bytes:
    return head + line + b"\r\n\r\n" + BODY


async def is_served(connection: RawConnection) -> bool:
    """Whether one more call on this connection is answered."""
    try:
        await connection.send(CALL)
        return (await connection.answer()).status == 200
    except (ConnectionError, asyncio.IncompleteReadError):
        return False


SERVED = {
    "plain": CALL,
    "blank line before": b"\r\n" + CALL,
    "bytes beyond ASCII": with_line(b"X-A: \xe9"),
    "white space around a value": CALL.replace(b"Mcp-Name: add", b"Mcp-Name: \t add \t "),
    "no space after the colon": CALL.replace(b"Host: localhost", b"Host:localhost"),
    "absolute target": CALL.replace(b" /mcp ", b" http://localhost/mcp "),
    "percent-encoded path": CALL.replace(b" /mcp ", b" /m%63p "),
    "expects to be told to continue": with_line(b"Expect: something"),
}


@pytest.mark.parametrize("data", SERVED.values(), ids=SERVED.keys())
async def test_unusual_but_valid_requests_are_served_and_the_connection_stays_open(data):
    async with http_site(add) as site:
        connection = await site.connect()
        await connection.send(data)
        answer = await connection.answer()
        again = await is_served(connection)
        await connection.close()

    assert answer.json["result"]["structuredContent"] == {"result": 3}
    assert again


IN_CHUNKS = {
    "chunked": CHUNKED + CHUNKS,
    "chunk extension": CHUNKED + CHUNKS.replace(b"\r\n0\r\n", b"\r\n0;a=b\r\n"),
    "trailers": CHUNKED + CHUNKS[:-2] + b"Mcp-Name: other\r\n\r\n",
    "and another request": CHUNKED + CHUNKS + CALL,
}


@pytest.mark.parametrize("data", IN_CHUNKS.values(), ids=IN_CHUNKS.keys())
async def test_a_chunked_request_is_served_and_nothing_after_it(data):
    async with http_site(add) as site:
        connection = await site.connect()
        await connection.send(data)
        answer = await connection.answer()
        assert await connection.ends()
        await connection.close()

    assert answer.json["result"]["structuredContent"] == {"result": 3}
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("cut", range(1, len(CALL), 7))
async def test_requests_that_come_in_any_parts_are_answered_in_order(cut):
    async with http_site(add) as site:
        connection = await site.connect()
        both = CALL + CALL
        for part in (both[:cut], both[cut : len(CALL) + cut], both[len(CALL) + cut :]):
            await connection.send(part)
        answers = [await connection.answer() for _ in range(2)]
        await connection.close()

    assert [answer.status for answer in answers] == [200, 200]


AMBIGUOUS = {
    "two lengths": with_line(LENGTH),
    "two different lengths": with_line(b"Content-Length: 2"),
    "a list of lengths": CALL.replace(LENGTH, LENGTH + b", %d" % len(BODY)),
    "a signed length": CALL.replace(LENGTH, b"Content-Length: +%d" % len(BODY)),
    "a hexadecimal length": CALL.replace(LENGTH, b"Content-Length: 0x10"),
    "an empty length": CALL.replace(LENGTH, b"Content-Length: "),
    "a length beyond all numbers": CALL.replace(LENGTH, b"Content-Length: " + b"9" * 5000),
    "length and chunks": CHUNKED + LENGTH + b"\r\n" + CHUNKS,
    "chunks and length": HEAD + b"Transfer-Encoding: chunked\r\n" + CHUNKS,
    "chunked twice": CHUNKED + b"Transfer-Encoding: chunked\r\n" + CHUNKS,
    "another coding": CHUNKED.replace(b"chunked", b"gzip, chunked") + CHUNKS,
    "another coding last": CHUNKED.replace(b"chunked", b"chunked, gzip") + CHUNKS,
    "an unknown coding": CHUNKED.replace(b"chunked", b"xchunked") + CHUNKS,
    "no coding": CHUNKED.replace(b"chunked", b"identity") + CHUNKS,
    "chunks in HTTP/1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + CHUNKS,
    "a signed chunk size": CHUNKED + CHUNKS.replace(b"\r\n", b"\r\n+", 1),
    "a chunk size that is none": CHUNKED + b"\r\nZZ\r\n",
    "a chunk without its end": CHUNKED + CHUNKS.replace(b"}\r\n0", b"}0"),
    "line feeds between chunks": CHUNKED + CHUNKS.replace(b"}\r\n0\r\n", b"}\n0\n"),
    "line feeds": CALL.replace(b"\r\n", b"\n"),
    "one line feed": with_line(b"X-A: b\nX-B: c"),
    "one carriage return": with_line(b"X-A: b\rc"),
    "a folded line": with_line(b"X-A: b\r\n c"),
    "a folded first line": CALL.replace(b"\r\nHost", b"\r\n X: y\r\nHost", 1),
    "a NUL": with_line(b"X-A: b\0c"),
    "a NUL in a name": with_line(b"X\0A: b"),
    "a control character": with_line(b"X-A: \x01"),
    "a space after a name": CALL.replace(b"Host:", b"Host :"),
    "no colon": with_line(b"X-A"),
    "no name": with_line(b": b"),
    "no host": CALL.replace(b"Host: localhost\r\n", b""),
    "two hosts": with_line(b"Host: localhost"),
    "a space in the target": CALL.replace(b" /mcp ", b" /mcp /x "),
    "an upgrade with a body": with_line(b"Connection: Upgrade\r\nUpgrade: h2c"),
    "another version": CALL.replace(b"HTTP/1.1", b"HTTP/2.0"),
    "an unknown version": CALL.replace(b"HTTP/1.1", b"HTTP/1.9"),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a tunnel": b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "too many headers": with_line(b"\r\n".join(b"X-%d: 1" % number for number in range(MAX_HEADERS))),
}


@pytest.mark.parametrize("data", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
async def test_an_ambiguous_request_is_refused_and_the_bytes_after_it_are_not_parsed(data, caplog):
    made = []

    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        made.append((a, b))
        return a + b

    async with http_site(add) as site:
        connection = await site.connect()
        await connection.send(data + CALL)
        come = await asyncio.wait_for(connection.reader.read(), TIMEOUT_SECONDS)
        await connection.close()

    assert come.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505"))
    assert come.count(b"connection: close") == 1
    assert made == []
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


LAST = {
    "closing": with_line(b"Connection: close"),
    "HTTP/1.0": CALL.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "HTTP/1.0 that would go on": with_line(b"Connection: keep-alive", HEAD.replace(b"HTTP/1.1", b"HTTP/1.0")),
    "an upgrade": request(b"", ("Connection", "Upgrade"), ("Upgrade", "websocket"), method="GET", path="/x"),
}


@pytest.mark.parametrize("data", LAST.values(), ids=LAST.keys())
async def test_the_last_request_of_a_connection_is_answered_and_what_follows_is_not(data):
    async with http_site(add) as site:
        connection = await site.connect()
        await connection.send(data + CALL)
        answer = await connection.answer()
        assert await connection.ends()
        await connection.close()

    assert answer.status in (200, 404)


async def test_malformed_requests_are_logged_once_a_minute(caplog):
    upgrade = request(b"", ("Connection", "Upgrade"), ("Upgrade", "websocket"), method="GET", path="/x")
    async with http_site(add) as site:
        for _ in range(5):
            await site.ask(b"nonsense\r\n\r\n")
            await site.ask(upgrade)

    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(warnings) == len(set(warnings)) <= 3
    assert "uvicorn: Invalid HTTP request received." in warnings


async def test_expect_continue_is_answered_unless_the_request_is_refused():
    asking = HEAD + b"Expect: 100-continue\r\n\r\n"
    async with http_site(add) as site:
        connection = await site.connect()
        await connection.send(asking)
        told = await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), TIMEOUT_SECONDS)
        await connection.send(BODY)
        answer = await connection.answer()
        await connection.close()
        refused = await site.ask(asking.replace(b"localhost", b"example.org"))

    assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert (answer.status, refused.status) == (200, 421)


async def test_a_request_is_parsed_the_same_in_any_parts():
    async with http_site(add) as site:
        connection = await site.connect()
        for cut in range(1, len(CALL), 7):
            await connection.send(CALL[:cut])
            await asyncio.sleep(0)
            await connection.send(CALL[cut:])
            assert (await connection.answer()).json["result"]["structuredContent"] == {"result": 3}
        await connection.close()


@pytest.mark.parametrize("size", [MAX_BYTES_PARSED_AT_ONCE, MAX_UNPARSED_BYTES, 1_000_000])
async def test_a_long_request_is_served_and_so_is_the_next(size):
    @tool
    async def length(text: str) -> int:
        """The length of a text."""
        return len(text)

    async with http_site(length, add) as site:
        connection = await site.connect()
        await connection.send(call_request("length", text="x" * size) + CALL)
        answers = [await connection.answer() for _ in range(2)]
        await connection.close()

    assert [each.json["result"]["structuredContent"]["result"] for each in answers] == [size, 3]


@pytest.mark.parametrize(
    "cut", [0, 3, *range(CHUNKED.index(b"chunked") + 2, len(CHUNKED) + 10, 5), len(CHUNKED) + 3, len(CHUNKED) + 5]
)
async def test_trailers_never_become_headers(cut):
    data = b"\r\n\r\n" + CHUNKED + CHUNKS[:-2] + b"Authorization: Bearer ada\r\n\r\n"
    async with http_site(add, token=lambda shown: shown) as site:
        connection = await site.connect()
        await connection.send(data[:cut])
        await asyncio.sleep(0.001)
        await connection.send(data[cut:])
        answer = await connection.answer()
        await connection.close()

    assert answer.status == 401


async def test_trailers_of_a_request_that_comes_with_the_body_before_it_are_no_headers_either():
    first = call_request("add", ("Authorization", "Bearer ada"), a=1, b=2)
    head, body = first.split(b"\r\n\r\n")
    async with http_site(add, token=lambda shown: shown) as site:
        connection = await site.connect()
        await connection.send(head + b"\r\n\r\n" + body[:1])
        await asyncio.sleep(0.001)
        await connection.send(body[1:] + CHUNKED + CHUNKS[:-2] + b"Authorization: Bearer bob\r\n\r\n")
        statuses = [(await connection.answer()).status for _ in range(2)]
        await connection.close()

    assert statuses == [200, 401]


@pytest.mark.parametrize(
    "endless", [b"0\r\n" + b"a: b\r\n" * 50_000, b"0\r\na: " + b"b" * 300_000, b"1;" + b"a" * 300_000]
)
async def test_trailers_and_extensions_of_chunks_are_not_read_without_end(endless):
    async with http_site(add) as site:
        connection = await site.connect()
        with suppress(ConnectionError):
            await connection.send(CHUNKED + b"\r\n" + endless)
        assert await connection.ends()
        await connection.close()
        assert (await site.ask(CALL)).status == 200


# A head that is too long, or too slow


async def test_a_head_that_does_not_end_is_not_read_for_long():
    limits = ConnectionLimits(stop_timeout=0.2)
    async with http_site(add, limits=limits) as site:
        endless, long = await site.connect(), await site.connect()
        await endless.send(b"POST /mcp HTTP/1.1\r\nX-A: " + b"x" * (limits.max_head_bytes + MAX_UNPARSED_BYTES))
        assert await endless.ends()
        await long.send(with_line(b"X-A: " + b"x" * 40_000))
        assert (await long.answer()).status == 200
        assert await is_served(long)
        for each in (endless, long):
            await each.close()


async def test_a_slow_head_is_not_waited_for_on_the_second_request_either(monkeypatch):
    limits = ConnectionLimits(head_timeout=5, keep_alive_timeout=60, stop_timeout=0.2)
    async with http_site(add, limits=limits) as site:
        connection = await site.connect()
        with stopped_clock(monkeypatch) as time:
            assert await is_served(connection)
            await time.advance(30)
            for each in HEAD[:4]:
                await connection.send(bytes([each]))
                await time.advance(2)
            assert await connection.ends()
        await connection.close()


async def test_a_slow_body_is_not_waited_for_while_the_request_before_it_runs_on_either(monkeypatch):
    """What a request does after its answer is of no concern to the next one, which may have begun by then."""
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    class RunsOn:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await Response(b"")(scope, receive, send)
            await may_end.wait()
            has_ended.set()

    app = gateway.mcp.app(Runtime(add))
    app.router.routes.insert(0, Route("/runs-on", RunsOn(), methods=["POST"]))
    async with serve_app(app, ConnectionLimits(body_timeout=5, keep_alive_timeout=60, stop_timeout=0.2)) as site:
        connection = await site.connect()
        with stopped_clock(monkeypatch) as time:
            await connection.send(request(b"", path="/runs-on") + CALL[:-5])
            assert (await connection.answer()).status == 200
            await time.advance(1)
            may_end.set()
            await has_ended.wait()
            await time.advance(10)
            assert await connection.ends()
        await connection.close()


async def test_a_connection_that_is_quiet_is_closed_so_long_after_its_last_request(monkeypatch):
    async with http_site(add, limits=ConnectionLimits(keep_alive_timeout=5, stop_timeout=0.2)) as site:
        connection = await site.connect()
        with stopped_clock(monkeypatch) as time:
            for _ in range(3):
                assert await is_served(connection)
                await time.advance(4)
            await time.advance(2)
            assert await connection.ends()
        await connection.close()


# Several requests at once


async def test_requests_that_come_before_others_are_answered_have_their_turn():
    async with http_site(add, wait) as site:
        connection = await site.connect()
        await connection.send(call_request("wait", seconds=0.1) + CALL + modern_request("tools/list"))
        first, second, third = [await connection.answer() for _ in range(3)]
        assert await is_served(connection)
        await connection.close()

    assert b"waited" in first.body
    assert second.json["result"]["structuredContent"] == {"result": 3}
    assert len(third.json["result"]["tools"]) == 2


async def test_a_request_that_comes_while_another_runs_waits_for_it():
    async with http_site(add, wait) as site:
        connection = await site.connect()
        await connection.send(call_request("wait", seconds=0.1))
        await asyncio.sleep(0.02)
        await connection.send(CALL)
        answers = [await connection.answer() for _ in range(2)]
        assert await is_served(connection)
        await connection.close()

    assert b"waited" in answers[0].body
    assert answers[1].json["result"]["structuredContent"] == {"result": 3}


async def test_any_number_of_requests_at_once_is_answered_one_after_the_other(monkeypatch):
    number = 3_000
    async with http_site(add) as site:
        connection = await site.connect()
        sending = asyncio.create_task(connection.send(CALL * number))
        for _ in range(number):
            assert (await connection.answer()).status == 200
        await sending
        await connection.close()


async def test_garbage_after_a_request_does_not_get_into_its_response():
    async with http_site(wait) as site:
        connection = await site.connect()
        await connection.send(call_request("wait", seconds=0.2))
        await asyncio.sleep(0.05)
        await connection.send(b"nonsense\r\n\r\n")
        answer = await connection.answer()
        rest = await connection.answer()
        assert await connection.ends()
        await connection.close()

    assert b"waited" in answer.body
    assert rest.status == 400


async def test_requests_on_one_connection_do_not_share_a_context():
    noted: ContextVar[str] = ContextVar("noted", default="nothing")

    @tool
    async def note(text: str) -> str:
        """Say what was noted before, and note another."""
        before = noted.get()
        noted.set(text)
        return before

    async with http_site(note) as site:
        connection = await site.connect()
        await connection.send(b"".join(call_request("note", text=text) for text in "abc"))
        together = [await connection.answer() for _ in range(3)]
        await connection.send(call_request("note", text="d"))
        alone = await connection.answer()
        await connection.close()

    said = [each.json["result"]["content"][0]["text"] for each in (*together, alone)]
    assert said == ["nothing"] * 4


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}], ids=["direct", "through the SDK"])
async def test_requests_that_come_together_are_each_for_their_own_user(meta):
    def asking(user: str) -> bytes:
        return call_request("who", ("Authorization", f"Bearer {user}")) if not meta else _with_progress(user)

    async with http_site(who, token=lambda shown: shown) as site:
        connection = await site.connect()
        await connection.send(asking("ada") + asking("bob") + call_request("who") + asking("ada"))
        answers = [await connection.answer() for _ in range(4)]
        await connection.close()

    assert answers[2].status == 401
    users = [each.json["result"]["content"][0]["text"] for each in (answers[0], answers[1], answers[3])]
    assert users == ["ada", "bob", "ada"]


def _with_progress(user: str) -> bytes:
    from tests.gateway.mcp.stdio_peer import META

    authorization = ("Authorization", f"Bearer {user}")
    return modern_request(
        "tools/call", 1, authorization, name="who", arguments={}, _meta={**META, "progressToken": "p"}
    )


# Room for others


async def test_the_client_with_the_most_connections_makes_room():
    async with http_site(add, limits=ConnectionLimits(max_connections=4, stop_timeout=0.2)) as site:
        modest = await site.connect()  # the longest idle of all
        greedy = [await _connect_from("127.0.0.2", site) for _ in range(6)]
        assert all(await asyncio.gather(*(each.ends() for each in greedy[:3])))

        assert await is_served(modest)
        for each in greedy[3:]:
            assert await is_served(each)
        for each in (modest, *greedy):
            await each.close()


async def _connect_from(address: str, site: HttpSite) -> RawConnection:
    return RawConnection(*await asyncio.open_connection("127.0.0.1", site.port, local_addr=(address, 0)))


# Answers


async def test_small_packets_are_sent_at_once():
    seen = []

    async def look(request: Any) -> Response:
        connection = socket.socket(fileno=_server_side(request.client.port))
        seen.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        connection.detach()
        return PlainTextResponse("seen")

    app = gateway.mcp.app(Runtime(add))
    app.router.routes.insert(0, Route("/look", look))
    async with serve_app(app) as site:
        answer = await site.ask(request(b"", method="GET", path="/look"))

    assert (answer.body, seen) == (b"seen", [1])


def _server_side(client_port: int) -> int:
    """The descriptor of the socket whose other end has this port."""
    import psutil

    found = psutil.Process().net_connections("tcp")
    return next(each.fd for each in found if each.raddr and each.raddr.port == client_port)


async def test_a_refusal_is_sent_before_the_body_has_arrived():
    async with http_site(add) as site:
        answer = await site.ask(request(b"x" * 100, host="example.org")[:-100])

    assert answer.status == 421


async def test_a_connection_goes_on_after_a_refused_body_has_come():
    refused = request(b"x" * 100_000, host="example.org")
    async with http_site(add) as site:
        connection = await site.connect()
        await connection.send(refused[:50_000])
        assert (await connection.answer()).status == 421
        await connection.send(refused[50_000:])
        assert await is_served(connection)
        await connection.close()


async def test_a_refused_body_that_does_not_come_is_not_waited_for(monkeypatch):
    async with http_site(add, limits=ConnectionLimits(linger_timeout=2, stop_timeout=0.2)) as site:
        connection = await site.connect()
        with stopped_clock(monkeypatch) as time:
            await connection.send(request(b"x" * 100, host="example.org")[:-100])
            assert (await connection.answer()).status == 421
            await time.advance(3)
            assert await connection.ends()
        await connection.close()


async def test_routes_added_to_the_app_are_served_as_well():
    app = gateway.mcp.app(Runtime(add))
    async with serve_app(app) as site:
        before = await site.ask(request(b"", method="GET", path="/health"))
        app.router.routes.insert(0, Route("/health", lambda _: PlainTextResponse("well")))
        after = await site.ask(request(b"", method="GET", path="/health"))
        called = await site.ask(CALL)

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
    async with serve_app(app) as site:
        connection = await site.connect()
        await connection.send(request(b"{}", path=path))
        come = await asyncio.wait_for(connection.reader.read(), TIMEOUT_SECONDS)
        await connection.close()

    assert come.partition(b"\r\n\r\n")[2] == wanted
    assert b"evil" not in come


async def test_without_httptools_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.http.server.find_spec", lambda name: None)

    with pytest.raises(DefinitionError, match=r"\.\[mcp,server\]"):
        await gateway.mcp.listen(gateway.mcp.app(Runtime(add)), gateway.mcp.bind_sockets("127.0.0.1", 0))


@pytest.mark.parametrize("parser", ["h11", "httptools"])
@pytest.mark.parametrize(
    "data",
    [CHUNKED + LENGTH + b"\r\n" + CHUNKS, HEAD + b"Transfer-Encoding: chunked\r\n" + CHUNKS],
    ids=["length last", "length first"],
)
async def test_an_app_in_another_server_refuses_a_request_with_two_lengths_and_closes_the_connection(parser, data):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with Runtime(add) as runtime:
            config = uvicorn.Config(gateway.mcp.app(runtime), http=parser, log_config=None)
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve([listener]))
            reader, writer = await asyncio.open_connection(*listener.getsockname())  # served as soon as it is up
            writer.write(data + CALL)
            come = await asyncio.wait_for(reader.read(), TIMEOUT_SECONDS)
            writer.close()
            server.should_exit = True
            await serving

    assert come.startswith(b"HTTP/1.1 400")
    assert come.lower().count(b"connection: close") == 1
    assert come.count(b"HTTP/1.1 ") == 1
