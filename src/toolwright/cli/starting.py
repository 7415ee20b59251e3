"""Starting: a runtime, or a store alone, for as long as a command needs it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolwright.cli.exits import USAGE, Ended
from toolwright.cli.options import near, shown
from toolwright.core.errors import DefinitionError
from toolwright.runtime.runtime import Runtime
from toolwright.store.database import StoreError
from toolwright.store.store import Store

PATIENCE = 1.0
"""Seconds before a person is told what the command still waits for."""


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
        await _end_of_others(runtime)
    finally:
        await runtime.close()


async def _end_of_others(runtime: Runtime) -> None:
    """A runtime with a store goes on with calls that were answered before; closing now would cancel them half done."""
    waited = 0.0
    while names := _others(runtime):
        if waited < PATIENCE <= waited + 0.05:
            sys.stderr.write(f"Going on with what was answered before: {', '.join(names)}.\n")
        await asyncio.sleep(0.05)
        waited += 0.05


def _others(runtime: Runtime) -> list[str]:
    parts = runtime.parts
    return sorted({each.tool_name for each in parts.running if each.known_id not in parts.waits.live})


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[Store]:
    """The store while it is open; whatever it cannot do ends the command."""
    try:
        async with Store.open(address) as store:
            yield store
    except DefinitionError as error:
        raise Ended(USAGE, shown(error)) from error
    except StoreError as error:
        raise Ended(USAGE, f"The store {near(address)} cannot be used: {shown(error)}") from error
