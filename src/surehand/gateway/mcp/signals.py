"""SIGTERM and SIGINT as requests to shut down in order, for servers over stdio and HTTP."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Module state: signal handlers belong to the process, and several servers may run in it.
_stop_callbacks: dict[object, Callable[[], Any]] = {}
"""The callbacks of all servers that are running."""
_previous_handlers: dict[signal.Signals, Any] = {}
"""The handlers that were installed before ours."""


@contextmanager
def on_stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first signal, together with the callbacks of other servers. The second has its usual effect.

    A handler that the program has put on its event loop stays there, and is called as well.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread can set signal handlers
        yield
        return
    # Not `loop.add_signal_handler`: the loop has one handler per signal, and no way to read and restore another's.
    key = object()
    loop = asyncio.get_running_loop()
    is_first = not _stop_callbacks
    _stop_callbacks[key] = partial(loop.call_soon_threadsafe, stop)
    if is_first:
        _install_handlers()
    try:
        yield
    finally:
        _stop_callbacks.pop(key, None)
        if not _stop_callbacks:
            _restore_handlers()


def _install_handlers() -> None:
    for number in STOP_SIGNALS:
        handler = signal.getsignal(number)
        if handler is not None:  # None: installed by C code, so it could not be restored
            _previous_handlers[number] = handler
            signal.signal(number, _handle_signal)


def _restore_handlers() -> None:
    for number, handler in list(_previous_handlers.items()):  # a copy: a signal may arrive during the loop
        if signal.getsignal(number) is _handle_signal:  # the program may have installed another one since
            signal.signal(number, handler)
    _previous_handlers.clear()


def _handle_signal(number: int, _: object) -> None:
    callbacks = list(_stop_callbacks.values())
    _stop_callbacks.clear()
    _restore_handlers()
    for stop in callbacks:
        stop()
    if not callbacks:  # the last server ended just before the signal: let the previous handler have it
        signal.raise_signal(number)
