"""The MCP servers that are measured with, as ours and as the library's own client reaches them."""

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
_HERE = Path(__file__).parent


def ours(tools: int = 1, **options: Any) -> Server:
    """The plain server as a provider of ours; what it offers is not kept, unless that is asked for."""
    given = {"namespace": "plain", "manifest": False, **options}
    return mcp.stdio(sys.executable, *_arguments(tools), **given)


def theirs(tools: int = 1) -> StdioServerParameters:
    """The plain server as the library's client takes it."""
    from mcp import StdioServerParameters

    return StdioServerParameters(command=sys.executable, args=_arguments(tools))


def _arguments(tools: int) -> list[str]:
    return ["-I", "-S", str(_HERE / "mcp_plain.py"), str(tools)]


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """The URL of the library's own server, in a process of its own."""
    # -P: in the folder of the script there are modules that are called like some of the standard library's.
    argv = (sys.executable, "-P", str(_HERE / "mcp_web.py"))
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}/mcp"
    finally:
        process.kill()
        await process.communicate()
