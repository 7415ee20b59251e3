"""`surehand logout`: delete the stored tokens of an MCP server."""

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
    """Sign out of the MCP server SERVER, by its name or its URL: delete the stored tokens.

    Exit codes: 0 signed out, or not signed in, 2 the server takes no sign-in, 5 no such server.
    """
    address, auth = find_login_server(options, server)
    with exit_on_login_error():
        was_signed_in = run_coroutine(auth.tokens.file_for(address.url, user).delete())
    whose = f" of {to_one_line(user)}" if user is not None else ""
    message = "Forgot the sign-in" if was_signed_in else "There was no sign-in"
    sys.stdout.write(f"{message}{whose} to {to_one_line(address.label)}.\n")
