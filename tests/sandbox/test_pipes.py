"""Pipes to a child process: order, buffering, and interception of incoming data."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from surehand.sandbox.pipes import CHUNK_BYTES, PipeReader, PipeWriter


@contextmanager
def outgoing() -> Iterator[tuple[PipeWriter, int]]:
    theirs, ours = os.pipe()
    made = PipeWriter(os.fdopen(ours, "wb", buffering=0))
    try:
        yield made, theirs
    finally:
        made.close()
        with suppress(OSError):
            os.close(theirs)


@contextmanager
def incoming() -> Iterator[tuple[PipeReader, int]]:
    ours, theirs = os.pipe()
    made = PipeReader(os.fdopen(ours, "rb", buffering=0))
    try:
        yield made, theirs
    finally:
        made.close()
        with suppress(OSError):
            os.close(theirs)


async def read_exactly(theirs: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += await asyncio.to_thread(os.read, theirs, CHUNK_BYTES)
    return data


async def test_data_that_fits_is_written_at_once():
    with outgoing() as (pipe, theirs):
        pipe.write(b"a")
        pipe.write(b"")
        assert pipe.try_write(b"b")

        assert not pipe.has_unsent
        assert os.read(theirs, 10) == b"ab"


async def test_data_that_does_not_fit_is_buffered_in_order():
    large = os.urandom(5 * CHUNK_BYTES)

    with outgoing() as (pipe, theirs):
        pipe.write(large)
        assert pipe.has_unsent
        assert not pipe.try_write(b"past")
        pipe.write(b"behind")
        pipe.close_when_drained()

        assert await read_exactly(theirs, len(large) + 6) == large + b"behind"
        await pipe.drain()
        assert not pipe.has_unsent
        assert os.read(theirs, 10) == b""


async def test_data_written_to_a_full_pipe_arrives_last():
    with outgoing() as (pipe, theirs):
        while not pipe.has_unsent:
            pipe.write(b"x" * 4096)
        pipe.write(b"last")

        data = await read_exactly(theirs, 4)
        while pipe.has_unsent:
            data += await read_exactly(theirs, 1)
        assert (data + os.read(theirs, CHUNK_BYTES)).endswith(b"xlast")


async def test_a_closed_reader_is_noticed_at_the_next_write():
    with outgoing() as (pipe, theirs):
        os.close(theirs)
        pipe.write(b"a")

        with pytest.raises(BrokenPipeError):
            pipe.write(b"b")


async def test_an_interceptor_sees_each_chunk_first_and_returns_the_rest():
    seen, came = [], asyncio.Event()

    def tap(data: bytes) -> bytes:
        seen.append(data)
        came.set()
        return data.removeprefix(b"mine ")

    with incoming() as (pipe, theirs):
        pipe.reader.interceptor = tap
        os.write(theirs, b"mine ")
        waiting = asyncio.create_task(pipe.reader.read(CHUNK_BYTES))
        await came.wait()
        assert not waiting.done()

        os.write(theirs, b"mine yours")
        assert await waiting == b"yours"
        os.write(theirs, b"mine ")
        os.close(theirs)
        assert await pipe.reader.read() == b""
    assert seen == [b"mine ", b"mine yours", b"mine "]
