"""`surehand logout`: forget a sign-in to an MCP server."""

from __future__ import annotations

import sys

import click

from surehand.cli.commands.login import exit_on_login_error, find_login_server, user_option
from surehand.cli.formatting import to_one_line
from surehand.cli.lifecycle import run_coroutine
from surehand.cli.options import RuntimeOptions, with_tools


@click.command("logout")
@click.argument("server")
@user_option
@with_tools
def command(options: RuntimeOptions, server: str, user: str | None) -> None:
    """Forget the sign-in to the MCP server SERVER, by its name or its URL.

    Exit codes: 0 forgotten, or there was none, 2 the server cannot be signed in to, 5 no such server.
    """
    route, auth = find_login_server(options, server)
    with exit_on_login_error():
        forgotten = run_coroutine(auth.tokens.file_for(route.url, user).delete())
    whose = f" of {to_one_line(user)}" if user is not None else ""
    said = "Forgot the sign-in" if forgotten else "There was no sign-in"
    sys.stdout.write(f"{said}{whose} to {to_one_line(route.label)}.\n")
