"""A runtime served over HTTP: authentication, hosts and origins, sessions, time limits, shutdown."""

import asyncio
import os
import signal
import socket
import threading
from contextlib import suppress
from functools import partial

import pytest
from mcp import Client
from mcp_types import ElicitResult
from starlette.applications import Starlette
from starlette.routing import Mount

from surehand import Context, DefinitionError, Runtime, gateway, tool
from surehand.gateway.mcp.http import app as web
from surehand.gateway.mcp.http import sessions
from surehand.gateway.mcp.http.admission import Admission
from surehand.gateway.mcp.http.connection import ClientConnection
from surehand.gateway.mcp.http.connection_table import ConnectionLimits
from surehand.gateway.mcp.http.server import bind_sockets
from tests.gateway.mcp.http_peer import (
    HANDSHAKE_VERSION,
    MODERN_VERSION,
    HttpSite,
    call_request,
    http_site,
    modern_request,
    request,
    serve_app,
)
from tests.gateway.mcp.raw_client import eventually
from tests.gateway.mcp.sdk_clients import ERAS
from tests.gateway.mcp.stdio_peer import META, TIMEOUT_SECONDS, call, message
from tests.gateway.mcp.stopped_clock import StoppedClock, stopped_clock


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def who(ctx: Context) -> str:
    """Say who asks."""
    return str(ctx.user)


ENDED: list[str] = []


@tool
async def wait(name: str = "") -> str:
    """Wait for long."""
    try:
        await asyncio.sleep(60)
    finally:
        ENDED.append(name)
    return name


def bearer(token: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {token}"


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_of_either_protocol_is_served(era):
    async with http_site(add) as site, Client(site.url, mode=era) as client:
        listed = await client.list_tools()
        called = await client.call_tool("add", {"a": 1, "b": 2})

    assert [each.name for each in listed.tools] == ["add"]
    assert called.structured_content == {"result": 3}


async def test_head_and_body_of_an_answer_come_at_once_and_again_over_the_same_connection():
    async with http_site(add) as site:
        connection = await site.connect()
        for number in range(5):
            await connection.send(call_request("add", id=number, a=1, b=number))
            came = await asyncio.wait_for(connection.reader.read(1 << 16), TIMEOUT_SECONDS)

            assert came.startswith(b"HTTP/1.1 200")
            assert b'"structuredContent"' in came
            assert b"uvicorn" not in came
        await connection.close()


REFUSED = [
    [],
    [("Authorization", "")],
    [("Authorization", "Bearer")],
    [("Authorization", "Bearer ")],
    [("Authorization", "Basic czNjcmV0")],
    [("Authorization", "s3cret")],
    [bearer("s3cre")],
    [bearer("s3crets")],
    [bearer("S3CRET")],
    [bearer("s3cret"), bearer("s3cret")],
    [bearer("s3cret\xff")],
]


@pytest.mark.parametrize(
    "token", ["s3cret", lambda shown: "ada" if shown == "s3cret" else None], ids=["text", "function"]
)
async def test_requests_without_the_token_are_refused_without_a_reason(token):
    async with http_site(add, token=token) as site:
        answers = [await site.ask(call_request("add", *headers, a=1, b=1)) for headers in REFUSED]
        answers += [await site.ask(request(b"", method=method)) for method in ("GET", "DELETE")]
        served = await site.ask(call_request("add", ("Authorization", "bearer s3cret"), a=1, b=1))

    assert {(each.status, each.headers["www-authenticate"], each.body) for each in answers} == {
        (401, "Bearer", b'{"error":"A valid bearer token is needed."}')
    }
    assert served.status == 200


async def test_calls_have_the_user_of_the_token():
    async def asked(shown: str) -> str | None:
        await asyncio.sleep(0)
        return shown.removesuffix("-token") if shown.endswith("-token") else None

    async with http_site(who, token=asked, user="nobody") as site:
        ada = await site.ask(call_request("who", bearer("ada-token")))
        bob = await site.session(bearer("bob-token"))

        assert ada.json["result"]["content"][0]["text"] == "ada"
        assert (await site.calls(bob, "who")).json["result"]["content"][0]["text"] == "bob"


async def test_the_id_of_another_users_session_reveals_nothing_about_it():
    begun, end = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await end.wait()
        return "waited"

    async with http_site(wait, token=lambda shown: shown) as site:
        ada = await site.session(bearer("ada"))
        running = asyncio.create_task(site.calls(ada, "wait"))
        await asyncio.wait_for(begun.wait(), TIMEOUT_SECONDS)
        told = [
            await site.ask(request(call(number, "wait"), bearer("bob"), *ada[1:]))  # the first of them runs
            for number in (1, 2)
        ]
        end.set()
        answered = await running

    assert [each.status for each in told] == [404, 404]
    assert answered.status == 200


async def test_with_a_single_token_calls_have_the_user_of_the_option():
    async with http_site(who, token="s3cret", user="ada") as site:
        answer = await site.ask(call_request("who", bearer("s3cret")))

    assert answer.json["result"]["content"][0]["text"] == "ada"


async def test_a_session_is_for_those_alone_who_opened_it():
    async with http_site(who, token=lambda shown: shown) as site:
        ada = await site.session(bearer("ada"))
        others = (bearer("bob"), *ada[1:])

        assert (await site.calls(others, "who")).status == 404
        assert (await site.ask(request(b"", *others, method="DELETE"))).status == 404
        assert (await site.calls(ada, "who")).status == 200


async def test_a_failing_token_function_refuses_the_request():
    def broken(shown: str) -> str:
        raise RuntimeError("the database at 10.0.0.1 is away")

    async with http_site(add, token=broken) as site:
        answer = await site.ask(call_request("add", bearer("x"), a=1, b=1))

    assert answer.status == 503
    assert b"10.0.0.1" not in answer.body


@pytest.mark.parametrize("given", [{"name": "ada"}, 7, True, b"ada"])
async def test_a_token_function_that_returns_no_name_refuses_all_requests_and_is_logged(given, caplog):
    async with http_site(add, token=lambda shown: given) as site:
        answer = await site.ask(call_request("add", bearer("x"), a=1, b=1))

    assert answer.status == 503
    assert f"must return a user's name or None, got {type(given).__name__}." in caplog.text


async def test_refusals_are_logged_once_a_minute_of_each_kind(caplog):
    async with http_site(add, token="s3cret") as site:
        for _ in range(3):
            await site.ask(call_request("add", bearer("x"), a=1, b=1))
            await site.ask(call_request("add", ("Host", "evil.test"), a=1, b=1))
            await site.ask(call_request("add", ("Origin", "http://evil.test"), a=1, b=1))

    told = [record.getMessage() for record in caplog.records if record.name == "surehand"]
    assert len(told) == 3
    assert told[0] == "A request without a valid token was refused (401)."
    assert told[1].startswith("A request for the host 'evil.test' was refused (421).")
    assert told[2].startswith("A request from the origin 'http://evil.test' was refused (403).")


@pytest.mark.parametrize("token", ["", " x", "a\nb", "é"])
def test_a_token_that_no_header_could_hold_is_refused_at_once(token):
    with pytest.raises(DefinitionError, match="token"):
        gateway.mcp.app(Runtime(add), token=token)


@pytest.mark.parametrize("options", [{"path": "mcp"}, {"hosts": "example.org"}, {"hosts": ["a b"]}, {"origins": ["x"]}])
def test_invalid_options_are_definition_errors(options):
    with pytest.raises(DefinitionError):
        gateway.mcp.app(Runtime(add), **options)


HOSTS = {
    "localhost": 200, "LOCALHOST:99": 200, "127.0.0.1": 200, "127.0.0.1:8765": 200, "[::1]:1": 200, "tools.test": 200,
    "tools.test:81": 200, "api.test:8443": 200, "api.test": 421, "evil.test": 421, "localhost.evil.test": 421,
    "127.0.0.1@evil.test": 421, "127.0.0.1.": 421, "127.0.0.1:x": 421, "localhost:123456": 421, "0.0.0.0": 421,
}  # fmt: skip
ORIGINS = {
    "http://localhost": 200, "http://localhost:3000": 200, "https://127.0.0.1:1": 200, "https://tools.test": 200,
    "http://tools.test": 403, "https://tools.test.evil.test": 403, "null": 403, "http://evil.test": 403,
    "http://localhost.evil.test": 403, "http://localhost:3000/": 403, "file://": 403, "http://localhost@evil.test": 403,
}  # fmt: skip


async def test_other_hosts_and_origins_than_known_ones_are_refused():
    async with http_site(add, hosts=["tools.test", "api.test:8443"], origins=["https://tools.test"]) as site:
        hosts = {each: (await site.ask(call_request("add", ("Host", each), a=1, b=1))).status for each in HOSTS}
        origins = {each: (await site.ask(call_request("add", ("Origin", each), a=1, b=1))).status for each in ORIGINS}
        twice = await site.ask(call_request("add", ("Host", "localhost"), ("Host", "evil.test"), a=1, b=1))
        both = await site.ask(
            call_request("add", ("Origin", "http://localhost"), ("Origin", "http://evil.test"), a=1, b=1)
        )
        unknown = await site.ask(request(b"", ("Mcp-Session-Id", "x"), method="GET", host="evil.test"))

    assert hosts == HOSTS
    assert origins == ORIGINS
    assert (twice.status, both.status, unknown.status) == (400, 403, 421)


def preflight(origin: str, *asked: str, method: str = "POST") -> bytes:
    """What a browser asks before it lets a page send a request."""
    about = ("Access-Control-Request-Method", method), ("Access-Control-Request-Headers", ", ".join(asked))
    return request(b"", ("Origin", origin), *about, method="OPTIONS")


SENT = (
    "authorization", "content-type", "last-event-id", "mcp-method", "mcp-name", "mcp-param-city",
    "mcp-protocol-version", "mcp-session-id",
)  # fmt: skip
PAGE = "https://tools.test"


@pytest.mark.parametrize("page", [PAGE, "http://localhost:6274"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_preflight_request_is_answered_without_a_token(page, method):
    async with http_site(add, origins=[PAGE], token="x") as site:
        answer = await site.ask(preflight(page, *SENT, method=method))

    allowed = {each.strip() for each in answer.headers["access-control-allow-headers"].split(",")}
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == page
    assert method in answer.headers["access-control-allow-methods"].split(", ")
    assert allowed >= set(SENT)
    assert "access-control-allow-credentials" not in answer.headers


async def test_a_page_that_may_talk_to_a_server_can_read_its_answers():
    async with http_site(add, origins=[PAGE], token="x") as site:
        known = await site.session(("Origin", PAGE), bearer("x"))
        answers = [
            await site.ask(call_request("add", ("Origin", PAGE), bearer("x"), a=1, b=1)),
            await site.calls(known, "add", a=1, b=1),
            await site.ask(call_request("add", ("Origin", PAGE), a=1, b=1)),
        ]

    assert [each.status for each in answers] == [200, 200, 401]
    assert {each.headers["access-control-allow-origin"] for each in answers} == {PAGE}
    assert {each.headers["vary"] for each in answers} == {"Origin"}
    assert all("mcp-session-id" in each.headers["access-control-expose-headers"].lower() for each in answers)


async def test_other_origins_and_programs_get_no_cors_headers():
    async with http_site(add, origins=[PAGE]) as site:
        answers = [
            await site.ask(preflight("https://evil.test", *SENT)),
            await site.ask(call_request("add", ("Origin", "https://evil.test"), a=1, b=1)),
            await site.ask(call_request("add", a=1, b=1)),
            await site.ask(request(b"", method="OPTIONS")),
        ]

    assert [each.status for each in answers] == [403, 403, 200, 405]
    assert not any(name.startswith("access-control") for each in answers for name in each.headers)


async def test_any_host_can_be_let_in():
    async with http_site(add, hosts=["*"], origins=["*"], token="x") as site:
        answer = await site.ask(
            call_request("add", ("Host", "a.test"), ("Origin", "http://b.test"), bearer("x"), a=1, b=1)
        )

    assert answer.status == 200


@pytest.mark.parametrize("has_answer", [False, True], ids=["at once", "once it is refused"])
async def test_a_malformed_body_that_is_not_read_is_not_an_internal_error(has_answer, caplog):
    head = request(b"", ("Transfer-Encoding", "chunked")).replace(b"Content-Length: 0\r\n", b"")
    async with http_site(add, token="secret") as site:
        connection = await site.connect()
        await connection.send(head if has_answer else head + b"ZZ\r\n")
        answer = await connection.answer()
        if has_answer:
            await connection.send(b"ZZ\r\n")
        ended = await connection.ends()
        await connection.close()

    assert answer.status == 401
    assert ended
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_other_paths_are_404_and_other_methods_405():
    async with http_site(add, path="/tools/mcp") as site:
        statuses = {
            path: (await site.ask(request(b"{}", path=path))).status
            for path in ("/", "/mcp", "/tools/mcp/x", "/tools/../mcp", "//tools/mcp", "/tools/mcp/", "/tools/mcp?x=1")
        }
        methods = {
            method: await site.ask(request(b"", method=method, path="/tools/mcp"))
            for method in ("PUT", "PATCH", "OPTIONS", "TRACE")
        }
        nonsense = await site.ask(request(b"", method="NONSENSE", path="/tools/mcp"))

    assert statuses == dict.fromkeys(
        ("/", "/mcp", "/tools/mcp/x", "/tools/../mcp", "//tools/mcp"), 404
    ) | dict.fromkeys(("/tools/mcp/", "/tools/mcp?x=1"), 400)
    assert {each.status for each in methods.values()} == {405}
    assert nonsense.status == 400
    assert methods["PUT"].headers["allow"] == "GET, POST, DELETE"


WRONG = [
    b"",
    b"nonsense",
    b"\xff",
    b"[]",
    b"{}",
    b'{"jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"result":5}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}',
]


@pytest.mark.parametrize("era", [HANDSHAKE_VERSION, MODERN_VERSION])
async def test_malformed_messages_are_refused_without_details_of_the_machine(era):
    async with http_site(add) as site:
        known = (
            await site.session()
            if era == HANDSHAKE_VERSION
            else (("MCP-Protocol-Version", MODERN_VERSION), ("Mcp-Method", "ping"))
        )
        for body in WRONG:
            answer = await site.ask(request(body, *known))

            if body == b"{}" and era == MODERN_VERSION:  # a notification without a method is one that nobody answers
                continue
            assert answer.status == 400, body
            assert answer.error in (-32700, -32600), body
            for word in (b"pydantic", b"/", b"python", b"line 1 column 1 (char 0)"):
                assert word not in answer.body.lower().replace(b"json-rpc", b""), answer.body


async def test_an_overlarge_body_is_refused_with_any_framing():
    async with http_site(add, limits=ConnectionLimits(linger_timeout=60, stop_timeout=0.2)) as site:
        large = await site.ask(request(b"x" * (4 << 20) + b"x"))
        claimed = await site.ask(request(b"", ("Content-Length", str(10**15))))
        chunks = request(b"", ("Transfer-Encoding", "chunked")).replace(b"Content-Length: 0\r\n", b"")
        chunked = await site.ask(chunks + (b"100000\r\n" + b"x" * (1 << 20) + b"\r\n") * 5 + b"0\r\n\r\n")
        served = await site.ask(call_request("add", a=1, b=1))

    assert (large.status, claimed.status, chunked.status, served.status) == (413, 413, 413, 200)


async def test_the_header_that_names_a_task_has_to_name_the_one_that_is_asked_for():
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    async with http_site(add) as site:
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            wrong = await site.ask(modern_request(method, 5, ("Mcp-Name", "other"), taskId="one", _meta=meta))
            twice = await site.ask(
                modern_request(method, 5, ("Mcp-Name", "one"), ("Mcp-Name", "one"), taskId="one", _meta=meta)
            )
            missing = await site.ask(modern_request(method, 5, taskId="", _meta=meta))
            right = await site.ask(modern_request(method, 5, taskId="one", inputResponses={}, _meta=meta))
            coded = await site.ask(
                modern_request(method, 5, ("Mcp-Name", "=?base64?b25l?="), taskId="one", inputResponses={}, _meta=meta)
            )

            for refused in (wrong, twice, missing):
                assert (refused.status, refused.error, refused.json["id"]) == (400, -32020, 5)
            assert (right.error, coded.error) == (-32602, -32602)


@pytest.mark.parametrize(
    ("headers", "status", "error"),
    [
        ([("Mcp-Method", "tools/list")], 400, -32020),
        ([("Mcp-Name", "sub")], 400, -32020),
        ([("Mcp-Name", "add"), ("Mcp-Name", "add")], 400, -32020),
        ([("MCP-Protocol-Version", "2099-01-01")], 400, -32020),
        ([("Accept", "application/json")], 406, None),
        ([("Content-Type", "text/plain")], 400, None),
    ],
)
async def test_headers_that_do_not_fit_are_refused(headers, status, error):
    async with http_site(add) as site:
        answer = await site.ask(call_request("add", *headers, a=1, b=1))

    assert answer.status == status
    assert error is None or answer.error == error


async def test_unknown_and_ended_sessions_are_not_found():
    async with http_site(add) as site:
        known = await site.session()
        unknown = (("Mcp-Session-Id", "x" * 32), ("MCP-Protocol-Version", HANDSHAKE_VERSION))

        assert (await site.calls(unknown, "add", a=1, b=1)).status == 404
        assert (await site.ask(request(call(1, "add", a=1, b=1)))).status == 400
        assert (await site.ask(request(b"", *known, method="DELETE"))).status == 200
        assert (await site.calls(known, "add", a=1, b=1)).status == 404


async def test_the_number_of_sessions_is_limited_until_one_ends(monkeypatch):
    monkeypatch.setattr(web, "MAX_SESSIONS", 2)
    about = {"protocolVersion": HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    async with http_site(add) as site:
        first, second = await site.session(), await site.session()
        refused = await site.ask(request(message("initialize", 0, **about)))

        assert refused.status == 503
        assert (await site.calls(second, "add", a=1, b=1)).status == 200
        assert (await site.ask(call_request("add", a=1, b=1))).status == 200
        assert (await site.ask(request(b"", *first, method="DELETE"))).status == 200
        assert await site.session()


async def test_an_anonymous_client_that_opens_ever_more_sessions_loses_its_own(monkeypatch):
    monkeypatch.setattr(sessions, "MAX_SESSIONS_PER_USER", 2)
    async with http_site(add) as site:
        first, second = await site.session(), await site.session()
        assert (await site.calls(first, "add", a=1, b=1)).status == 200
        third = await site.session()

        # The second one was idle for longest.
        assert (await site.calls(second, "add", a=1, b=1)).status == 404
        assert (await site.calls(first, "add", a=1, b=1)).status == 200
        assert (await site.calls(third, "add", a=1, b=1)).status == 200


async def test_an_idle_session_is_ended(monkeypatch):
    monkeypatch.setattr(sessions, "SESSION_IDLE_TIMEOUT_SECONDS", 3)
    async with http_site(add) as site:
        with stopped_clock(monkeypatch) as time:
            known = await site.session()
            await time.advance(4)

            assert (await site.calls(known, "add", a=1, b=1)).status == 404


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_is_asked_over_http(era):
    @tool(confirm=True)
    async def delete(name: str) -> str:
        """Delete a file."""
        return f"{name} is gone"

    async def yes(*_: object) -> ElicitResult:
        return ElicitResult(action="accept", content={})

    async with http_site(delete) as site, Client(site.url, mode=era, elicitation_callback=yes) as client:
        assert (await client.call_tool("delete", {"name": "x"})).content[0].text == "x is gone"


async def test_a_stream_that_broke_off_is_begun_anew():
    async with http_site(add) as site:
        known = await site.session()
        connection = await site.connect()
        await connection.send(request(b"", ("Last-Event-ID", "7"), *known, method="GET"))
        head = await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), TIMEOUT_SECONDS)
        await connection.close()

    assert head.startswith(b"HTTP/1.1 200")


async def test_an_id_that_is_in_use_in_a_session_is_refused():
    async with http_site(wait, add) as site:
        known = await site.session()
        connection = await site.connect()
        await connection.send(request(call(1, "wait", name="first"), *known))
        await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), TIMEOUT_SECONDS)
        refused = await site.calls(known, "add", a=1, b=1)
        await connection.close()

    assert (refused.status, refused.error) == (400, -32600)


async def test_a_session_cannot_have_any_number_of_requests_run(monkeypatch):
    monkeypatch.setattr(web, "Admission", partial(Admission, max_requests_per_session=3))
    async with http_site(wait, add) as site:
        known = await site.session()
        for number in range(3):
            connection = await site.connect()
            await connection.send(request(call(f"call {number}", "wait"), *known))
            await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), TIMEOUT_SECONDS)
            await connection.close()

        refused = await site.calls(known, "add", a=1, b=1)

        assert refused.error == -32000
        assert (await site.calls(await site.session(), "add", a=1, b=1)).json["result"]["isError"] is False
        assert (await site.ask(call_request("add", a=1, b=1))).status == 200


PROMPT = ConnectionLimits(head_timeout=2, body_timeout=3, linger_timeout=2, keep_alive_timeout=2, stop_timeout=0.2)


async def dribble(site: HttpSite, data: bytes, time: StoppedClock) -> bool:
    """Whether the connection of a client that sends a byte at a time is closed before it is through."""
    connection = await site.connect()
    try:
        for each in data:
            await connection.send(bytes([each]))
            await time.advance(0.2)
    except ConnectionError:
        return True
    finally:
        await connection.close()
    return False


async def test_clients_that_take_their_time_are_not_waited_for(monkeypatch):
    whole = call_request("add", a=1, b=1)
    async with http_site(add, limits=PROMPT) as site:
        with stopped_clock(monkeypatch) as time:
            silent, part, idle = await site.connect(), await site.connect(), await site.connect()
            await part.send(whole[:-5])
            await idle.send(whole)
            assert (await idle.answer()).status == 200

            ended = [await dribble(site, whole, time), await dribble(site, whole[:300] + whole, time)]
            await time.advance(4)
            ended += [await each.ends() for each in (silent, part, idle)]
            for each in (silent, part, idle):
                await each.close()

            assert ended == [True] * 5

            late = await site.connect()
            await late.send(whole + whole[:-5])  # the second one comes with the first, but not all of it
            assert (await late.answer()).status == 200
            await time.advance(4)
            assert await late.ends()
            await late.close()
            assert (await site.ask(whole)).status == 200


async def test_a_client_that_does_not_read_its_answer_is_given_up(monkeypatch):
    given_up, end = threading.Event(), ClientConnection.abort

    def ending(self: ClientConnection) -> None:
        end(self)
        given_up.set()

    monkeypatch.setattr(ClientConnection, "abort", ending)

    @tool
    async def much() -> str:
        """Say much."""
        return "x" * MUCH

    def asked(port: int) -> int:
        """How much of an answer comes if most of it is read late."""
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as client:
            client.sendall(call_request("much"))
            got = len(client.recv(1))
            assert given_up.wait(TIMEOUT_SECONDS)
            with suppress(ConnectionError):
                while data := client.recv(1 << 20):
                    got += len(data)
        return got

    limits = ConnectionLimits(write_timeout=0.3, stop_timeout=0.2)
    async with http_site(Runtime(much, defaults={"max_output": 2 * MUCH}), limits=limits) as site:
        assert 0 < await asyncio.to_thread(asked, site.port) < MUCH


async def test_a_client_that_does_not_read_the_end_of_its_answer_is_given_up(monkeypatch):
    """So little is left of the answer that it does not count as unread, and the connection is closed as an idle one."""
    answered, lost = asyncio.Event(), asyncio.Event()
    make, end, lose = ClientConnection.connection_made, ClientConnection.end_request, ClientConnection.connection_lost

    def made(self: ClientConnection, transport: asyncio.BaseTransport) -> None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        make(self, transport)

    def ended(self: ClientConnection) -> None:
        end(self)
        answered.set()

    def was_lost(self: ClientConnection, error: Exception | None) -> None:
        lose(self, error)
        lost.set()

    monkeypatch.setattr(ClientConnection, "connection_made", made)
    monkeypatch.setattr(ClientConnection, "end_request", ended)
    monkeypatch.setattr(ClientConnection, "connection_lost", was_lost)

    @tool
    async def some() -> str:
        """Say something."""
        return "x" * 20_000

    limits = ConnectionLimits(keep_alive_timeout=5, write_timeout=5, stop_timeout=0.2)
    async with http_site(some, limits=limits) as site:
        with socket.socket() as client, stopped_clock(monkeypatch) as time:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            client.connect(("127.0.0.1", site.port))
            client.sendall(call_request("some"))
            await answered.wait()
            for _ in range(4):
                await time.advance(6)
            assert lost.is_set()


MUCH = 20_000_000


async def test_when_all_connections_are_taken_the_longest_idle_one_makes_room():
    limits = ConnectionLimits(max_connections=3, stop_timeout=0.2)
    async with http_site(add, wait, limits=limits) as site:
        busy = await site.connect()
        await busy.send(call_request("wait"))
        idle = [await site.connect() for _ in range(4)]
        served = await site.ask(call_request("add", a=1, b=1))

        assert served.status == 200
        assert all(await asyncio.gather(*(each.ends() for each in idle[:2])))
        assert not busy.reader.at_eof()
        for each in (busy, *idle):
            await each.close()


async def test_when_all_connections_wait_for_answers_no_more_are_taken():
    async with http_site(wait, limits=ConnectionLimits(max_connections=2, stop_timeout=0.2)) as site:
        busy = [await site.connect() for _ in range(2)]
        for each in busy:
            await each.send(call_request("wait"))
        await asyncio.sleep(0.1)
        another = await site.connect()

        assert await another.ends()
        for each in (*busy, another):
            await each.close()


async def test_closing_the_stream_of_an_answer_cancels_the_call():
    ENDED.clear()
    async with http_site(wait, add) as site:
        connection = await site.connect()
        await connection.send(call_request("wait", name="left"))
        await site.ask(call_request("add", a=1, b=1))
        await connection.close()
        await eventually(lambda: ENDED)

    assert ENDED == ["left"]


async def test_a_signal_ends_streams_and_calls_soon_and_leaves_nothing():
    ENDED.clear()
    runtime = Runtime(wait, add)
    before = set(os.listdir("/proc/self/fd"))
    async with http_site(runtime) as site:
        streams = [await site.connect() for _ in range(3)]
        await streams[0].send(call_request("wait", name="running"))
        await streams[1].send(modern_request("subscriptions/listen", 2, notifications={"toolsListChanged": True}))
        await streams[2].send(request(b"", *await site.session(), method="GET"))
        for each in streams[1:]:
            await asyncio.wait_for(each.reader.readuntil(b"\r\n\r\n"), TIMEOUT_SECONDS)
        await site.ask(call_request("add", a=1, b=1))
        os.kill(os.getpid(), signal.SIGTERM)

        assert site.task is not None
        await asyncio.wait_for(asyncio.shield(site.task), TIMEOUT_SECONDS)

        assert all([await each.ends() for each in streams])
        for each in streams:
            await each.close()
    assert ENDED == ["running"]
    assert not runtime.is_open
    await eventually(lambda: set(os.listdir("/proc/self/fd")) <= before)


@pytest.mark.parametrize("ends", [0, 1, 2])
async def test_a_signal_ends_every_server_of_a_program(ends):
    was = signal.signal(signal.SIGTERM, ours := lambda *_: None)
    async with http_site(add) as one, http_site(add) as two, http_site(add) as three:
        tasks = [site.task for site in (one, two, three) if site.task]
        tasks[ends].cancel()
        await asyncio.wait({tasks[ends]}, timeout=TIMEOUT_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

        _, running = await asyncio.wait(tasks, timeout=TIMEOUT_SECONDS)

    assert not running
    assert signal.signal(signal.SIGTERM, was) is ours


async def test_a_runtime_that_runs_already_goes_on_afterwards():
    async with Runtime(add) as runtime:
        async with http_site(runtime) as site:
            assert (await site.ask(call_request("add", a=1, b=1))).status == 200

        assert (await runtime.call("add", {"a": 1, "b": 1})).ok


async def test_the_app_can_be_mounted_in_another_app():
    inner = gateway.mcp.app(Runtime(add))
    outer = Starlette(routes=[Mount("/tools", inner)], lifespan=lambda _: inner.router.lifespan_context(inner))
    async with serve_app(outer) as site:
        statuses = [
            (await site.ask(call_request("add", a=1, b=1).replace(b" /mcp ", path))).status
            for path in (b" /tools/mcp ", b" /mcp ", b" /tools/tools/mcp ")
        ]

    assert statuses == [200, 404, 404]


async def test_a_host_name_is_served_on_those_of_its_addresses_that_exist():
    sockets = bind_sockets("localhost", 0)
    ports = {each.getsockname()[1] for each in sockets}
    for each in sockets:
        each.close()

    assert len(ports) == 1
    assert ports != {0}


async def test_a_websocket_is_not_taken():
    async with http_site(add) as site:
        upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "x" * 22 + "==")]
        answer = await site.ask(request(b"", *upgrade, ("Sec-WebSocket-Version", "13"), method="GET"))

    assert answer.status == 400
    assert "Missing session" in answer.body.decode() or answer.error


async def test_notifications_of_the_modern_protocol_are_accepted():
    async with http_site(add) as site:
        told = await site.ask(
            request(message("notifications/cancelled", requestId=1), ("MCP-Protocol-Version", MODERN_VERSION))
        )

    assert told.status == 202
