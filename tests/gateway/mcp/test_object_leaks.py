"""Clients and servers leave no objects, no tracebacks and no requests without a response."""

import asyncio
import logging
import socket
import struct

import pytest

from surehand import Pending, Runtime, ToolError, tool
from surehand.gateway.mcp.http.connection_table import ConnectionLimits
from tests.gateway.mcp.http_peer import (
    HANDSHAKE_VERSION,
    HttpSite,
    RawConnection,
    call_request,
    http_site,
    modern_request,
    request,
)
from tests.gateway.mcp.processes import http_process
from tests.gateway.mcp.processes import surehand as surehand
from tests.gateway.mcp.stdio_peer import META, TIMEOUT_SECONDS, call, message, stdio_peer
from tests.object_leaks import count_leaked_objects

PROMPT = ConnectionLimits(stop_timeout=0.02)
TOKEN = {"progressToken": "p"}
"""Whoever wants to hear of progress goes the long way, through the library."""


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fail() -> int:
    """Fail."""
    raise ToolError("no")


@tool(confirm=True)
async def pay(amount: int) -> int:
    """Pay somebody."""
    return amount


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was written to the log that somebody would worry about."""
    return [f"{each.name}: {each.getMessage()}" for each in caplog.records if each.levelno >= logging.WARNING]


async def able(site: HttpSite) -> tuple[tuple[str, str], ...]:
    """Headers for a session of a client that can be asked."""
    about = {"name": "web", "version": "1"}
    capable = {"elicitation": {"form": {}}}
    hello = message("initialize", 0, protocolVersion=HANDSHAKE_VERSION, capabilities=capable, clientInfo=about)
    answer = await site.ask(request(hello))
    known = (("Mcp-Session-Id", answer.headers["mcp-session-id"]), ("MCP-Protocol-Version", HANDSHAKE_VERSION))
    assert (await site.ask(request(message("notifications/initialized"), *known))).status == 202
    return known


async def heard(connection: RawConnection, word: bytes) -> None:
    """Wait until this has come."""
    come = b""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while word not in come:
            more = await connection.reader.read(1 << 16)
            assert more, come
            come += more


# Objects


@pytest.mark.parametrize("meta", [{}, TOKEN])
async def test_sessions_that_have_ended_are_forgotten(meta):
    async with http_site(add) as site:

        async def session() -> None:
            known = await site.session()
            called = message("tools/call", 1, name="add", arguments={"a": 1, "b": 2}, _meta=meta)
            assert (await site.ask(request(called, *known))).status == 200
            assert (await site.ask(request(b"", *known, method="DELETE"))).status == 200

        assert await count_leaked_objects(session) == {}


async def test_sessions_that_are_left_in_the_middle_of_a_question_are_forgotten():
    async with http_site(pay) as site:

        async def session() -> None:
            known, asking = await able(site), await site.connect()
            await asking.send(request(call(1, "pay", amount=1), *known))
            await heard(asking, b"elicitation/create")
            assert (await site.ask(request(b"", *known, method="DELETE"))).status == 200
            await asking.close()

        assert await count_leaked_objects(session) == {}


@pytest.mark.parametrize("meta", [META, {**META, **TOKEN}])
async def test_requests_without_a_session_are_forgotten(meta):
    async with http_site(add) as site:

        async def ask() -> None:
            called = modern_request("tools/call", 1, name="add", arguments={"a": 1, "b": 2}, _meta=meta)
            assert (await site.ask(called)).status == 200

        assert await count_leaked_objects(ask) == {}


async def test_connections_that_are_reset_after_an_answer_are_forgotten():
    async with http_site(add, limits=PROMPT) as site:

        async def reset() -> None:
            connection = await site.connect()
            await connection.send(call_request("add", a=1, b=2))
            assert (await connection.answer()).status == 200
            opened = connection.writer.get_extra_info("socket")
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await connection.close()

        assert await count_leaked_objects(reset) == {}


@pytest.mark.parametrize("is_modern", [False, True])
async def test_conversations_over_a_pipe_are_forgotten(is_modern):
    async with Runtime(add) as runtime:

        async def converse() -> None:
            async with stdio_peer(runtime) as peer:
                if not is_modern:
                    await peer.handshake()
                assert "result" in await peer.ask(call(1, "add", is_modern, a=1, b=2))

        assert await count_leaked_objects(converse) == {}


@pytest.mark.parametrize("is_modern", [False, True])
async def test_calls_over_one_connection_are_forgotten(is_modern):
    async with http_site(add, fail) as site:
        known, connection = () if is_modern else await site.session(), await site.connect()

        async def ask() -> None:
            for name, given in (("add", {"a": 1, "b": 2}), ("fail", {})):
                await connection.send(
                    call_request(name, **given) if is_modern else request(call(1, name, **given), *known)
                )
                assert (await connection.answer()).status == 200

        assert await count_leaked_objects(ask, times=100) == {}
        await connection.close()


async def test_calls_of_a_runtime_are_forgotten_however_they_end():
    async with Runtime(add, fail, pay) as runtime:

        async def calls() -> None:
            assert (await runtime.call("add", {"a": 1, "b": 2})).ok
            assert not (await runtime.call("fail")).ok
            assert not (await runtime.call("add", {"a": "x"})).ok
            cancelled = asyncio.create_task(runtime.call("add", {"a": 1, "b": 2}))
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.wait({cancelled})
            for answer in (runtime.approve, runtime.reject):
                waits = await runtime.call("pay", {"amount": 1})
                assert isinstance(waits, Pending)
                await answer(waits.call_id)

        assert await count_leaked_objects(calls, times=100) == {}


# A server that stops

RUNNING = {
    "short": lambda known: request(call(7, "wait"), *known),
    "long": lambda known: request(message("tools/call", 7, name="wait", arguments={}, _meta=TOKEN), *known),
    "modern short": lambda _: call_request("wait", id=7),
    "modern long": lambda _: modern_request("tools/call", 7, name="wait", arguments={}, _meta={**META, **TOKEN}),
}


@pytest.mark.parametrize("kind", RUNNING)
async def test_a_server_that_stops_answers_every_request_and_logs_nothing(kind, caplog):
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async with http_site(wait, limits=PROMPT) as site:
        known, connection = await site.session(), await site.connect()
        await connection.send(RUNNING[kind](known))
        await begun.wait()
        assert site.task is not None
        site.task.cancel()
        answer = await connection.answer()
        assert (answer.status, answer.json["id"]) == (200, 7)
        assert answer.json["error"]["message"] == "The server stopped before the request completed."
        assert await connection.ends()
        await connection.close()

    assert ended.is_set()
    assert complaints(caplog) == []


async def test_a_server_that_stops_ends_its_notification_streams_and_questions(caplog):
    async with http_site(pay, limits=PROMPT) as site:
        known = await able(site)
        asking, news, listens = [await site.connect() for _ in range(3)]
        await news.send(request(b"", *known, method="GET"))
        await heard(news, b"\r\n\r\n")
        await asking.send(request(call(7, "pay", amount=1), *known))
        await heard(asking, b"elicitation/create")
        await listens.send(modern_request("subscriptions/listen", 8, notifications={"toolsListChanged": True}))
        await heard(listens, b"acknowledged")
        assert site.task is not None
        site.task.cancel()
        await heard(asking, b"The server stopped before the request completed.")
        await heard(listens, b'"resultType":"complete"')
        for each in (asking, news, listens):
            assert await each.ends()
            await each.close()

    assert complaints(caplog) == []


async def test_a_request_that_waits_for_its_token_to_be_judged_is_given_up_in_silence(caplog):
    judging = asyncio.Event()

    async def judge(token: str) -> str | None:
        judging.set()
        await asyncio.Event().wait()
        return None

    async with http_site(add, token=judge, limits=PROMPT) as site:
        connection = await site.connect()
        await connection.send(call_request("add", ("Authorization", "Bearer x"), a=1, b=2))
        await judging.wait()
        assert site.task is not None
        site.task.cancel()
        assert await connection.ends()
        await connection.close()

    assert complaints(caplog) == []


def test_a_process_that_gets_sigterm_answers_running_requests_and_prints_no_traceback(surehand):
    with http_process(surehand) as (site, _):  # which tells it to, and looks at what was printed
        known = asyncio.run(site.session())
        connection = socket.create_connection(("127.0.0.1", site.port), TIMEOUT_SECONDS)
        connection.sendall(request(call(7, "wait", seconds=60), *known))
        come = b""
        while b": ping" not in come:
            come += connection.recv(1 << 16)
    with connection:
        while more := connection.recv(1 << 16):
            come += more

    assert b"The server stopped before the request completed." in come
    assert come.endswith(b"0\r\n\r\n")


# A client that leaves

LAST = {
    "cancels": message("notifications/cancelled", requestId=1),
    "answers": {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "Connection closed"}},
    "calls": call(2, "pay", amount=2),
    "asks": message("ping", 3),
}


@pytest.mark.parametrize("last", LAST)
async def test_a_session_that_is_ended_in_the_middle_of_a_question_ends_after_its_last_message(last, caplog):
    async with http_site(pay) as site:
        known = await able(site)
        asking, saying, ending = [await site.connect() for _ in range(3)]
        await asking.send(request(call(1, "pay", amount=1), *known))
        await heard(asking, b"elicitation/create")
        saying.writer.write(request(LAST[last], *known))
        ending.writer.write(request(b"", *known, method="DELETE"))
        assert (await ending.answer()).status == 200
        assert (await saying.answer()).status == (200 if "id" in LAST[last] and "method" in LAST[last] else 202)
        await heard(asking, b"0\r\n\r\n")
        assert (await site.ask(request(call(4, "pay", amount=1), *known))).status == 404
        for each in (asking, saying, ending):
            await each.close()

    assert complaints(caplog) == []


async def test_running_requests_of_an_ended_session_get_an_error(caplog):
    async with http_site(pay) as site:
        known, asking = await able(site), await site.connect()
        await asking.send(request(call(1, "pay", amount=1), *known))
        await heard(asking, b"elicitation/create")
        assert (await site.ask(request(b"", *known, method="DELETE"))).status == 200
        await heard(asking, b"Session terminated before the request completed")
        await asking.close()

    assert complaints(caplog) == []


@pytest.mark.parametrize("gone", ["reading", "both"])
async def test_a_client_that_closes_the_pipe_during_a_question_causes_no_log_lines(gone, caplog):
    async with stdio_peer(pay) as peer:
        await peer.handshake(elicitation={"form": {}})
        await peer.send(call(1, "pay", amount=1))
        assert (await peer.receive())["method"] == "elicitation/create"
        peer.close()
        if gone == "both":
            peer.reader._transport.close()  # type: ignore[attr-defined]
        assert peer.server is not None
        await asyncio.wait_for(asyncio.shield(peer.server), TIMEOUT_SECONDS)

    assert complaints(caplog) == []
