"""Reader: bytes from a file descriptor as they arrive, without a thread wherever the event loop can wait for them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress

CHUNK_BYTES = 1 << 16


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
        except (PermissionError, NotImplementedError):  # a regular file; or a loop that can only wait for sockets
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
        except OSError:  # a terminal that was closed
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
            was_handled = threading.Event()
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._pass_on_from_thread, chunk, was_handled)
                was_handled.wait()

    def _pass_on_from_thread(self, chunk: bytes, was_handled: threading.Event) -> None:
        try:
            self._pass_on(chunk)
        finally:
            was_handled.set()
