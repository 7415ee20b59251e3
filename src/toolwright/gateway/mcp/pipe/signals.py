"""Signals: SIGTERM and SIGINT, taken as the wish to end in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first of them; the second one does what it always did."""
    loop, before = asyncio.get_running_loop(), {each: signal.getsignal(each) for each in SIGNALS}

    def restore() -> None:
        for each, handler in before.items():
            # Neither is there on other platforms, and only in the main thread may signals be handled.
            with suppress(NotImplementedError, ValueError, RuntimeError):
                if loop.remove_signal_handler(each) and handler is not None:
                    signal.signal(each, handler)

    def first() -> None:
        restore()
        stop()

    for each in SIGNALS:
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(each, first)
    try:
        yield
    finally:
        restore()
