"""Which addresses a model's requests may go to, and that they go through a proxy of the environment."""

import httpx2
import pytest

from surehand.agent.models.http_client import build_http_client
from surehand.core.errors import Denied
from tests.agent.models.byte_server import serve
from tests.agent.models.wires import WIRES, answer_events, build_model, collect, fail

IDLE_SECONDS = 5.0


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def test_only_the_address_that_a_developer_wrote_down_may_be_private():
    async with serve(b"") as written, serve(b"") as other, build_http_client(written.url, IDLE_SECONDS) as client:
        assert (await client.post(written.url, json={})).status_code == 200
        with pytest.raises(httpx2.ConnectError, match="may not be reached") as refused:
            await client.post(other.url, json={})

    assert isinstance(refused.value.__cause__, Denied)
    assert other.bodies == []


async def test_without_an_address_nothing_private_is_reached():
    async with serve(b"") as server, build_http_client(None, IDLE_SECONDS) as client:
        for url in (server.url, "http://127.0.0.1:8080/v1", "http://localhost/v1"):
            with pytest.raises(httpx2.ConnectError, match="may not be reached"):
                await client.post(url, json={})


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_redirects_elsewhere_is_not_followed(wire):
    async with serve(b"") as elsewhere:

        async def redirect(writer):
            head = f"HTTP/1.1 307 Moved\r\nlocation: {elsewhere.url}\r\ncontent-length: 0\r\n\r\n"
            writer.write(head.encode())
            await writer.drain()

        async with serve(redirect) as server:
            error = await fail(build_model(wire, server.url))

    assert "answered 307" in str(error)
    assert elsewhere.bodies == []


@pytest.mark.parametrize("wire", WIRES)
async def test_an_address_that_cannot_be_read_fails_the_request(wire):
    error = await fail(build_model(wire, "http://user:secret@localhost/v1"))

    assert str(error).startswith("The address of the model cannot be used: The URL holds a user name or password")
    assert not error.retryable


@pytest.mark.parametrize("wire", WIRES)
async def test_a_proxy_of_the_environment_is_used(wire, monkeypatch):
    async with serve(b"".join(answer_events(wire))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        _, answer = await collect(build_model(wire, "http://models.invalid/v1"))

    assert answer.text
    assert proxy.headers[0]["host"] == "models.invalid"


async def test_a_server_that_needs_no_proxy_is_reached_directly(monkeypatch):
    async with serve(b"".join(answer_events("openai"))) as server:
        monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        _, answer = await collect(build_model("openai", server.url))

    assert answer.text
