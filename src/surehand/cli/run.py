"""Running: one coroutine from start to end, or to Ctrl-C, after which nothing goes on."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from surehand.cli.exits import EXIT_INTERRUPTED, print_problem

T = TypeVar("T")
LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]


def run_coroutine(coroutine: Coroutine[Any, Any, T], loop_factory: LoopFactory | None = None) -> T:
    """What the coroutine gives. Ctrl-C cancels it, says so, and ends the process whatever else still runs in it."""
    runner = asyncio.Runner(loop_factory=loop_factory)
    try:
        result = runner.run(coroutine)
    except (KeyboardInterrupt, asyncio.CancelledError):
        print_problem("nothing was left running.", prefix="cancelled", ansi_colour=33)
        if _has_blocking_threads():
            _exit_immediately()
        runner.close()
        sys.exit(EXIT_INTERRUPTED)
    except BaseException:
        runner.close()
        raise
    runner.close()
    return result


def fastest_loop_factory() -> LoopFactory | None:
    """uvloop's event loop, if it is installed; otherwise asyncio's own."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def _has_blocking_threads() -> bool:
    """Whether a thread that nobody can interrupt would keep the process alive: a handler's own executor, say."""
    main = threading.main_thread()
    return any(not thread.daemon and thread is not main for thread in threading.enumerate())


def _exit_immediately() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(EXIT_INTERRUPTED)
