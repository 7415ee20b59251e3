"""Starting: a runtime for as long as a command needs it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from surehand.cli.exits import EXIT_USAGE, CommandExit
from surehand.cli.options import error_message
from surehand.core.errors import DefinitionError
from surehand.runtime.runtime import Runtime
from surehand.store.errors import StoreError

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
