"""Signals: SIGTERM and SIGINT, taken as the wish to end in order."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_stops: dict[object, Callable[[], Any]] = {}
"""Whom to tell. Signals are the process's, and so are these."""
_before: dict[signal.Signals, Any] = {}
"""What was done about them before anybody was to be told."""


@contextmanager
def on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first of them, as all who asked for it are; the second one does what it always did.

    A handler that the program has put on its loop is left there, and is called as well.
    """
    if threading.current_thread() is not threading.main_thread():  # elsewhere they cannot be handled
        yield
        return
    # Not by the loop: it knows one handler for each, and nobody could put another's back.
    me, loop = object(), asyncio.get_running_loop()
    is_first, _stops[me] = not _stops, partial(loop.call_soon_threadsafe, stop)
    if is_first:
        _take()
    try:
        yield
    finally:
        _stops.pop(me, None)
        if not _stops:
            _give_back()


def _take() -> None:
    for each in SIGNALS:
        if (handler := signal.getsignal(each)) is not None:  # one of another language could not be put back
            _before[each] = handler
            signal.signal(each, _heard)


def _give_back() -> None:
    for each, handler in list(_before.items()):  # a signal may come in the middle
        if signal.getsignal(each) is _heard:  # unless somebody has put one there since
            signal.signal(each, handler)
    _before.clear()


def _heard(number: int, _: object) -> None:
    stops = list(_stops.values())
    _stops.clear()
    _give_back()
    for stop in stops:
        stop()
    if not stops:  # the last one has just left
        signal.raise_signal(number)
