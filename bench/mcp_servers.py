"""The MCP servers that the benchmarks call, as surehand and the MCP SDK's client connect to them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from surehand import mcp

if TYPE_CHECKING:
    from mcp import StdioServerParameters

    from surehand.providers.mcp import Server

PROTOCOLS: tuple[Literal["legacy", "2026-07-28"], ...] = ("legacy", "2026-07-28")
_BENCH_FOLDER = Path(__file__).parent


def stdio_provider(tools: int = 1, **options: Any) -> Server:
    """A provider for the minimal stdio server, by default without a manifest."""
    settings = {"namespace": "plain", "manifest": False, **options}
    return mcp.stdio(sys.executable, *_server_arguments(tools), **settings)


def stdio_parameters(tools: int = 1) -> StdioServerParameters:
    """Parameters for the minimal stdio server, for the MCP SDK's client."""
    from mcp import StdioServerParameters

    return StdioServerParameters(command=sys.executable, args=_server_arguments(tools))


def _server_arguments(tools: int) -> list[str]:
    return ["-I", "-S", str(_BENCH_FOLDER / "mcp_stdio_server.py"), str(tools)]


@asynccontextmanager
async def start_http_server() -> AsyncIterator[str]:
    """Start the MCP SDK's HTTP server in another process; gives its URL."""
    # -P: without it, modules in the script's folder could shadow those of the standard library.
    argv = (sys.executable, "-P", str(_BENCH_FOLDER / "mcp_http_server.py"))
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}/mcp"
    finally:
        process.kill()
        await process.communicate()
