"""Signals: SIGTERM and SIGINT, taken as the wish to end in order."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_stop_callbacks: dict[object, Callable[[], Any]] = {}
"""Whom to tell. Signals are the process's, and so are these."""
_previous_handlers: dict[signal.Signals, Any] = {}
"""What was done about them before anybody was to be told."""


@contextmanager
def on_stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first of them, as all who asked for it are; the second one does what it always did.

    A handler that the program has put on its loop is left there, and is called as well.
    """
    if threading.current_thread() is not threading.main_thread():  # elsewhere they cannot be handled
        yield
        return
    # Not by the loop: it knows one handler for each, and nobody could put another's back.
    me, loop = object(), asyncio.get_running_loop()
    is_first, _stop_callbacks[me] = not _stop_callbacks, partial(loop.call_soon_threadsafe, stop)
    if is_first:
        _install_handlers()
    try:
        yield
    finally:
        _stop_callbacks.pop(me, None)
        if not _stop_callbacks:
            _restore_handlers()


def _install_handlers() -> None:
    for each in STOP_SIGNALS:
        if (handler := signal.getsignal(each)) is not None:  # one of another language could not be put back
            _previous_handlers[each] = handler
            signal.signal(each, _handle_signal)


def _restore_handlers() -> None:
    for each, handler in list(_previous_handlers.items()):  # a signal may come in the middle
        if signal.getsignal(each) is _handle_signal:  # unless somebody has put one there since
            signal.signal(each, handler)
    _previous_handlers.clear()


def _handle_signal(number: int, _: object) -> None:
    stops = list(_stop_callbacks.values())
    _stop_callbacks.clear()
    _restore_handlers()
    for stop in stops:
        stop()
    if not stops:  # the last one has just left
        signal.raise_signal(number)
