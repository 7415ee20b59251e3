"""Starting: a runtime for as long as a command needs it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from surehand.cli.exits import USAGE, Ended
from surehand.cli.options import shown
from surehand.core.errors import DefinitionError
from surehand.runtime.runtime import Runtime
from surehand.store.errors import StoreError

LOOK, PATIENCE = 0.05, 20
"""Seconds between two looks at what still runs, and looks after which a person is told."""


@asynccontextmanager
async def started(runtime: Runtime) -> AsyncIterator[Runtime]:
    """The runtime while it runs; tools that cannot be started end the command."""
    try:
        await runtime.__aenter__()
    except DefinitionError as error:
        raise Ended(USAGE, shown(error)) from error
    except StoreError as error:
        raise Ended(USAGE, f"The store cannot be used: {shown(error)}") from error
    except Exception as error:
        told = next(iter(str(error).splitlines()), "")
        raise Ended(USAGE, f"The tools cannot be started: {type(error).__name__}: {told}") from error
    try:
        yield runtime
        if runtime.parts.durable:
            await _let_others_end(runtime)
    finally:
        await runtime.close()


async def _let_others_end(runtime: Runtime) -> None:
    """A runtime goes on with calls that were answered before it started; closing now would cancel them half done."""
    looks = 0
    while (names := _others(runtime)) or runtime.parts.waits.going:
        looks += 1
        if looks == PATIENCE:
            sys.stderr.write(f"Going on with what was answered before: {', '.join(names)}.\n")
        await asyncio.sleep(LOOK)


def _others(runtime: Runtime) -> list[str]:
    """Calls that run; one that waits for a person keeps waiting in the store."""
    parts = runtime.parts
    return sorted({each.tool_name for each in parts.running if each.known_id not in parts.waits.live})
