"""`surehand login`: sign in to an MCP server."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from surehand.cli.exits import FAILED, REFUSED, UNKNOWN, USAGE, Ended
from surehand.cli.options import NOTHING, Given, shown, with_tools
from surehand.cli.run import run
from surehand.cli.screen import duration, one_line
from surehand.core.errors import DefinitionError, Denied, NotFound, ToolError
from surehand.core.names import nearest

if TYPE_CHECKING:
    from surehand.providers.mcp.addresses.http import Http
    from surehand.providers.mcp.auth.kept import SignIn
    from surehand.providers.mcp.auth.oauth import OAuth
    from surehand.runtime.runtime import Runtime

user_option = click.option("--user", metavar="NAME", help="For a user of your program, and not for yourself.")


@click.command("login")
@click.argument("server")
@user_option
@with_tools
def command(given: Given, server: str, user: str | None) -> None:
    """Sign in to the MCP server SERVER, by its name or its URL, in a browser.

    The sign-in is kept, and renewed for as long as the server lets it.

    Exit codes: 0 signed in, 1 failed, 2 the server cannot be signed in to, 4 refused, 5 no such server.
    """
    route, auth = found(given, server)
    with refusals():
        signed_in = run(_log_in(auth, route, user))
    sys.stdout.write(f"{_told(signed_in, route, user)}\n")


async def _log_in(auth: OAuth, route: Http, user: str | None) -> SignIn:
    from surehand.providers.mcp.auth.login import log_in

    return await log_in(auth, route, user)


def _told(signed_in: SignIn, route: Http, user: str | None) -> str:
    scopes = (signed_in.tokens or {}).get("scope")
    parts = [f"Signed in to {one_line(route.label)}", *([f"for {one_line(user)}"] if user is not None else [])]
    parts += [f"with {one_line(scopes)}"] if isinstance(scopes, str) and scopes else []
    if signed_in.expires_at is not None:
        lasts = duration(signed_in.expires_at - time.time())
        parts.append(f"({lasts}, then it is renewed)" if signed_in.renewable else f"({lasts})")
    return f"{' '.join(parts)}."


@contextmanager
def refusals() -> Iterator[None]:
    """What goes wrong, as the end of a command."""
    try:
        yield
    except DefinitionError as error:
        raise Ended(USAGE, shown(error)) from error
    except NotFound as error:
        raise Ended(USAGE, one_line(str(error))) from error
    except ToolError as error:
        raise Ended(REFUSED if isinstance(error, Denied) else FAILED, one_line(str(error))) from error


def found(given: Given, name: str) -> tuple[Http, OAuth]:
    """The server that is meant, and how one signs in to it."""
    from surehand.providers.mcp.addresses.http import Http
    from surehand.providers.mcp.auth.oauth import OAuth, oauth

    with refusals():
        route = _known(given, name)
        if route is None:
            return Http(name), oauth()
        auth = getattr(route, "auth", None)
        if not isinstance(route, Http) or not isinstance(auth, OAuth):
            raise NotFound(f"Nobody signs in to {name}: it has no `auth: oauth`.")
        return route, auth


def _known(given: Given, name: str) -> Any:
    """The way to the server of that name or URL; None for a URL that nobody has written down."""
    from surehand.providers.mcp.auth.tokens import address

    servers = servers_of(_assembled(given, name))
    named = {each.namespace: each for each in servers} | {each.written_as: each for each in servers}
    if name in named:
        return web_of(named[name].route)
    if "://" in name:
        ways = (web_of(each.route) for each in servers)
        return next((each for each in ways if hasattr(each, "url") and address(each.url) == address(name)), None)
    near = nearest(name, [each.written_as for each in servers], 1)
    hint = f" Did you mean {near[0]!r}?" if near else " Give its name in the configuration, or its URL."
    raise Ended(UNKNOWN, f"There is no MCP server {one_line(name)!r}.{hint}")


def _assembled(given: Given, name: str) -> Runtime | None:
    try:
        return given.assembled()
    except Ended as ended:
        if "://" in name and ended.problem == NOTHING:
            return None
        raise


def servers_of(runtime: Runtime | None) -> list[Any]:
    """The MCP servers of a runtime that has not been started, and need not be."""
    return [each for each in runtime.providers if hasattr(each, "route")] if runtime is not None else []


def web_of(route: Any) -> Any:
    """The way itself, with its variables filled in."""
    return route.now() if hasattr(route, "now") else route
