"""MCP servers as providers: the public factories `mcp.stdio("uvx", "mcp-server-git")`, `mcp.http("https://...")`.

Each returns a `Server`. Importing this package must not import the MCP SDK, which takes about a second to load.
"""

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
    from surehand.providers.mcp.connection_owner import HeadersOrEnv
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
    """A server started as a child process on first use, and stopped with everything that it started.

    Args:
        env: environment variables, in addition to the few that every program needs; or a function of the
            `ConnectionOwner` that returns them.
        sandbox: what the command may read, write and reach; without one it has the rights of this process.
        max_frame: largest message in bytes; 4 MiB by default.
    """
    from surehand.providers.mcp.addresses.stdio import StdioAddress  # loads the sandbox

    _validate_command(command, args)
    limits: dict[str, Any] = {} if max_frame is None else {"max_frame": max_frame}
    address = StdioAddress(command, *args, env=env, cwd=cwd, sandbox=_parse_sandbox(sandbox), **limits)
    return Server(address, ServerOptions.from_mapping(options))


def http(
    url: str,
    *,
    headers: HeadersOrEnv = None,
    auth: Any = None,
    settings: HttpSettings | None = None,
    max_frame: int | str | None = None,
    **options: Unpack[ServerOptionArguments],
) -> Server:
    """A server at a URL, over streamable HTTP; over HTTP with SSE if the server supports only that.

    Args:
        headers: headers of every request; or a function of the `ConnectionOwner` that returns them.
        auth: `mcp.oauth(...)`, `mcp.client_credentials(...)` or `mcp.identity_assertion(...)`.
        settings: which hosts may be reached in addition to the URL's own, and within which limits.
    """
    from surehand.providers.mcp.addresses.http import HttpAddress  # loads the HTTP client

    _validate_url(url, "http")
    address = HttpAddress(url, headers=headers, auth=_parse_auth(auth), settings=settings, max_frame=max_frame)
    return Server(address, ServerOptions.from_mapping(options))


def sse(
    url: str,
    *,
    headers: HeadersOrEnv = None,
    auth: Any = None,
    settings: HttpSettings | None = None,
    max_frame: int | str | None = None,
    **options: Unpack[ServerOptionArguments],
) -> Server:
    """A server at a URL whose documentation names HTTP with SSE. Streamable HTTP, its successor, is tried first."""
    from surehand.providers.mcp.addresses.http import SseAddress  # loads the HTTP client

    _validate_url(url, "http")
    address = SseAddress(url, headers=headers, auth=_parse_auth(auth), settings=settings, max_frame=max_frame)
    return Server(address, ServerOptions.from_mapping(options))


def websocket(
    url: str,
    *,
    headers: HeadersOrEnv = None,
    settings: HttpSettings | None = None,
    max_frame: int | str | None = None,
    **options: Unpack[ServerOptionArguments],
) -> Server:
    """A server at a WebSocket URL, `ws://` or `wss://`."""
    from surehand.providers.mcp.addresses.websocket import WebSocketAddress  # loads the HTTP client

    _validate_url(url, "ws")
    limits: Any = {} if max_frame is None else {"max_frame": max_frame}
    address = WebSocketAddress(url, headers=headers, settings=settings, **limits)
    return Server(address, ServerOptions.from_mapping(options))


def server(served: Any, **options: Unpack[ServerOptionArguments]) -> Server:
    """A server object of the MCP SDK in this process, called without a transport."""
    from surehand.providers.mcp.addresses.in_process import InProcessAddress  # few programs use it

    return Server(InProcessAddress(served), ServerOptions.from_mapping({"manifest": False, **options}))


def servers(
    source: str | PathLike[str] | Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    **options: Unpack[ServerOptionArguments],
) -> list[Server]:
    """The servers of a configuration file or mapping with an `mcpServers` block, as other MCP clients write it."""
    from surehand.providers.mcp.config.server_block import load_servers  # only programs with such a file need it

    return load_servers(source, environment=environment, **options)


def _validate_command(command: str, args: tuple[str, ...]) -> None:
    if "://" in command:
        raise DefinitionError(f"mcp.stdio takes a command, got the URL {command!r}.", fix=f"use mcp.http({command!r}).")
    words = command.split()
    if len(words) > 1 and not args and not exists(command):
        separate = ", ".join(map(repr, words))
        raise DefinitionError(
            f"The command {command!r} does not exist.",
            fix=f"give its words as separate arguments: mcp.stdio({separate}).",
        )


def _validate_url(url: str, family: str) -> None:
    """Check the scheme of a URL. `family` is "http" or "ws", and covers the encrypted scheme too."""
    scheme, separator, _ = str(url).partition("://")
    if not separator:
        raise DefinitionError(
            f"{url!r} is not a URL.",
            fix=f"write {family}://... or {family}s://...; for a command use mcp.stdio.",
        )
    given_family = {"http": "http", "https": "http", "ws": "ws", "wss": "ws"}.get(scheme.lower())
    if given_family != family:
        factory = {"http": "mcp.http", "ws": "mcp.websocket"}.get(given_family or "")
        fix = f"use {factory}({url!r})." if factory else f"write {family}://... or {family}s://..."
        raise DefinitionError(f"{url!r} has the wrong scheme.", fix=fix)


def _parse_sandbox(value: Any) -> Sandbox | Unprotected | None:
    from surehand.sandbox.sandbox import Sandbox, Unprotected  # only stdio servers need it

    if value in (None, False):
        return None
    if value is True:
        return Sandbox()
    if not isinstance(value, (Sandbox, Unprotected)):
        raise DefinitionError(f"sandbox={value!r} is not a sandbox.", fix="give a Sandbox(...), or True.")
    return value


def _parse_auth(value: Any) -> Any:
    if value == "oauth":
        return oauth()
    if value is not None and not hasattr(value, "auth_for"):
        raise DefinitionError(
            f"auth={value!r} is not supported.", fix="give mcp.oauth(...) or mcp.client_credentials(...)."
        )
    return value
