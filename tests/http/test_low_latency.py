"""Connections for many small requests: each leaves in one packet, and no answer waits for a delayed acknowledgement."""

import asyncio
import socket
import ssl

import pytest
import trustme

from toolwright.http.keepalive import kept_alive
from toolwright.http.low_latency import MAX_JOINED_BYTES

pytestmark = pytest.mark.timeout(30, func_only=True)


async def exchanged(stream):
    clock = asyncio.get_running_loop().time
    began, come = clock(), b""
    await stream.write(b"head")
    await stream.write(b"body")
    while not come.endswith(b"seen"):
        come += await stream.read(1 << 16)
    return clock() - began


async def test_a_request_goes_out_in_one_piece_and_what_the_server_s_kernel_keeps_back_is_called_for():
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
        stream = await kept_alive("127.0.0.1", server.sockets[0].getsockname()[1], 20.0)
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
        stream = await kept_alive("127.0.0.1", server.sockets[0].getsockname()[1], 20.0)
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
