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

user_option = click.option("--user", metavar="NAME", help="The user of your program to sign in or out.")


@click.command("login")
@click.argument("server")
@user_option
@with_tools
def command(options: RuntimeOptions, server: str, user: str | None) -> None:
    """Sign in to the MCP server SERVER, by its name or its URL, in a browser.

    The tokens are stored, and refreshed for as long as the server allows.

    Exit codes: 0 signed in, 1 failed, 2 the server takes no sign-in, 4 refused, 5 no such server.
    """
    address, auth = find_login_server(options, server)
    with exit_on_login_error():
        record = run_coroutine(_log_in(auth, address, user))
    sys.stdout.write(f"{_success_message(record, address, user)}\n")


async def _log_in(auth: OAuth, address: HttpAddress, user: str | None) -> TokenRecord:
    # Imported here: it brings the MCP SDK, which takes a second to load.
    from surehand.providers.mcp.auth.login import log_in

    return await log_in(auth, address, user)


def _success_message(record: TokenRecord, address: HttpAddress, user: str | None) -> str:
    parts = [f"Signed in to {to_one_line(address.label)}"]
    if user is not None:
        parts.append(f"for {to_one_line(user)}")
    scopes = (record.tokens or {}).get("scope")
    if isinstance(scopes, str) and scopes:
        parts.append(f"with {to_one_line(scopes)}")
    if record.expires_at is not None:
        duration = format_duration(record.expires_at - time.time())
        parts.append(f"({duration}, then it is renewed)" if record.can_refresh else f"({duration})")
    return f"{' '.join(parts)}."


@contextmanager
def exit_on_login_error() -> Iterator[None]:
    """Turn errors of a sign-in into the end of the command."""
    try:
        yield
    except DefinitionError as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    except NotFound as error:
        raise CommandExit(EXIT_USAGE, to_one_line(str(error))) from error
    except ToolError as error:
        code = EXIT_REFUSED if isinstance(error, Denied) else EXIT_FAILED
        raise CommandExit(code, to_one_line(str(error))) from error


def find_login_server(options: RuntimeOptions, name: str) -> tuple[HttpAddress, OAuth]:
    """The address of the server, and its OAuth settings."""
    # Imported here, as below: these modules bring the MCP SDK, which takes a second to load.
    from surehand.providers.mcp.addresses.http import HttpAddress
    from surehand.providers.mcp.auth.oauth import OAuth, oauth

    with exit_on_login_error():
        address = _find_configured(options, name)
        if address is None:
            return HttpAddress(name), oauth()
        if not isinstance(address, HttpAddress) or not isinstance(address.auth, OAuth):
            raise NotFound(f"The server {name} takes no sign-in: it has no `auth: oauth`.")
        return address, address.auth


def _find_configured(options: RuntimeOptions, name: str) -> Any:
    """The address of the configured server with that name or URL; None for a URL that is not configured."""
    from surehand.providers.mcp.auth.token_files import canonical_url

    servers = mcp_servers_of(_build_runtime(options, name))
    by_name = {server.namespace: server for server in servers} | {server.configured_name: server for server in servers}
    if name in by_name:
        return resolve_address(by_name[name].address)
    if "://" in name:
        addresses = (resolve_address(server.address) for server in servers)
        with_url = (address for address in addresses if hasattr(address, "url"))
        return next((address for address in with_url if canonical_url(address.url) == canonical_url(name)), None)
    similar = nearest_names(name, [server.configured_name for server in servers], 1)
    hint = f" Did you mean {similar[0]!r}?" if similar else " Give its name in the configuration, or its URL."
    raise CommandExit(EXIT_NOT_FOUND, f"There is no MCP server {to_one_line(name)!r}.{hint}")


def _build_runtime(options: RuntimeOptions, name: str) -> Runtime | None:
    """The configured runtime; None if nothing is configured, which is enough to sign in to a URL."""
    try:
        return options.build_runtime()
    except CommandExit as command_exit:
        if "://" in name and command_exit.message == NO_TOOLS_MESSAGE:
            return None
        raise


def mcp_servers_of(runtime: Runtime | None) -> list[Any]:
    """The MCP servers of a runtime, which need not be started."""
    from surehand.providers.mcp.provider import Server

    return [provider for provider in runtime.providers if isinstance(provider, Server)] if runtime is not None else []


def resolve_address(address: Any) -> Any:
    """The address with its variables substituted."""
    from surehand.providers.mcp.config.deferred_address import DeferredAddress

    return address.resolve() if isinstance(address, DeferredAddress) else address
