"""Signals: SIGTERM and SIGINT, taken as the wish to end in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Taken:
    """The signals of a loop, and all that is to end with them: several servers may run in it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._stops = loop, list[Callable[[], None]]()
        self._before: dict[signal.Signals, Any] = {}

    def add(self, stop: Callable[[], None]) -> None:
        if not self._stops:
            self._take()
        self._stops.append(stop)

    def remove(self, stop: Callable[[], None]) -> None:
        if stop in self._stops:
            self._stops.remove(stop)
            if not self._stops:
                self._restore()

    def _first(self) -> None:
        stops, self._stops = self._stops, []
        self._restore()
        for stop in stops:
            stop()

    def _take(self) -> None:
        self._before = {each: signal.getsignal(each) for each in SIGNALS}
        for each in SIGNALS:
            # Neither is there on other platforms, and only in the main thread may signals be handled.
            with suppress(NotImplementedError, ValueError, RuntimeError):
                self._loop.add_signal_handler(each, self._first)

    def _restore(self) -> None:
        del _TAKEN[self._loop]
        for each, handler in self._before.items():
            with suppress(NotImplementedError, ValueError, RuntimeError):
                if self._loop.remove_signal_handler(each) and handler is not None:
                    signal.signal(each, handler)


# A loop has one handler for a signal, so whoever comes second has to know of the first.
_TAKEN: dict[asyncio.AbstractEventLoop, _Taken] = {}


@contextmanager
def on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first of them; the second one does what it always did."""
    loop = asyncio.get_running_loop()
    taken = _TAKEN.setdefault(loop, _Taken(loop))
    taken.add(stop)
    try:
        yield
    finally:
        taken.remove(stop)
