"""The proxy that `mcp_proxy.py` measures: a runtime that serves the tools of one MCP server over MCP.

python mcp_proxy_server.py stdio|http URL|COMMAND...    over HTTP it prints its port, then serves.
"""

from __future__ import annotations

import sys
from typing import Any

from surehand import Runtime, gateway, mcp
from surehand.cli.lifecycle import fastest_loop_factory, run_coroutine


def proxy_runtime(target: str, *arguments: str) -> Runtime:
    options: dict[str, Any] = {"namespace": "behind", "manifest": False}
    if target.startswith("http://"):
        return Runtime(mcp.http(target, **options))
    return Runtime(mcp.stdio(target, *arguments, **options))


async def serve(front: str, runtime: Runtime) -> None:
    if front == "stdio":
        await gateway.mcp.serve(runtime, short_names=True)
    else:
        await serve_http(gateway.mcp.app(runtime, short_names=True))


async def serve_http(app: Any) -> None:
    """Serve on a free port, in the same way as `surehand mcp --http`."""
    [socket] = gateway.mcp.bind_sockets("127.0.0.1", 0)
    await gateway.mcp.listen(app, [socket], ready=lambda: print(socket.getsockname()[1], flush=True))


if __name__ == "__main__":
    run_coroutine(
        serve(sys.argv[1], proxy_runtime(*sys.argv[2:])), fastest_loop_factory() if sys.argv[1] == "http" else None
    )
