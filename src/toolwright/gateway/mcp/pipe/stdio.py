"""Stdio: a runtime served over this process's own standard streams, or over any two descriptors."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from toolwright.gateway.mcp.pipe.diversion import diverted
from toolwright.gateway.mcp.pipe.eras import converse
from toolwright.gateway.mcp.pipe.reading import Reading, Writing
from toolwright.gateway.mcp.runtime_server import server
from toolwright.gateway.mcp.signals import on_signals

if TYPE_CHECKING:
    from toolwright.runtime.runtime import Runtime

PARTING = 1.0
"""Seconds that the client has to take the last answers."""


@asynccontextmanager
async def pipe(descriptors: tuple[int, int] | None = None, **limits: Any) -> AsyncIterator[tuple[Reading, Writing]]:
    """The two streams that the library's `Server.run` takes.

    Args:
        descriptors: where to read and where to write; this process's stdin and stdout where none are given.
        limits: other limits than those of `Reading`.
    """
    with nullcontext(descriptors) if descriptors else diverted() as (source, target), _unblocked(source, target):
        reading = Reading(source, target, **limits)
        try:
            yield reading, Writing(reading)
        finally:
            reading.finish()
            try:
                await reading.outlet.finish(PARTING)
            finally:
                reading.outlet.close()


@contextmanager
def _unblocked(*descriptors: int) -> Iterator[None]:
    """Make them return at once where there is nothing to do. Not terminals: they are others' as well."""
    changed = [each for each in descriptors if _is_pipe(each) and os.get_blocking(each)]
    for each in changed:
        os.set_blocking(each, False)
    try:
        yield
    finally:
        for each in changed:
            os.set_blocking(each, True)


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


async def serve(runtime: Runtime, **options: Any) -> None:
    """Serve a runtime over stdin and stdout until stdin closes, or SIGTERM or SIGINT comes.

    It is started if it does not run, and then closed afterwards. Options are those of `server`.
    """
    made, task = server(runtime, **options), asyncio.current_task()
    assert task is not None
    async with pipe() as (reading, writing):

        def stop() -> None:
            reading.finish()
            if not reading.begun:  # the runtime is still starting, which may take long
                task.cancel()

        try:
            with on_signals(stop):
                await converse(made, reading, writing)
        except asyncio.CancelledError:
            if not reading.finished or task.uncancel():
                raise
