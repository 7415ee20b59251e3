"""Runs a command's coroutine, and opens the store or starts the runtime that it needs."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias, TypeVar

from surehand.cli.exit_codes import EXIT_INTERRUPTED, EXIT_USAGE, YELLOW, CommandExit, print_problem
from surehand.cli.options import error_message
from surehand.config.store_address import is_server_address
from surehand.core.errors import DefinitionError
from surehand.runtime.runtime import Runtime
from surehand.store.errors import StoreError
from surehand.store.sqlite.read_only_address import is_read_only_file
from surehand.store.store import Store

T = TypeVar("T")
POLL_SECONDS = 0.05
POLLS_BEFORE_NOTICE = 20
"""Polls for resumed calls before a person is told what the command waits for: one second."""
LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]


def run_coroutine(coroutine: Coroutine[Any, Any, T], loop_factory: LoopFactory | None = None) -> T:
    """Run a coroutine and return its result. Ctrl-C cancels it, and then ends the process."""
    runner = asyncio.Runner(loop_factory=loop_factory)
    try:
        result = runner.run(coroutine)
    # `asyncio.Runner` turns the first Ctrl-C into a cancellation of the main task; a second one is raised directly.
    except (KeyboardInterrupt, asyncio.CancelledError):
        print_problem("nothing was left running.", prefix="cancelled", ansi_colour=YELLOW)
        if _has_blocking_threads():  # the interpreter would wait for them at exit, perhaps for ever
            _exit_immediately()
        runner.close()
        sys.exit(EXIT_INTERRUPTED)
    except BaseException:
        runner.close()
        raise
    runner.close()
    return result


def fastest_loop_factory() -> LoopFactory | None:
    """The factory of uvloop's event loop if it is installed; None for asyncio's own."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def _has_blocking_threads() -> bool:
    """Whether a non-daemon thread would keep the process alive, for example of a handler's own executor."""
    main_thread = threading.main_thread()
    return any(not thread.daemon and thread is not main_thread for thread in threading.enumerate())


def _exit_immediately() -> None:
    """End the process without joining its threads."""
    # `os._exit` skips everything that the interpreter does at exit, also the flush of its streams.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(EXIT_INTERRUPTED)


@asynccontextmanager
async def open_store(address: str) -> AsyncIterator[Store]:
    """Open a store, and end the command if the store fails."""
    with exit_on_store_error():
        async with Store.open(address) as store:
            yield store


@asynccontextmanager
async def open_store_for_reading(address: str) -> AsyncIterator[Store]:
    """Open a store for a command that lists or shows; a file that cannot be written is opened read-only."""
    read_only = not is_server_address(address) and is_read_only_file(address)
    with exit_on_store_error():
        async with Store.open(address, read_only=read_only) as store:
            yield store


async def release_calls_of_dead_processes(store: Store) -> None:
    """Make the calls of dead processes pending, if the store can be written: their effect is unknown."""
    if not store.database.is_read_only:
        await store.owners.release_dead_owners("")


@contextmanager
def exit_on_store_error() -> Iterator[None]:
    """Turn errors of the store into the end of the command."""
    try:
        yield
    except DefinitionError as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    except StoreError as error:
        raise CommandExit(EXIT_USAGE, f"The store cannot be used: {error_message(error)}") from error


@asynccontextmanager
async def start_runtime(runtime: Runtime) -> AsyncIterator[Runtime]:
    """Start a runtime and close it afterwards; end the command if its tools cannot be started."""
    try:
        await runtime.__aenter__()
    except DefinitionError as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    except StoreError as error:
        raise CommandExit(EXIT_USAGE, f"The store cannot be used: {error_message(error)}") from error
    except Exception as error:
        first_line = next(iter(str(error).splitlines()), "")
        problem = f"The tools cannot be started: {type(error).__name__}: {first_line}"
        raise CommandExit(EXIT_USAGE, problem) from error
    try:
        yield runtime
        if runtime.is_durable:
            await _wait_for_resumed_calls(runtime)
    finally:
        await runtime.close()


async def _wait_for_resumed_calls(runtime: Runtime) -> None:
    """Wait for calls that were answered earlier and that this runtime has resumed: closing it would cancel them."""
    polls = 0
    while runtime.is_busy:
        polls += 1
        if polls == POLLS_BEFORE_NOTICE:
            names = ", ".join(_running_tool_names(runtime))
            sys.stderr.write(f"Finishing calls that were answered earlier: {names}.\n")
        await asyncio.sleep(POLL_SECONDS)


def _running_tool_names(runtime: Runtime) -> list[str]:
    """The tools of running calls; a call that waits for a person stays pending in the store."""
    return sorted({call.tool_name for call in runtime.running_calls() if not call.is_waiting_for_answer})
