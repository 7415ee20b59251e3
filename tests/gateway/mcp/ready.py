"""A process that has imported all that serving over MCP needs, and becomes one that serves, by a fork."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from tests.cli.ready import become, forked, warm

NEEDED = (
    *(f"toolwright.gateway.mcp.{name}" for name in ("pipe.stdio", "web.app", "web.port")),
    *("mcp.server.auth.provider", "uvicorn.lifespan.off", "uvicorn.loops.asyncio", "sse_starlette"),
)


def main() -> None:
    for name in NEEDED:
        import_module(name)
    warm()
    gc.freeze()
    become(*forked(sys.argv[1]))
    from toolwright.cli.main import main as command

    command()
