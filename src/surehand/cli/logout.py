"""`surehand logout`: forget a sign-in to an MCP server."""

from __future__ import annotations

import sys

import click

from surehand.cli.login import found, refusals, user_option
from surehand.cli.options import Given, with_tools
from surehand.cli.run import run
from surehand.cli.screen import one_line


@click.command("logout")
@click.argument("server")
@user_option
@with_tools
def command(given: Given, server: str, user: str | None) -> None:
    """Forget the sign-in to the MCP server SERVER, by its name or its URL.

    Exit codes: 0 forgotten, or there was none, 2 the server cannot be signed in to, 5 no such server.
    """
    route, auth = found(given, server)
    with refusals():
        forgotten = run(auth.tokens.of(route.url, user).forget())
    whose = f" of {one_line(user)}" if user is not None else ""
    said = "Forgot the sign-in" if forgotten else "There was no sign-in"
    sys.stdout.write(f"{said}{whose} to {one_line(route.label)}.\n")
