"""A runtime as an MCP server, in both protocols: over stdio, over HTTP, or over a transport of the application.

The names below are imported on first use, because the MCP SDK and uvicorn take about a second to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surehand.core.errors import DefinitionError
from surehand.core.extras import install_command

if TYPE_CHECKING:
    from surehand.gateway.mcp.http.app import app as app
    from surehand.gateway.mcp.http.server import bind_sockets as bind_sockets
    from surehand.gateway.mcp.http.server import listen as listen
    from surehand.gateway.mcp.runtime_server import server as server
    from surehand.gateway.mcp.stdio.serve import serve as serve

__all__ = ["app", "bind_sockets", "listen", "serve", "server"]

_MODULE_OF_NAME = {
    "app": "http.app",
    "bind_sockets": "http.server",
    "listen": "http.server",
    "serve": "stdio.serve",
    "server": "runtime_server",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == __name__.partition(".")[0]:
            raise
        extras = ("mcp", "server") if _MODULE_OF_NAME[name].startswith("http.") else ("mcp",)
        raise DefinitionError(f"Serving over MCP needs {missing}.", fix=install_command(*extras)) from error
