"""MCP servers as providers: `mcp.stdio("uvx", "mcp-server-git")`, `mcp.http("https://...")` and their like."""

from __future__ import annotations

from os import PathLike
from os.path import exists
from typing import TYPE_CHECKING, Any, Unpack

from surehand.core.errors import DefinitionError
from surehand.providers.mcp.auth.oauth import client_credentials, identity_assertion, oauth
from surehand.providers.mcp.options import ServerOptionArguments, ServerOptions
from surehand.providers.mcp.provider import Server

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surehand.http.settings import HttpSettings
    from surehand.providers.mcp.addresses.address import HeadersOrEnv
    from surehand.sandbox.sandbox import Sandbox, Unprotected

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
    env: HeadersOrEnv = None,
    cwd: str | PathLike[str] | None = None,
    sandbox: Sandbox | Unprotected | bool | None = None,
    max_frame: int | None = None,
    **options: Unpack[ServerOptionArguments],
) -> Server:
    """A server that is a command; it is started when first needed, and nothing of it outlives us.

    Args:
        env: environment variables beside the few that every program needs; or a function of whose connection it is.
        sandbox: what the command may see and reach; without one it may do all that this process may.
        max_frame: bytes that one message may have; 4 MiB unless said otherwise.
    """
    from surehand.providers.mcp.addresses.stdio import StdioAddress

    _validate_command(command, args)
    jail = _parse_sandbox(sandbox)
    more = {} if max_frame is None else {"max_frame": max_frame}
    return Server(
        StdioAddress(command, *args, env=env, cwd=cwd, sandbox=jail, **more), ServerOptions.from_mapping(options)
    )


def http(
    url: str,
    *,
    headers: HeadersOrEnv = None,
    auth: Any = None,
    settings: HttpSettings | None = None,
    max_frame: int | str | None = None,
    **options: Unpack[ServerOptionArguments],
) -> Server:
    """A server at a URL: streamable HTTP, or the older SSE where it does not know that.

    Args:
        headers: what to send along; or a function of whose connection it is.
        auth: `mcp.oauth(...)` or `mcp.client_credentials(...)`.
        settings: what may be reached beside the URL's own host, and within which limits.
    """
    from surehand.providers.mcp.addresses.http import HttpAddress

    _validate_url(url, "http")
    route = HttpAddress(url, headers=headers, auth=_parse_auth(auth), settings=settings, max_frame=max_frame)
    return Server(route, ServerOptions.from_mapping(options))


def sse(
    url: str,
    *,
    headers: HeadersOrEnv = None,
    auth: Any = None,
    settings: HttpSettings | None = None,
    max_frame: int | str | None = None,
    **options: Unpack[ServerOptionArguments],
) -> Server:
    """A server at a URL that speaks the older SSE alone."""
    from surehand.providers.mcp.addresses.http import SseAddress

    _validate_url(url, "http")
    route = SseAddress(url, headers=headers, auth=_parse_auth(auth), settings=settings, max_frame=max_frame)
    return Server(route, ServerOptions.from_mapping(options))


def websocket(
    url: str,
    *,
    headers: HeadersOrEnv = None,
    settings: HttpSettings | None = None,
    max_frame: int | str | None = None,
    **options: Unpack[ServerOptionArguments],
) -> Server:
    """A server behind a web socket: `ws://` or `wss://`."""
    from surehand.providers.mcp.addresses.websocket import WebSocketAddress

    _validate_url(url, "ws")
    more: Any = {} if max_frame is None else {"max_frame": max_frame}
    return Server(
        WebSocketAddress(url, headers=headers, settings=settings, **more), ServerOptions.from_mapping(options)
    )


def server(served: Any, **options: Unpack[ServerOptionArguments]) -> Server:
    """A server object of the MCP library, in this very process."""
    from surehand.providers.mcp.addresses.in_process import InProcessAddress

    return Server(InProcessAddress(served), ServerOptions.from_mapping({"manifest": False, **options}))


def servers(
    source: str | PathLike[str] | Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    **options: Unpack[ServerOptionArguments],
) -> list[Server]:
    """The servers of a file, or of a mapping, with a block `mcpServers` as other programs have it."""
    from surehand.providers.mcp.config.server_block import load_servers as read

    return read(source, environment=environment, **options)


def _validate_command(command: str, args: tuple[str, ...]) -> None:
    if "://" in command:
        raise DefinitionError(f"{command!r} is no command.", fix=f"a server at a URL is mcp.http({command!r}).")
    if len(words := command.split()) > 1 and not args and not exists(command):
        apart = ", ".join(map(repr, words))
        raise DefinitionError(f"There is no command {command!r}.", fix=f"give its words apart: mcp.stdio({apart}).")


def _validate_url(url: str, scheme: str) -> None:
    found, mark, _ = str(url).partition("://")
    way = {"http": "http", "https": "http", "ws": "ws", "wss": "ws"}.get(found.lower())
    if not mark:
        raise DefinitionError(
            f"{url!r} is no URL.", fix=f"write {scheme}://..., or {scheme}s://...; a command is mcp.stdio."
        )
    if way != scheme:
        other = {"http": "mcp.http", "ws": "mcp.websocket"}.get(way or "")
        fix = f"use {other}({url!r})." if other else f"write {scheme}://..., or {scheme}s://..."
        raise DefinitionError(f"{url!r} cannot be reached in this way.", fix=fix)


def _parse_sandbox(given: Any) -> Sandbox | Unprotected | None:
    from surehand.sandbox.sandbox import Sandbox, Unprotected

    if given in (None, False):
        return None
    if given is not True and not isinstance(given, (Sandbox, Unprotected)):
        raise DefinitionError(f"sandbox={given!r} cannot be used.", fix="give a Sandbox(...), or True.")
    return Sandbox() if given is True else given


def _parse_auth(given: Any) -> Any:
    if given == "oauth":
        return oauth()
    if given is not None and not hasattr(given, "auth_for"):
        raise DefinitionError(
            f"auth={given!r} cannot be used.", fix="give mcp.oauth(...) or mcp.client_credentials(...)."
        )
    return given
