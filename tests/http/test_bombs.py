"""Responses that are meant to exhaust memory or time."""

import asyncio
import gzip
import subprocess
import sys
import textwrap
import tracemalloc
import zlib

import pytest

from surehand.core.errors import TimedOut, ToolError, Unavailable
from surehand.http.head_limit import MAX_READ_BYTES
from tests.http.server import chunked, online, reply

pytestmark = pytest.mark.timeout(60)  # some of these have much to do, and a busy machine takes its time

MIB = 1024 * 1024


def bomb(size):
    """A gzip file of so many zeros: one packed mebibyte, again and again."""
    packer = zlib.compressobj(9, wbits=31)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * (size // MIB)


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


class Peak:
    """How much memory was in use at most, above what there was before."""

    def __enter__(self):
        tracemalloc.start()
        self._before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        return self

    def __exit__(self, *_):
        self.bytes = tracemalloc.get_traced_memory()[1] - self._before
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("GZip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("identity", bytes),
        ("", bytes),
        ("identity, gzip", gzip.compress),
    ],
)
@pytest.mark.parametrize("size", [0, 1, 1000, 65_536, 65_537, 300_000])
async def test_compressed_responses_are_unpacked(encoding, pack, size):
    body = (b"The quick brown fox. " * (size // 20 + 1))[:size]

    async with online(lambda asked: reply(pack(body), content_encoding=encoding)) as (_, client):
        response = await client.request("GET", "http://site.test/")

    assert response.body == body


@pytest.mark.parametrize("step", [1, 2, 7])
async def test_compressed_responses_may_arrive_byte_by_byte(step):
    body = b"The quick brown fox. " * 20
    for encoding, pack in [("gzip", gzip.compress), ("deflate", raw_deflate), ("deflate", zlib.compress)]:
        packed = pack(body)
        pieces = [packed[start : start + step] for start in range(0, len(packed), step)]
        async with online(lambda asked, p=pieces, e=encoding: chunked(*p, content_encoding=e)) as (_, client):
            assert (await client.request("GET", "http://site.test/")).body == body


async def test_several_gzip_members_are_one_response():
    packed = gzip.compress(b"one ") + gzip.compress(b"two ") + gzip.compress(b"three") + b"\0" * 20
    async with online(lambda asked: reply(packed, content_encoding="gzip")) as (_, client):
        assert (await client.request("GET", "http://site.test/")).body == b"one two three"


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "gzip,br", "deflate, gzip", "x" * 500])
async def test_encodings_that_were_not_offered_are_refused(encoding):
    async with online(lambda asked: reply(gzip.compress(b"x"), content_encoding=encoding)) as (_, client):
        with pytest.raises(ToolError, match="was not asked for") as refused:
            await client.request("GET", "http://site.test/")

    assert len(str(refused.value)) < 200


async def test_a_response_to_head_is_not_unpacked():
    async with online(lambda asked: reply(content_encoding="gzip", content_length=1234)) as (_, client):
        assert (await client.request("HEAD", "http://site.test/")).body == b""


@pytest.mark.parametrize(
    "body", [b"not gzip at all", gzip.compress(b"x" * 1000)[:-20] + b"garbage" * 5], ids=["plain", "spoilt"]
)
async def test_a_body_with_a_false_content_encoding_is_refused(body):
    async with online(lambda asked: reply(body, content_encoding="gzip")) as (_, client):
        with pytest.raises(ToolError):
            await client.request("GET", "http://site.test/")


async def test_a_response_that_breaks_off_is_an_error():
    packed = gzip.compress(bytes(range(256)) * 100)[:-30]
    async with online(lambda asked: reply(packed, content_encoding="gzip")) as (_, client):
        with pytest.raises(Unavailable, match="broke off"):
            await client.request("GET", "http://site.test/")


@pytest.mark.parametrize("most", [5 * MIB, None])
async def test_a_bomb_is_not_unpacked(most):
    packed = bomb(200 * MIB)
    assert 200 * MIB / len(packed) > 1000

    async with online(lambda asked: reply(packed, content_encoding="gzip"), max_bytes=most) as (_, client):
        await client.request("HEAD", "http://site.test/")  # what is loaded on first use is no part of it
        with Peak() as peak, pytest.raises(ToolError) as refused:
            await client.request("GET", "http://site.test/")

    assert refused.value.code == "too_large"
    assert peak.bytes < 40 * MIB if most is None else peak.bytes < 16 * MIB


async def test_a_bomb_inside_a_bomb_stays_packed():
    packed = gzip.compress(bomb(50 * MIB))

    async with online(lambda asked: reply(packed, content_encoding="gzip")) as (_, client):
        response = await client.request("GET", "http://site.test/")

    assert len(response.body) < 60_000


async def test_compressed_and_chunked_bombs_are_cut():
    packed = bomb(100 * MIB)
    pieces = [packed[start : start + 100] for start in range(0, len(packed), 100)]

    async with online(lambda asked: chunked(*pieces, content_encoding="gzip")) as (_, client):
        with pytest.raises(ToolError) as refused:
            await client.request("GET", "http://site.test/")

    assert refused.value.code == "too_large"


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("chunk", [b"x" * 65_536, b"x"])
async def test_an_endless_response_is_cut(cut, chunk):
    wire = b"%x\r\n%b\r\n" % (len(chunk), chunk)

    async def endless(asked):
        yield reply(content_length=None, transfer_encoding="chunked")
        while True:
            yield wire * (1 + 65_536 // len(wire))

    most = 2 * MIB if len(chunk) > 1 else 4000
    async with online(endless, max_bytes=most) as (_, client):
        with Peak() as peak:
            if cut:
                response = await client.request("GET", "http://site.test/", truncate=True)
                assert (len(response.body), response.truncated) == (most, True)
            else:
                with pytest.raises(ToolError) as refused:
                    await client.request("GET", "http://site.test/")
                assert refused.value.code == "too_large"

    assert peak.bytes < 16 * MIB


async def test_a_response_with_a_large_content_length_is_not_read():
    async with online(lambda asked: reply("x", content_length=10**12)) as (_, client):
        with pytest.raises(ToolError) as refused:
            await client.request("GET", "http://site.test/")

    assert refused.value.code == "too_large"


async def test_an_endless_response_that_unpacks_to_nothing_is_cut():
    async def endless(asked):
        yield reply(content_length=None, transfer_encoding="chunked", content_encoding="gzip")
        empty = gzip.compress(b"") * 500
        while True:
            yield b"%x\r\n%b\r\n" % (len(empty), empty)

    async with online(endless, max_bytes=200_000) as (_, client):
        with pytest.raises(ToolError) as refused:
            await client.request("GET", "http://site.test/")

    assert refused.value.code == "too_large"


@pytest.mark.parametrize("what", ["body", "headers", "continue", "chunk header"])
async def test_a_slow_response_ends_at_the_timeout(what):
    async def trickle(asked):
        if what == "body":
            yield reply(content_length=1_000_000)
        elif what == "chunk header":
            yield reply(content_length=None, transfer_encoding="chunked")
        else:
            yield b"HTTP/1.1 200 OK\r\nX-A: " if what == "headers" else b""
        while True:
            yield b"HTTP/1.1 100 Continue\r\n\r\n" if what == "continue" else b"0"
            await asyncio.sleep(0.02)

    async with online(trickle, timeout=0.3, read_timeout=30) as (_, client):
        started = asyncio.get_running_loop().time()
        with pytest.raises(TimedOut, match=r"0\.3 s"):
            await client.request("GET", "http://site.test/")
        took = asyncio.get_running_loop().time() - started

    assert 0.25 < took < 20


@pytest.mark.parametrize(
    "headers",
    [b"X-A: " + b"a" * 70_000 + b"\r\n", b"".join(b"X-%d: a\r\n" % n for n in range(8000)), b"X-A: a" + b"b" * 500_000],
)
async def test_headers_that_are_too_large_are_refused(headers):
    async def heavy(asked):
        yield b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n"
        yield None

    async with online(heavy) as (_, client):
        with pytest.raises(ToolError):
            await client.request("GET", "http://site.test/")


async def test_endless_headers_are_cut():
    async def endless(asked):
        yield b"HTTP/1.1 200 OK\r\n"
        while True:
            yield b"X-A: a\r\n" * 1000

    async with online(endless) as (_, client):
        with pytest.raises(ToolError, match="more than 65536 bytes of headers"):
            await client.request("GET", "http://site.test/")


async def test_endless_informational_responses_are_cut_and_let_other_tasks_run():
    turns = []

    async def other():
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    async def endless(asked):
        while True:
            yield b"HTTP/1.1 100 \r\n\r\n" * 10_000

    async with online(endless) as (_, client):
        running = asyncio.create_task(other())
        with pytest.raises(ToolError, match="more than 65536 bytes of headers"):
            await client.request("GET", "http://site.test/")
        running.cancel()

    assert len(turns) >= 65_536 // MAX_READ_BYTES


async def test_some_informational_responses_are_ignored():
    async def hinting(asked):
        yield b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 20
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    async with online(hinting) as (_, client):
        assert (await client.request("GET", "http://site.test/")).body == b"ok"


@pytest.mark.parametrize("content", [b"", b"a"])
async def test_a_body_of_very_many_gzip_files_is_refused(content):
    body = gzip.compress(content) * 50_000

    async def many(asked):
        yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        yield body

    async with online(many) as (_, client):
        with pytest.raises(ToolError, match="gzip files or more"):
            await client.request("GET", "http://site.test/")


async def test_a_body_of_some_gzip_files_is_read():
    body = gzip.compress(b"a") * 200 + gzip.compress(b"b" * 5000) * 20

    async def some(asked):
        yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        yield body

    async with online(some) as (_, client):
        assert (await client.request("GET", "http://site.test/")).body == b"a" * 200 + b"b" * 100_000


async def test_other_tasks_run_while_tiny_chunks_arrive():
    turns = []

    async def other():
        while True:
            turns.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0)

    body = chunked(*[b"x"] * 20_000)
    async with online(lambda asked: body) as (_, client):
        task = asyncio.create_task(other())
        await client.request("GET", "http://site.test/")
        task.cancel()

    assert len(turns) > 250  # one for every few chunks, and not one for every packet


def test_a_bomb_does_not_grow_the_memory_of_the_process():
    code = """
        import asyncio, resource
        from tests.http.server import reply
        from tests.http.test_bombs import MIB, bomb, online
        from surehand.core.errors import ToolError

        async def main():
            packed = bomb(1000 * MIB)
            async with online(lambda asked: reply(packed, content_encoding="gzip")) as (_, client):
                await client.request("HEAD", "http://site.test/")
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                try:
                    await client.request("GET", "http://site.test/")
                except ToolError as error:
                    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
                    print(error.code, grown)

        asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    verdict, grown = done.stdout.split()

    assert verdict == "too_large"
    assert int(grown) < 32 * 1024
