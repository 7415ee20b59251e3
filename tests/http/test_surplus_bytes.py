"""A server that sends more than its response: the rest must not become the response to the next request."""

import ssl

import pytest
import trustme
from httpcore2 import AsyncNetworkStream

from surehand.http.low_latency import connect_low_latency
from surehand.http.settings import HttpSettings
from surehand.http.surplus_bytes import FULL_BUFFER_BYTES, SurplusDetectingStream
from surehand.http.transport import GuardedClient
from tests.http.server import chunked, online, reply

FORGED = reply("forged")
NO_CONTENT = reply(status=204, reason="No Content", content_length=None)
NOT_MODIFIED = reply(status=304, reason="Not Modified", content_length=None)


def sized(total):
    """A response of so many bytes, its head included."""
    head = len(reply(b"", content_length=f"{total:06}"))
    response = reply(b"x" * (total - head), content_length=f"{total - head:06}")
    assert len(response) == total
    return response


RESPONSES = {
    "content-length": ("GET", reply("first")),
    "empty body": ("GET", reply()),
    "chunked": ("GET", chunked(b"first", b"second")),
    "chunked with a trailer": ("GET", chunked(b"first").removesuffix(b"\r\n") + b"X-Checksum: 1\r\n\r\n"),
    "204": ("POST", NO_CONTENT),
    "304": ("GET", NOT_MODIFIED),
    "HEAD": ("HEAD", reply(content_length=5_000_000)),
    "after a 100": ("GET", b"HTTP/1.1 100 Continue\r\n\r\n" + reply("first")),
    "one TLS record": ("GET", sized(16 * 1024)),
    "one read of httpcore2": ("GET", sized(64 * 1024)),
    "one read of uvloop": ("GET", sized(256_000)),
    "one read of asyncio": ("GET", sized(256 * 1024)),
}
SURPLUS = {"a response": FORGED, "one byte": b"H", "a line break": b"\r\n", "much": FORGED * 10_000}


@pytest.fixture(scope="module")
def tls():
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("site.test").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return {"tls": server, "verify": client}


async def exchange(client, method, url):
    if isinstance(client, GuardedClient):
        return (await client.request(method, url)).content
    return (await client.request(method, url)).body


def guarded_client(**settings):
    return GuardedClient(HttpSettings(**settings))


def low_latency_client(dialer, **settings):
    """The client of an MCP connection."""

    async def dial(address, port, timeout):
        return await connect_low_latency("127.0.0.1", dialer.leads[address].port, timeout)

    return GuardedClient(HttpSettings(dialer=dial, **settings))


CLIENTS = {"Client": {}, "GuardedClient": {"make": guarded_client}, "low latency": {"make": low_latency_client}}


@pytest.fixture(params=CLIENTS.values(), ids=CLIENTS)
def kind(request):
    return request.param


@pytest.fixture(params=["http", "https"])
def scheme(request):
    return request.param


@pytest.mark.parametrize("surplus", SURPLUS.values(), ids=SURPLUS)
@pytest.mark.parametrize(("method", "response"), RESPONSES.values(), ids=RESPONSES)
async def test_a_connection_with_surplus_bytes_is_not_used_again(method, response, surplus, kind, scheme, tls):
    def answer(asked):
        return response + surplus if asked.path == "/1" else reply("honest")

    options = tls if scheme == "https" else {}
    async with online(answer, **options, **kind) as (server, client):
        await exchange(client, method, f"{scheme}://site.test/1")

        assert await exchange(client, "GET", f"{scheme}://site.test/2") == b"honest"
        assert server.connections == 2


# A larger response may fill a receive buffer, after which more bytes may be waiting unseen.
WITHIN_BUFFER = {name: given for name, given in RESPONSES.items() if len(given[1]) < FULL_BUFFER_BYTES}


@pytest.mark.parametrize(("method", "response"), WITHIN_BUFFER.values(), ids=WITHIN_BUFFER)
async def test_a_connection_without_surplus_bytes_is_used_again(method, response, kind, scheme, tls):
    options = tls if scheme == "https" else {}
    async with online(lambda asked: response, **options, **kind) as (server, client):
        for _ in range(3):
            await exchange(client, method, f"{scheme}://site.test/")

        assert server.connections == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_a_response_in_small_pieces_leaves_its_connection_usable(size):
    response = chunked(b"first", b"second")

    async def answer(asked):
        for start in range(0, len(response), size):
            yield response[start : start + size]

    async with online(answer) as (server, client):
        for _ in range(3):
            assert (await client.request("GET", "http://site.test/")).body == b"firstsecond"

        assert server.connections == 1


async def test_a_response_that_ends_with_its_connection_is_whole():
    async def answer(asked):
        yield b"HTTP/1.1 200 OK\r\n\r\nall of it"
        yield None

    async with online(answer) as (server, client):
        for _ in range(2):
            assert (await client.request("GET", "http://site.test/")).body == b"all of it"

        assert server.connections == 2


async def test_a_connection_that_the_server_has_closed_is_not_used_again():
    async def answer(asked):
        yield reply("x")
        yield None

    async with online(answer) as (server, client):
        for _ in range(3):
            assert (await client.request("GET", "http://site.test/")).body == b"x"

        assert server.connections == 3


class Received(AsyncNetworkStream):
    """A stream from which these pieces come, and then its end."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)

    async def read(self, max_bytes, timeout=None):
        return self.pieces.pop(0) if self.pieces else b""

    def get_extra_info(self, info):
        return False if info == "is_readable" else None


async def test_the_last_byte_is_handed_out_alone_and_only_when_asked_for():
    stream = SurplusDetectingStream(Received(b"abc", b"d", b"ef"))

    seen = []
    while data := await stream.read(100):
        seen.append((data, stream.get_extra_info("is_readable")))

    assert seen == [(b"ab", True), (b"c", False), (b"d", False), (b"e", True), (b"f", False)]
    assert await stream.read(100) == b""


async def test_no_more_is_handed_out_than_was_asked_for():
    stream = SurplusDetectingStream(Received(b"abcdef"))

    assert [await stream.read(2) for _ in range(5)] == [b"ab", b"cd", b"e", b"f", b""]


async def test_after_a_full_receive_buffer_more_may_be_waiting_unseen():
    full = b"x" * FULL_BUFFER_BYTES
    stream = SurplusDetectingStream(Received(full, b"rest"))

    assert len(await stream.read(len(full))) == len(full) - 1
    assert await stream.read(100) == b"x"
    assert stream.get_extra_info("is_readable") is True
    assert [await stream.read(100), await stream.read(100)] == [b"res", b"t"]
    assert stream.get_extra_info("is_readable") is False
