"""MCP servers as providers: `mcp.stdio("uvx", "mcp-server-git")`, `mcp.http("https://...")` and their like."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from toolwright.providers.mcp.auth.oauth import client_credentials, identity_assertion, oauth
from toolwright.providers.mcp.options import Given, Options
from toolwright.providers.mcp.provider import Server

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolwright.outgoing.settings import Settings
    from toolwright.providers.mcp.routes.route import Texts
    from toolwright.sandbox.sandbox import Sandbox, Unprotected

__all__ = [
    "Server",
    "client_credentials",
    "http",
    "identity_assertion",
    "oauth",
    "server",
    "servers",
    "sse",
    "stdio",
    "websocket",
]


def stdio(
    command: str,
    *args: str,
    env: Texts = None,
    cwd: str | PathLike[str] | None = None,
    sandbox: Sandbox | Unprotected | None = None,
    max_frame: int | None = None,
    **options: Unpack[Given],
) -> Server:
    """A server that is a command; it is started when first needed, and nothing of it outlives us.

    Args:
        env: environment variables beside the few that every program needs; or a function of whose connection it is.
        sandbox: what the command may see and reach; without one it may do all that this process may.
        max_frame: bytes that one message may have; 4 MiB unless said otherwise.
    """
    from toolwright.providers.mcp.routes.stdio import Stdio

    more = {} if max_frame is None else {"max_frame": max_frame}
    return Server(Stdio(command, *args, env=env, cwd=cwd, sandbox=sandbox, **more), Options.of(options))


def http(
    url: str,
    *,
    headers: Texts = None,
    auth: Any = None,
    settings: Settings | None = None,
    max_frame: int | str | None = None,
    **options: Unpack[Given],
) -> Server:
    """A server at a URL: streamable HTTP, or the older SSE where it does not know that.

    Args:
        headers: what to send along; or a function of whose connection it is.
        auth: `mcp.oauth(...)` or `mcp.client_credentials(...)`.
        settings: what may be reached beside the URL's own host, and within which limits.
    """
    from toolwright.providers.mcp.routes.web import Http

    route = Http(url, headers=headers, auth=auth, settings=settings, max_frame=max_frame)
    return Server(route, Options.of(options))


def sse(
    url: str,
    *,
    headers: Texts = None,
    auth: Any = None,
    settings: Settings | None = None,
    max_frame: int | str | None = None,
    **options: Unpack[Given],
) -> Server:
    """A server at a URL that speaks the older SSE alone."""
    from toolwright.providers.mcp.routes.web import Sse

    route = Sse(url, headers=headers, auth=auth, settings=settings, max_frame=max_frame)
    return Server(route, Options.of(options))


def websocket(
    url: str,
    *,
    headers: Texts = None,
    settings: Settings | None = None,
    max_frame: int | str | None = None,
    **options: Unpack[Given],
) -> Server:
    """A server behind a web socket: `ws://` or `wss://`."""
    from toolwright.providers.mcp.routes.websocket import WebSocket

    more: Any = {} if max_frame is None else {"max_frame": max_frame}
    return Server(WebSocket(url, headers=headers, settings=settings, **more), Options.of(options))


def server(served: Any, **options: Unpack[Given]) -> Server:
    """A server object of the MCP library, in this very process."""
    from toolwright.providers.mcp.routes.memory import Memory

    return Server(Memory(served), Options.of({"manifest": False, **options}))


def servers(
    source: str | PathLike[str] | Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    **options: Unpack[Given],
) -> list[Server]:
    """The servers of a file, or of a mapping, with a block `mcpServers` as other programs have it."""
    from toolwright.providers.mcp.written.entries import servers as read

    return read(source, environment=environment, **options)
