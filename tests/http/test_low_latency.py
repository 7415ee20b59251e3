"""Connections for many small requests: each leaves in one packet, and no answer waits for a delayed acknowledgement."""

import asyncio
import socket
import ssl
import struct
from contextlib import asynccontextmanager, suppress

import httpcore2
import pytest
import trustme

from surehand.http.connector import connect_with_keepalive
from surehand.http.low_latency import MAX_JOINED_BYTES, MAX_UNREAD_BYTES
from tests.http.server import port_of_nobody

pytestmark = pytest.mark.timeout(30, func_only=True)


async def exchanged(stream):
    clock = asyncio.get_running_loop().time
    began, come = clock(), b""
    await stream.write(b"head")
    await stream.write(b"body")
    while not come.endswith(b"seen"):
        come += await stream.read(1 << 16)
    return clock() - began


async def test_a_request_is_sent_in_one_packet_and_each_packet_is_acknowledged_at_once():
    """That kernel sends the second piece of an answer when ours has confirmed the first."""
    come, left = [], asyncio.Event()

    async def serve(reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        while data := await reader.read(1 << 16):
            come.append(data)
            writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\n")
            writer.write(b"seen")
        writer.close()
        left.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        stream = await connect_with_keepalive("127.0.0.1", server.sockets[0].getsockname()[1], 20.0)
        took = [await exchanged(stream) for _ in range(20)]
        await stream.aclose()
        await left.wait()

    assert come == [b"headbody"] * 20
    assert sorted(took)[5] < 0.03  # it would be 0.04 for each but the first


@pytest.mark.parametrize("secret", [False, True])
async def test_a_large_body_and_a_request_without_one_arrive_whole(secret):
    authority, left = trustme.CA(), asyncio.Event()
    there, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(there)
    authority.configure_trust(trusting)

    async def echo(reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()
        left.set()

    large = b"x" * (2 * MAX_JOINED_BYTES)
    async with await asyncio.start_server(echo, "127.0.0.1", 0, ssl=there if secret else None) as server:
        stream = await connect_with_keepalive("127.0.0.1", server.sockets[0].getsockname()[1], 20.0)
        if secret:
            stream = await stream.start_tls(trusting, "localhost", 20.0)
        for parts in ([b"head", large, b""], [b"head", b""], [b"head"]):
            for part in parts:
                await stream.write(part, 20.0)
            come, sent = b"", b"".join(parts)
            while len(come) < len(sent):
                come += await stream.read(1 << 16, 20.0)
            assert come == sent
        await stream.aclose()
        await left.wait()


@asynccontextmanager
async def connected(serve):
    """A stream to a server that runs `serve`; both are closed at the end."""
    left = asyncio.Event()

    async def run(reader, writer):
        try:
            await serve(reader, writer)
        finally:
            writer.transport.abort()
            left.set()

    async with await asyncio.start_server(run, "127.0.0.1", 0) as server:
        stream = await connect_with_keepalive("127.0.0.1", server.sockets[0].getsockname()[1], 20.0)
        try:
            yield stream
        finally:
            await stream.aclose()
            await left.wait()


async def until_closed(reader, writer):
    with suppress(ConnectionError):
        await reader.read()


async def test_a_silent_server_is_a_read_timeout_and_the_stream_can_be_read_again():
    async with connected(until_closed) as stream:
        for _ in range(2):
            with pytest.raises(httpcore2.ReadTimeout):
                await stream.read(100, 0.01)
        assert stream.get_extra_info("is_readable") is False


async def test_a_server_that_takes_nothing_is_a_write_timeout():
    released = asyncio.Event()

    async def serve(reader, writer):
        writer.transport.pause_reading()
        await released.wait()

    async with connected(serve) as stream:
        await stream.write(b"head", 20.0)
        with pytest.raises(httpcore2.WriteTimeout):
            await stream.write(b"x" * (64 << 20), 0.05)
        released.set()


async def test_bytes_that_came_before_a_reset_are_read_and_then_the_error():
    async def serve(reader, writer):
        writer.write(b"part")
        await reader.readexactly(4)
        # With no time to linger, closing resets the connection.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async with connected(serve) as stream:
        assert await stream.read(100, 20.0) == b"part"
        await stream.write(b"more")
        with pytest.raises(httpcore2.ReadError):
            await stream.read(100, 20.0)
        assert stream.get_extra_info("is_readable") is True
        await stream.write(b"head")
        with pytest.raises(httpcore2.WriteError):
            await stream.write(b"body")


async def test_the_end_of_the_stream_is_no_bytes_and_looks_readable():
    async def serve(reader, writer):
        writer.write(b"all")
        writer.write_eof()
        await reader.read()

    async with connected(serve) as stream:
        assert [await stream.read(2, 20.0), await stream.read(2, 20.0), await stream.read(2, 20.0)] == [
            b"al",
            b"l",
            b"",
        ]
        assert stream.get_extra_info("is_readable") is True


async def test_no_more_is_received_than_fits_until_it_is_read():
    total = 64 << 20
    is_all_sent = asyncio.Event()

    async def serve(reader, writer):
        for _ in range(64):
            writer.write(b"x" * (1 << 20))
            await writer.drain()
        is_all_sent.set()
        await reader.read()

    async with connected(serve) as stream:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(is_all_sent.wait(), 0.3)
        assert stream.get_extra_info("is_readable") is True
        size = len(await stream.read(total, 20.0))
        assert size <= 3 * MAX_UNREAD_BYTES
        while size < total:
            size += len(await stream.read(1 << 20, 20.0))
        assert size == total


async def test_closing_ends_a_waiting_read():
    async with connected(until_closed) as stream:
        waiting = asyncio.create_task(stream.read(100, 20.0))
        await asyncio.sleep(0)
        await stream.aclose()
        with pytest.raises(httpcore2.ReadError):
            await waiting


async def test_a_closed_port_is_a_connect_error():
    with port_of_nobody() as port, pytest.raises(httpcore2.ConnectError):
        await connect_with_keepalive("127.0.0.1", port, 20.0)


@pytest.mark.parametrize(
    ("answer", "timeout", "error"),
    [(b"no TLS at all", 20.0, httpcore2.ConnectError), (b"", 0.05, httpcore2.ConnectTimeout)],
    ids=["no TLS", "silence"],
)
async def test_a_failed_tls_handshake_is_an_error_of_connecting_and_closes_the_connection(answer, timeout, error):
    async def serve(reader, writer):
        await reader.read(1)
        writer.write(answer)
        await until_closed(reader, writer)

    async with connected(serve) as stream:
        with pytest.raises(error):
            await stream.start_tls(ssl.create_default_context(), "localhost", timeout)
