"""Inlet: the bytes of a descriptor, as they come. Without a thread, wherever the loop can wait for them itself."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress

CHUNK = 1 << 16


class Inlet:
    """Reads a descriptor, and hands on what it says; nothing (`b""`) is the end."""

    def __init__(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        self._from, self._take = descriptor, take
        self._loop = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None
        self._go = threading.Event()
        self._reading = self._over = False

    def start(self) -> None:
        """Begin to read, or go on."""
        if self._reading or self._over:
            return
        self._reading = True
        self._go.set()
        if self._thread is not None:
            return
        try:
            self._loop.add_reader(self._from, self._ready)
        except (PermissionError, NotImplementedError):  # a regular file; or a loop that knows sockets alone
            self._thread = threading.Thread(target=self._follow, name="stdin", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Read no more until `start`."""
        if self._reading:
            self._reading = False
            self._go.clear()
            if self._thread is None:
                self._loop.remove_reader(self._from)

    def stop(self) -> None:
        """Read no more at all."""
        self.pause()
        self._over = True
        self._go.set()

    def _ready(self) -> None:
        try:
            data = os.read(self._from, CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # a terminal that was closed
            data = b""
        self._handed(data)

    def _handed(self, data: bytes) -> None:
        if self._over:
            return
        if not data:
            self.stop()
        self._take(data)

    def _follow(self) -> None:
        data = b"-"
        while data and self._go.wait() and not self._over:
            try:
                data = os.read(self._from, CHUNK)
            except OSError:
                data = b""
            taken = threading.Event()
            with suppress(RuntimeError):  # the loop has gone
                self._loop.call_soon_threadsafe(self._handed_and, data, taken)
                taken.wait()

    def _handed_and(self, data: bytes, taken: threading.Event) -> None:
        try:
            self._handed(data)
        finally:
            taken.set()
