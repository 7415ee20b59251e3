"""Starting: a runtime for as long as a command needs it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias, TypeVar

from surehand.cli.exit_codes import EXIT_INTERRUPTED, EXIT_USAGE, CommandExit, print_problem
from surehand.cli.options import error_message
from surehand.core.errors import DefinitionError
from surehand.runtime.runtime import Runtime
from surehand.store.errors import StoreError
from surehand.store.store import Store

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


@asynccontextmanager
async def open_store(address: str) -> AsyncIterator[Store]:
    """The store while it is open; whatever it cannot do ends the command."""
    with exit_on_store_error():
        async with Store.open(address) as store:
            yield store


@contextmanager
def exit_on_store_error() -> Iterator[None]:
    """What a store says that it cannot do, as the end of a command."""
    try:
        yield
    except DefinitionError as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    except StoreError as error:
        raise CommandExit(EXIT_USAGE, f"The store cannot be used: {error_message(error)}") from error


POLL_SECONDS, POLLS_BEFORE_NOTICE = 0.05, 20
"""Seconds between two looks at what still runs, and looks after which a person is told."""


@asynccontextmanager
async def start_runtime(runtime: Runtime) -> AsyncIterator[Runtime]:
    """The runtime while it runs; tools that cannot be started end the command."""
    try:
        await runtime.__aenter__()
    except DefinitionError as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    except StoreError as error:
        raise CommandExit(EXIT_USAGE, f"The store cannot be used: {error_message(error)}") from error
    except Exception as error:
        told = next(iter(str(error).splitlines()), "")
        raise CommandExit(EXIT_USAGE, f"The tools cannot be started: {type(error).__name__}: {told}") from error
    try:
        yield runtime
        if runtime.services.is_durable:
            await _wait_for_resumed_calls(runtime)
    finally:
        await runtime.close()


async def _wait_for_resumed_calls(runtime: Runtime) -> None:
    """A runtime goes on with calls that were answered before it started; closing now would cancel them half done."""
    looks = 0
    while (names := _running_tool_names(runtime)) or runtime.services.pending_calls.answers_in_progress:
        looks += 1
        if looks == POLLS_BEFORE_NOTICE:
            sys.stderr.write(f"Going on with what was answered before: {', '.join(names)}.\n")
        await asyncio.sleep(POLL_SECONDS)


def _running_tool_names(runtime: Runtime) -> list[str]:
    """Calls that run; one that waits for a person keeps waiting in the store."""
    parts = runtime.services
    return sorted(
        {each.tool_name for each in parts.running_calls if each.assigned_id not in parts.pending_calls.waiting_callers}
    )
