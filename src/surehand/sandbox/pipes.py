"""Pipes to a child process: plain descriptors on the event loop, closed the moment they are told to."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import IO

CHUNK_BYTES = 1 << 16


class PipeStreamReader(asyncio.StreamReader):
    """What has come, and was not read yet."""

    interceptor: Callable[[bytes], bytes] | None = None
    """Sees each piece at the moment it comes, and gives back what is left to be read."""

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # a pipe gives nothing else
        """Keep a piece for whoever reads, if nobody takes it at once."""
        if self.interceptor is not None:
            data = self.interceptor(data)
        if data:
            super().feed_data(data)


class PipeReader:
    """What a child writes, in a `Reader`: reading pauses while nobody takes what has come."""

    def __init__(self, pipe: IO[bytes], limit: int = CHUNK_BYTES) -> None:
        self.reader = PipeStreamReader(limit)
        self.reader.set_transport(self)  # type: ignore[arg-type]  # all that a reader asks of it is to pause
        self._pipe: IO[bytes] | None = pipe
        self._loop = asyncio.get_running_loop()
        os.set_blocking(pipe.fileno(), False)
        self.resume_reading()

    def pause_reading(self) -> None:
        """The reader holds enough for now."""
        if self._pipe is not None:
            self._loop.remove_reader(self._pipe.fileno())

    def resume_reading(self) -> None:
        """The reader has room again."""
        if self._pipe is not None:
            self._loop.add_reader(self._pipe.fileno(), self._read_available)

    def is_closing(self) -> bool:
        """Whether nothing more can come."""
        return self._pipe is None

    def _read_available(self) -> bool:
        """Whether something came."""
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
        """Take what is still in the pipe, and close it: whoever wrote to it is gone."""
        while self._pipe is not None and self._read_available():
            pass
        self.close()

    def close(self) -> None:
        """Nothing more will come."""
        if self._pipe is not None:
            self.pause_reading()
            self._pipe.close()
            self._pipe = None
            self.reader.feed_eof()


class PipeWriter:
    """What a child reads. What it does not take yet is kept until it does."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe: IO[bytes] | None = pipe
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[memoryview] = deque()
        self._drained: asyncio.Future[None] | None = None
        self._is_closing = self._is_watching = False
        os.set_blocking(pipe.fileno(), False)

    def write(self, data: bytes) -> None:
        """Send bytes, or keep them until the child takes them; wait for that with `drain`."""
        if self._pipe is None or self._is_closing:
            raise BrokenPipeError("The process does not read any more.")
        left = memoryview(data)
        if not self._unsent:
            try:
                left = left[os.write(self._pipe.fileno(), data) :]
            except (BlockingIOError, InterruptedError):
                pass
            except (BrokenPipeError, ConnectionResetError):
                self.close()
                return
        if left:
            self._unsent.append(left)
            if not self._is_watching:
                self._watch_writable(self._pipe)

    def try_write(self, data: bytes) -> bool:
        """Send bytes like `write`, but not behind others that wait to be taken; whether it was done."""
        if self._unsent:
            return False
        self.write(data)
        return True

    @property
    def has_unsent(self) -> bool:
        """Whether some of what was written has not been taken yet."""
        return bool(self._unsent)

    async def drain(self) -> None:
        """Wait until all that was written has been taken."""
        if self._unsent and self._pipe is not None:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    def close_when_drained(self) -> None:
        """Close once all that was written has been taken."""
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
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    def close(self) -> None:
        """Send nothing more."""
        if self._pipe is not None:
            self._unwatch_writable(self._pipe)
            self._pipe.close()
            self._pipe = None
            self._unsent.clear()
            self._notify_drained()
