"""Pipes to a child process: plain descriptors on the event loop, closed the moment they are told to."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import IO

CHUNK = 1 << 16


class Reader(asyncio.StreamReader):
    """What has come, and was not read yet."""

    tap: Callable[[bytes], bytes] | None = None
    """Sees each piece at the moment it comes, and gives back what is left to be read."""

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # a pipe gives nothing else
        """Keep a piece for whoever reads, if nobody takes it at once."""
        if self.tap is not None:
            data = self.tap(data)
        if data:
            super().feed_data(data)


class Incoming:
    """What a child writes, in a `Reader`: reading pauses while nobody takes what has come."""

    def __init__(self, pipe: IO[bytes], limit: int = CHUNK) -> None:
        self.reader = Reader(limit)
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
            self._loop.add_reader(self._pipe.fileno(), self._take)

    def is_closing(self) -> bool:
        """Whether nothing more can come."""
        return self._pipe is None

    def _take(self) -> bool:
        """Whether something came."""
        assert self._pipe is not None
        try:
            data = os.read(self._pipe.fileno(), CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if data:
            self.reader.feed_data(data)
        else:
            self.close()
        return bool(data)

    def drain(self) -> None:
        """Take what is still in the pipe, and close it: whoever wrote to it is gone."""
        while self._pipe is not None and self._take():
            pass
        self.close()

    def close(self) -> None:
        """Nothing more will come."""
        if self._pipe is not None:
            self.pause_reading()
            self._pipe.close()
            self._pipe = None
            self.reader.feed_eof()


class Outgoing:
    """What a child reads. What it does not take yet is kept until it does."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe: IO[bytes] | None = pipe
        self._loop = asyncio.get_running_loop()
        self._kept: deque[memoryview] = deque()
        self._empty: asyncio.Future[None] | None = None
        self._closing = self._watched = False
        os.set_blocking(pipe.fileno(), False)

    def write(self, data: bytes) -> None:
        """Send bytes, or keep them until the child takes them; wait for that with `drain`."""
        if self._pipe is None or self._closing:
            raise BrokenPipeError("The process does not read any more.")
        left = memoryview(data)
        if not self._kept:
            try:
                left = left[os.write(self._pipe.fileno(), data) :]
            except (BlockingIOError, InterruptedError):
                pass
            except (BrokenPipeError, ConnectionResetError):
                self.close()
                return
        if left:
            self._kept.append(left)
            if not self._watched:
                self._watch(self._pipe)

    def write_now(self, data: bytes) -> bool:
        """Send bytes like `write`, but not behind others that wait to be taken; whether it was done."""
        if self._kept:
            return False
        self.write(data)
        return True

    @property
    def waiting(self) -> bool:
        """Whether some of what was written has not been taken yet."""
        return bool(self._kept)

    async def drain(self) -> None:
        """Wait until all that was written has been taken."""
        if self._kept and self._pipe is not None:
            if self._empty is None:
                self._empty = self._loop.create_future()
            await asyncio.shield(self._empty)

    def finish(self) -> None:
        """Close once all that was written has been taken."""
        self._closing = True
        if not self._kept:
            self.close()

    def _send(self) -> None:
        assert self._pipe is not None
        try:
            while self._kept:
                count = os.write(self._pipe.fileno(), self._kept[0])
                self._kept[0] = self._kept[0][count:]
                if not self._kept[0]:
                    self._kept.popleft()
        except (BlockingIOError, InterruptedError):
            self._watch(self._pipe)
        except (BrokenPipeError, ConnectionResetError):
            self.close()
        else:
            self._unwatch(self._pipe)
            self._tell()
            if self._closing:
                self.close()

    def _watch(self, pipe: IO[bytes]) -> None:
        self._watched = True
        self._loop.add_writer(pipe.fileno(), self._send)

    def _unwatch(self, pipe: IO[bytes]) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_writer(pipe.fileno())

    def _tell(self) -> None:
        if self._empty is not None and not self._empty.done():
            self._empty.set_result(None)
        self._empty = None

    def close(self) -> None:
        """Send nothing more."""
        if self._pipe is not None:
            self._unwatch(self._pipe)
            self._pipe.close()
            self._pipe = None
            self._kept.clear()
            self._tell()
