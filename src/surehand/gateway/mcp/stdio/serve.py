"""Serve: a runtime as an MCP server over this process's stdin and stdout, or over two other file descriptors."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from surehand.gateway.mcp.runtime_server import server
from surehand.gateway.mcp.signals import on_stop_signals
from surehand.gateway.mcp.stdio.connection import serve_connection
from surehand.gateway.mcp.stdio.limits import DEFAULT_LIMITS, StdioLimits
from surehand.gateway.mcp.stdio.message_streams import ClientMessages, ServerMessages
from surehand.gateway.mcp.stdio.standard_streams import reserved_standard_streams

if TYPE_CHECKING:
    from surehand.runtime.runtime import Runtime

FINAL_WRITE_TIMEOUT_SECONDS = 1.0
"""Seconds in which the client has to read the last responses."""


@asynccontextmanager
async def message_streams(
    descriptors: tuple[int, int] | None = None, limits: StdioLimits = DEFAULT_LIMITS
) -> AsyncIterator[tuple[ClientMessages, ServerMessages]]:
    """The two streams of one connection.

    Args:
        descriptors: where to read and where to write, in place of this process's stdin and stdout.
    """
    opened = nullcontext(descriptors) if descriptors else reserved_standard_streams()
    with opened as (input_descriptor, output_descriptor), _in_nonblocking_mode(input_descriptor, output_descriptor):
        incoming = ClientMessages(input_descriptor, output_descriptor, limits)
        try:
            yield incoming, ServerMessages(incoming)
        finally:
            incoming.stop()
            try:
                await incoming.writer.finish(FINAL_WRITE_TIMEOUT_SECONDS)
            finally:
                incoming.writer.close()


@contextmanager
def _in_nonblocking_mode(*descriptors: int) -> Iterator[None]:
    """Put pipes and sockets into non-blocking mode. Not terminals: other processes share that mode with us."""
    # O_NONBLOCK belongs to the open file description, which the shell that started us may hold as well. So it is reset.
    changed = [each for each in descriptors if _is_pipe_or_socket(each) and os.get_blocking(each)]
    for descriptor in changed:
        os.set_blocking(descriptor, False)
    try:
        yield
    finally:
        for descriptor in changed:
            os.set_blocking(descriptor, True)


def _is_pipe_or_socket(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


async def serve(runtime: Runtime, **options: Any) -> None:
    """Serve a runtime over stdin and stdout until stdin closes, or SIGTERM or SIGINT arrives.

    A runtime that is not running is started, and closed afterwards. The options are those of `server`.
    """
    mcp_server = server(runtime, **options)
    task = asyncio.current_task()
    assert task is not None
    async with message_streams() as (incoming, outgoing):

        def stop() -> None:
            incoming.stop()
            if not incoming.is_started:  # the runtime is still starting, which may take long
                task.cancel()

        try:
            with on_stop_signals(stop):
                await serve_connection(mcp_server, incoming, outgoing)
        except asyncio.CancelledError:
            if not incoming.is_stopped or task.uncancel():
                raise
