"""`surehand login`: sign in to an MCP server."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from surehand.cli.exit_codes import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE, CommandExit
from surehand.cli.formatting import format_duration, to_one_line
from surehand.cli.lifecycle import run_coroutine
from surehand.cli.options import NO_TOOLS_MESSAGE, RuntimeOptions, error_message, with_tools
from surehand.core.errors import DefinitionError, Denied, NotFound, ToolError
from surehand.core.names import nearest_names

if TYPE_CHECKING:
    from surehand.providers.mcp.addresses.http import HttpAddress
    from surehand.providers.mcp.auth.oauth import OAuth
    from surehand.providers.mcp.auth.token_store import TokenRecord
    from surehand.runtime.runtime import Runtime

user_option = click.option("--user", metavar="NAME", help="For a user of your program, and not for yourself.")


@click.command("login")
@click.argument("server")
@user_option
@with_tools
def command(options: RuntimeOptions, server: str, user: str | None) -> None:
    """Sign in to the MCP server SERVER, by its name or its URL, in a browser.

    The sign-in is kept, and renewed for as long as the server lets it.

    Exit codes: 0 signed in, 1 failed, 2 the server cannot be signed in to, 4 refused, 5 no such server.
    """
    route, auth = find_login_server(options, server)
    with exit_on_login_error():
        signed_in = run_coroutine(_log_in(auth, route, user))
    sys.stdout.write(f"{_success_message(signed_in, route, user)}\n")


async def _log_in(auth: OAuth, route: HttpAddress, user: str | None) -> TokenRecord:
    from surehand.providers.mcp.auth.login import log_in

    return await log_in(auth, route, user)


def _success_message(sign_in: TokenRecord, route: HttpAddress, user: str | None) -> str:
    scopes = (sign_in.tokens or {}).get("scope")
    parts = [f"Signed in to {to_one_line(route.label)}", *([f"for {to_one_line(user)}"] if user is not None else [])]
    parts += [f"with {to_one_line(scopes)}"] if isinstance(scopes, str) and scopes else []
    if sign_in.expires_at is not None:
        lasts = format_duration(sign_in.expires_at - time.time())
        parts.append(f"({lasts}, then it is renewed)" if sign_in.can_refresh else f"({lasts})")
    return f"{' '.join(parts)}."


@contextmanager
def exit_on_login_error() -> Iterator[None]:
    """What goes wrong, as the end of a command."""
    try:
        yield
    except DefinitionError as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    except NotFound as error:
        raise CommandExit(EXIT_USAGE, to_one_line(str(error))) from error
    except ToolError as error:
        raise CommandExit(
            EXIT_REFUSED if isinstance(error, Denied) else EXIT_FAILED, to_one_line(str(error))
        ) from error


def find_login_server(options: RuntimeOptions, name: str) -> tuple[HttpAddress, OAuth]:
    """The server that is meant, and how one signs in to it."""
    from surehand.providers.mcp.addresses.http import HttpAddress
    from surehand.providers.mcp.auth.oauth import OAuth, oauth

    with exit_on_login_error():
        route = _find_configured(options, name)
        if route is None:
            return HttpAddress(name), oauth()
        auth = getattr(route, "auth", None)
        if not isinstance(route, HttpAddress) or not isinstance(auth, OAuth):
            raise NotFound(f"Nobody signs in to {name}: it has no `auth: oauth`.")
        return route, auth


def _find_configured(options: RuntimeOptions, name: str) -> Any:
    """The way to the server of that name or URL; None for a URL that nobody has written down."""
    from surehand.providers.mcp.auth.token_files import canonical_url

    servers = mcp_servers_of(_build_runtime(options, name))
    named = {each.namespace: each for each in servers} | {each.configured_name: each for each in servers}
    if name in named:
        return resolve_route(named[name].address)
    if "://" in name:
        ways = (resolve_route(each.address) for each in servers)
        return next(
            (each for each in ways if hasattr(each, "url") and canonical_url(each.url) == canonical_url(name)), None
        )
    near = nearest_names(name, [each.configured_name for each in servers], 1)
    hint = f" Did you mean {near[0]!r}?" if near else " Give its name in the configuration, or its URL."
    raise CommandExit(EXIT_NOT_FOUND, f"There is no MCP server {to_one_line(name)!r}.{hint}")


def _build_runtime(options: RuntimeOptions, name: str) -> Runtime | None:
    try:
        return options.build_runtime()
    except CommandExit as ended:
        if "://" in name and ended.message == NO_TOOLS_MESSAGE:
            return None
        raise


def mcp_servers_of(runtime: Runtime | None) -> list[Any]:
    """The MCP servers of a runtime that has not been started, and need not be."""
    return [each for each in runtime.providers if hasattr(each, "route")] if runtime is not None else []


def resolve_route(route: Any) -> Any:
    """The way itself, with its variables filled in."""
    return route.now() if hasattr(route, "now") else route
