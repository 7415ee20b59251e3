"""Pipes to a child process, read and written on the event loop.

Unlike the transports of asyncio, they close their descriptors at once and can read what is left in a pipe.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import IO

CHUNK_BYTES = 1 << 16


class PipeStreamReader(asyncio.StreamReader):
    """A stream reader whose incoming data can be intercepted."""

    interceptor: Callable[[bytes], bytes] | None = None
    """Called with each chunk as it arrives; returns the part that stays to be read."""

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # a pipe delivers bytes only
        """Buffer a chunk, or the part of it that the interceptor leaves."""
        if self.interceptor is not None:
            data = self.interceptor(data)
        if data:
            super().feed_data(data)


class PipeReader:
    """Reads the output of a child into a `PipeStreamReader`, and pauses while that buffer is full."""

    def __init__(self, pipe: IO[bytes], limit: int = CHUNK_BYTES) -> None:
        self.reader = PipeStreamReader(limit)
        self.reader.set_transport(self)  # type: ignore[arg-type]  # a StreamReader only pauses and resumes it
        self._pipe: IO[bytes] | None = pipe
        self._loop = asyncio.get_running_loop()
        # Else a read of an empty pipe would stop the event loop. The child's end is another file, and stays blocking.
        os.set_blocking(pipe.fileno(), False)
        self.resume_reading()

    def pause_reading(self) -> None:
        """Stop reading; the stream reader calls it when its buffer is full."""
        if self._pipe is not None:
            self._loop.remove_reader(self._pipe.fileno())

    def resume_reading(self) -> None:
        """Start reading; the stream reader calls it when its buffer has room again."""
        if self._pipe is not None:
            self._loop.add_reader(self._pipe.fileno(), self._read_available)

    def is_closing(self) -> bool:
        """Whether the pipe is closed."""
        return self._pipe is None

    def _read_available(self) -> bool:
        """Read one chunk; return whether data arrived."""
        assert self._pipe is not None
        try:
            data = os.read(self._pipe.fileno(), CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if data:
            self.reader.feed_data(data)
        else:
            self.close()
        return bool(data)

    def read_remaining(self) -> None:
        """Read the data that is still in the pipe and close it, once the writing process has ended."""
        while self._pipe is not None and self._read_available():
            pass
        self.close()

    def close(self) -> None:
        """Close the pipe and mark the end of the stream."""
        if self._pipe is not None:
            self.pause_reading()
            self._pipe.close()
            self._pipe = None
            self.reader.feed_eof()


class PipeWriter:
    """Writes to the input of a child, and buffers what the pipe has no room for."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe: IO[bytes] | None = pipe
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[memoryview] = deque()
        self._drained_future: asyncio.Future[None] | None = None
        self._is_closing = False
        self._is_watching = False
        os.set_blocking(pipe.fileno(), False)

    def write(self, data: bytes) -> None:
        """Send bytes, or buffer them until the child reads; `drain` waits for that."""
        if self._pipe is None or self._is_closing:
            raise BrokenPipeError("The process does not read any more.")
        remaining = memoryview(data)
        if not self._unsent:
            try:
                remaining = remaining[os.write(self._pipe.fileno(), data) :]
            except (BlockingIOError, InterruptedError):
                pass
            except (BrokenPipeError, ConnectionResetError):
                self.close()
                return
        if remaining:
            self._unsent.append(remaining)
            if not self._is_watching:
                self._watch_writable(self._pipe)

    def try_write(self, data: bytes) -> bool:
        """Write bytes unless earlier ones are still buffered; return whether they were written."""
        if self._unsent:
            return False
        self.write(data)
        return True

    @property
    def has_unsent(self) -> bool:
        """Whether written bytes are still buffered."""
        return bool(self._unsent)

    async def drain(self) -> None:
        """Wait until all written bytes are in the pipe."""
        if self._unsent and self._pipe is not None:
            if self._drained_future is None:
                self._drained_future = self._loop.create_future()
            await asyncio.shield(self._drained_future)

    def close_when_drained(self) -> None:
        """Close the pipe once all written bytes are in it."""
        self._is_closing = True
        if not self._unsent:
            self.close()

    def _send_unsent(self) -> None:
        assert self._pipe is not None
        try:
            while self._unsent:
                count = os.write(self._pipe.fileno(), self._unsent[0])
                self._unsent[0] = self._unsent[0][count:]
                if not self._unsent[0]:
                    self._unsent.popleft()
        except (BlockingIOError, InterruptedError):
            self._watch_writable(self._pipe)
        except (BrokenPipeError, ConnectionResetError):
            self.close()
        else:
            self._unwatch_writable(self._pipe)
            self._notify_drained()
            if self._is_closing:
                self.close()

    def _watch_writable(self, pipe: IO[bytes]) -> None:
        self._is_watching = True
        self._loop.add_writer(pipe.fileno(), self._send_unsent)

    def _unwatch_writable(self, pipe: IO[bytes]) -> None:
        if self._is_watching:
            self._is_watching = False
            self._loop.remove_writer(pipe.fileno())

    def _notify_drained(self) -> None:
        if self._drained_future is not None and not self._drained_future.done():
            self._drained_future.set_result(None)
        self._drained_future = None

    def close(self) -> None:
        """Close the pipe and discard buffered bytes."""
        if self._pipe is not None:
            self._unwatch_writable(self._pipe)
            self._pipe.close()
            self._pipe = None
            self._unsent.clear()
            self._notify_drained()
