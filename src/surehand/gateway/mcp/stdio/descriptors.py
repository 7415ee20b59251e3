"""Reading and writing file descriptors with the event loop: stdin and stdout of a server, or a pair of pipes.

Reading uses a thread only where the event loop cannot wait for the descriptor. Writing is immediate if the pipe has
room; unread output is buffered, up to a size and a time limit.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from surehand.core.clock import Clock, Deadline, Deadlines, wake

CHUNK_BYTES = 1 << 16
MAX_BUFFER_BYTES = 1 << 20
"""Bytes of unread output beyond which senders wait."""


class DescriptorReader:
    """Reads a file descriptor and passes each chunk on; an empty chunk is the end."""

    def __init__(self, descriptor: int, on_chunk: Callable[[bytes], None]) -> None:
        self._descriptor = descriptor
        self._on_chunk = on_chunk
        self._loop = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None
        self._may_read = threading.Event()
        self._is_reading = False
        self._is_stopped = False

    def start(self) -> None:
        """Start or resume reading."""
        if self._is_reading or self._is_stopped:
            return
        self._is_reading = True
        self._may_read.set()
        if self._thread is not None:
            return
        try:
            self._loop.add_reader(self._descriptor, self._read_available)
        except (PermissionError, NotImplementedError):
            # epoll refuses regular files with EPERM, and the loop of Windows can only wait for sockets.
            self._thread = threading.Thread(target=self._read_in_thread, name="stdin", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Read nothing until `start` is called."""
        if self._is_reading:
            self._is_reading = False
            self._may_read.clear()
            if self._thread is None:
                self._loop.remove_reader(self._descriptor)

    def stop(self) -> None:
        """Stop reading for good."""
        self.pause()
        self._is_stopped = True
        self._may_read.set()

    def _read_available(self) -> None:
        try:
            chunk = os.read(self._descriptor, CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # EIO: the terminal was closed
            chunk = b""
        self._pass_on(chunk)

    def _pass_on(self, chunk: bytes) -> None:
        if self._is_stopped:
            return
        if not chunk:
            self.stop()
        self._on_chunk(chunk)

    def _read_in_thread(self) -> None:
        chunk = b"-"
        while chunk and self._may_read.wait() and not self._is_stopped:
            try:
                chunk = os.read(self._descriptor, CHUNK_BYTES)
            except OSError:
                chunk = b""
            # The next chunk is read when the loop has taken this one, so that a client cannot fill the memory.
            was_handled = threading.Event()
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._pass_on_from_thread, chunk, was_handled)
                was_handled.wait()

    def _pass_on_from_thread(self, chunk: bytes, was_handled: threading.Event) -> None:
        try:
            self._pass_on(chunk)
        finally:
            was_handled.set()


class DescriptorWriter:
    """Writes to a file descriptor, whether it is in blocking mode or not."""

    def __init__(
        self,
        descriptor: int,
        *,
        on_room: Callable[[], None],
        on_lost: Callable[[], None],
        timeout: float,
        clock: Clock,
    ) -> None:
        """`on_lost` is called if the client does not read within the timeout, or has closed the pipe."""
        self._descriptor = descriptor
        self._on_room = on_room
        self._on_lost = on_lost
        self._timeout = timeout
        self._deadlines = Deadlines(clock)
        self._deadline: Deadline | None = None
        self._loop = asyncio.get_running_loop()
        self._buffer: list[bytes] = []
        self._partly_written = memoryview(b"")
        self._has_written_this_turn = False
        self._is_blocked = False
        self._has_room_event = asyncio.Event()
        self._all_written: asyncio.Future[None] | None = None
        self.is_full = False
        """Whether more than `MAX_BUFFER_BYTES` wait, so that senders should wait as well."""
        self.buffered_bytes = 0
        self.is_closed = False

    def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Write after everything written before. In each iteration of the loop the first write is sent at once, the
        others together.

        Args:
            is_last: that no other write is expected in this iteration.
        """
        if self.is_closed:
            return
        self._buffer.append(data)
        self.buffered_bytes += len(data)
        if self.buffered_bytes > MAX_BUFFER_BYTES:
            self.is_full = True
            self._has_room_event.clear()
        if not self._has_written_this_turn and not self._is_blocked:
            if not is_last:
                self._has_written_this_turn = True
                self._loop.call_soon(self._start_next_turn)
            self._flush()

    async def wait_for_room(self) -> None:
        """Wait while the buffer is full."""
        while self.is_full:
            await self._has_room_event.wait()

    async def finish(self, seconds: float) -> None:
        """Give the client this long to read the rest, then close."""
        self._all_written = self._loop.create_future()
        if self.buffered_bytes and not self.is_closed:
            await asyncio.wait({self._all_written}, timeout=seconds)
        self.close()

    def close(self) -> None:
        """Drop unread output, and write nothing more."""
        self.is_closed = True
        self._unblock()
        self._deadlines.close()
        self._buffer = []
        self._partly_written = memoryview(b"")
        self.buffered_bytes = 0
        self._announce_room()
        if self._all_written is not None:
            wake(self._all_written)

    def _start_next_turn(self) -> None:
        self._has_written_this_turn = False
        if self._buffer and not self._is_blocked and not self.is_closed:
            self._flush()

    def _flush(self) -> None:
        if not self._partly_written:
            self._partly_written = memoryview(self._buffer[0] if len(self._buffer) == 1 else b"".join(self._buffer))
            self._buffer = []
        # A pipe in non-blocking mode takes a part of a large write, or raises EAGAIN if it is full.
        try:
            written = os.write(self._descriptor, self._partly_written)
        except (BlockingIOError, InterruptedError):
            written = 0
        except OSError:
            self._lose_connection()
            return
        self._partly_written = self._partly_written[written:]
        self.buffered_bytes -= written
        if self._partly_written or self._buffer:
            self._wait_until_writable(has_progress=bool(written))
        elif self._is_blocked:
            self._unblock()
        if self._all_written is not None and not self.buffered_bytes:
            wake(self._all_written)
        if self.is_full and self.buffered_bytes <= MAX_BUFFER_BYTES // 2:
            self._announce_room()

    def _announce_room(self) -> None:
        self.is_full = False
        self._has_room_event.set()
        self._on_room()

    def _wait_until_writable(self, *, has_progress: bool) -> None:
        if not self._is_blocked:
            self._is_blocked = True
            self._loop.add_writer(self._descriptor, self._flush)
        elif not has_progress:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._deadlines.start(self._timeout, self._lose_connection)

    def _unblock(self) -> None:
        if self._is_blocked:
            self._is_blocked = False
            self._loop.remove_writer(self._descriptor)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _lose_connection(self) -> None:
        if not self.is_closed:
            self.close()
            self._on_lost()
