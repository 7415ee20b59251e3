"""Our proxy in front of an MCP server, which is named by its URL or its command.

python mcp_front.py stdio|http URL|COMMAND...    over HTTP it prints its port, and serves.
"""

from __future__ import annotations

import sys
from typing import Any

from surehand import Runtime, gateway, mcp
from surehand.cli.lifecycle import fastest_loop_factory, run_coroutine


def runtime(target: str, *arguments: str) -> Runtime:
    kept: dict[str, Any] = {"namespace": "behind", "manifest": False}
    if target.startswith("http://"):
        return Runtime(mcp.http(target, **kept))
    return Runtime(mcp.stdio(target, *arguments, **kept))


async def serve(front: str, proxied: Runtime) -> None:
    if front == "stdio":
        await gateway.mcp.serve(proxied, short_names=True)
    else:
        await over_http(gateway.mcp.app(proxied, short_names=True))


async def over_http(app: Any) -> None:
    """As `surehand mcp --http` does."""
    [socket] = gateway.mcp.bound("127.0.0.1", 0)
    await gateway.mcp.listen(app, [socket], ready=lambda: print(socket.getsockname()[1], flush=True))


if __name__ == "__main__":
    run_coroutine(serve(sys.argv[1], runtime(*sys.argv[2:])), fastest_loop_factory() if sys.argv[1] == "http" else None)
