"""The callback server: the redirect URI on this machine."""

from __future__ import annotations

import asyncio
import socket

import pytest

from surehand.core.errors import DefinitionError, Denied
from surehand.providers.mcp.auth import callback as module
from surehand.providers.mcp.auth.callback import MAX_REQUEST_BYTES, CallbackServer
from tests.http.server import port_of_nobody

AUTHORISE = "https://auth.test/authorize?client_id=1&state=right"


async def sent(callback, text, *, host=None):
    """What comes back for bytes; nothing where the connection was cut."""
    port = int(callback.redirect_uri.rpartition(":")[2].partition("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(text if isinstance(text, bytes) else _request(text, host or f"127.0.0.1:{port}"))
        return (await reader.read()).decode()
    except ConnectionError:
        return ""
    finally:
        writer.close()


def _request(target, host, method="GET"):
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_SECONDS", 20.0)


async def test_a_response_with_the_expected_state_is_accepted_once():
    async with CallbackServer.listen() as callback:
        callback.expect_state_of(AUTHORISE)
        first = await sent(callback, "/callback?code=c0de&state=right&iss=https%3A%2F%2Fauth.test")
        again = await sent(callback, "/callback?code=other&state=right")
        answer = await callback.wait_for_response()

    assert (answer.code, answer.state, answer.issuer) == ("c0de", "right", "https://auth.test")
    assert first.startswith("HTTP/1.1 200 ")
    assert again.startswith("HTTP/1.1 409 ")
    assert "c0de" not in repr(answer)


async def test_a_response_with_another_state_is_rejected_and_the_expected_one_still_accepted():
    async with CallbackServer.listen() as callback:
        before = await sent(callback, "/callback?code=evil&state=right")  # nothing was sent out yet
        callback.expect_state_of(AUTHORISE)
        for target in ("/callback?code=evil&state=wrong", "/callback?code=evil", "/callback?code=evil&state=%E9"):
            assert (await sent(callback, target)).startswith("HTTP/1.1 400 ")
        await sent(callback, "/callback?code=good&state=right")
        answer = await callback.wait_for_response()

    assert before.startswith("HTTP/1.1 400 ")
    assert answer.code == "good"


async def test_a_refusal_names_the_oauth_error_code_only_if_it_is_a_code():
    for error, told in (
        ("access_denied", r"refused \(access_denied\)\.$"),
        ("<b>no</b>", r"refused\.$"),
        ("", "refused"),
    ):
        async with CallbackServer.listen() as callback:
            callback.expect_state_of(AUTHORISE)
            await sent(callback, f"/callback?error={error}&state=right")
            with pytest.raises(Denied, match=told):
                await callback.wait_for_response()


@pytest.mark.parametrize(
    ("target", "status"),
    [("/", "404"), ("/callback/x", "404"), ("/favicon.ico", "404"), ("/..%2fcallback", "404"), ("//[", "")],
)
async def test_every_other_path_is_not_found(target, status):
    async with CallbackServer.listen() as callback:
        callback.expect_state_of(AUTHORISE)
        page = await sent(callback, f"{target}?code=1&state=right")

    assert page.startswith(f"HTTP/1.1 {status} ") if status else page == ""


async def test_other_methods_and_other_host_names_are_refused():
    async with CallbackServer.listen() as callback:
        callback.expect_state_of(AUTHORISE)
        here = callback.redirect_uri.removeprefix("http://").partition("/")[0]
        posted = await sent(callback, _request("/callback?code=1&state=right", here, "POST"))
        rebound = await sent(callback, "/callback?code=1&state=right", host="evil.test")
        nameless = await sent(callback, b"GET /callback?code=1&state=right HTTP/1.0\r\n\r\n")

    assert posted.startswith("HTTP/1.1 405 ")
    assert rebound.startswith("HTTP/1.1 404 ")
    assert nameless.startswith("HTTP/1.1 404 ")


async def test_the_page_repeats_nothing_of_the_request_and_forbids_scripts():
    async with CallbackServer.listen() as callback:
        callback.expect_state_of(AUTHORISE)
        pages = [
            await sent(callback, "/callback?code=%3Cscript%3Ealert(1)%3C/script%3E&state=no"),
            await sent(callback, "/callback?error=%3Cscript%3E&error_description=%3Cscript%3E&state=right"),
            await sent(callback, "/%3Cscript%3E"),
        ]

    for page in pages:
        assert "script" not in page
        assert "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'" in page
        assert "Referrer-Policy: no-referrer" in page
        assert "Cache-Control: no-store" in page


async def test_a_request_that_is_too_long_or_never_ends_is_dropped(monkeypatch):
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_SECONDS", 0.2)
    async with CallbackServer.listen() as callback:
        callback.expect_state_of(AUTHORISE)
        assert await sent(callback, b"GET /callback?" + b"a" * MAX_REQUEST_BYTES * 2) == ""
        assert await sent(callback, b"GET /callback?code=1&state=right HTTP/1.1\r\n") == ""
        assert await sent(callback, b"\x00\xff\r\n\r\n") != "200"


async def test_idle_connections_are_dropped_so_that_the_browser_gets_through(monkeypatch):
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_SECONDS", 0.2)
    async with CallbackServer.listen() as callback:
        callback.expect_state_of(AUTHORISE)
        port = int(callback.redirect_uri.rpartition(":")[2].partition("/")[0])
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(module.MAX_CONNECTIONS + 8)]
        await asyncio.gather(*(reader.read() for reader, _ in held), return_exceptions=True)
        monkeypatch.setattr(module, "REQUEST_TIMEOUT_SECONDS", 20.0)
        await sent(callback, "/callback?code=1&state=right")
        assert (await callback.wait_for_response()).code == "1"
        idle = await asyncio.open_connection("127.0.0.1", port)

    for _, writer in (*held, idle):
        writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_the_server_closes_when_the_waiting_task_is_cancelled():
    port = asyncio.get_running_loop().create_future()

    async def wait():
        async with CallbackServer.listen() as callback:
            port.set_result(int(callback.redirect_uri.rpartition(":")[2].partition("/")[0]))
            await callback.wait_for_response()

    waiting = asyncio.create_task(wait())
    await port
    waiting.cancel()
    await asyncio.wait({waiting})

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port.result())


async def test_a_given_port_must_be_free_but_a_preferred_port_need_not_be():
    with port_of_nobody() as port:
        with socket.create_server(("127.0.0.1", port)):
            with pytest.raises(DefinitionError, match="already in use"):
                async with CallbackServer.listen(port):
                    pass
            async with CallbackServer.listen(preferred_port=port) as callback:
                assert f":{port}/" not in callback.redirect_uri
        async with CallbackServer.listen(preferred_port=port) as callback:
            assert callback.redirect_uri == f"http://127.0.0.1:{port}/callback"
