"""A small server that tells what it was started with."""

import os
import sys

from mcp.server import MCPServer

server = MCPServer("speaking", version="1.2.3", log_level="WARNING")


@server.tool()
def told(names: list[str]) -> list[str | None]:
    """What some variables are, and the last word of the command."""
    return [*(os.environ.get(name) for name in names), sys.argv[-1]]


if __name__ == "__main__":
    server.run()
