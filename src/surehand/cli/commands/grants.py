"""`surehand grants`: list the standing approvals."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict

import click
from rich.table import Table

from surehand.cli.formatting import create_console, format_duration, is_terminal, json_line, to_one_line
from surehand.cli.lifecycle import open_store, run_coroutine
from surehand.cli.options import RuntimeOptions, with_store
from surehand.store.tables.grants import Grant

user_option = click.option("--user", metavar="ID", help="Only approvals of this user; '' for calls without a user.")


@click.command("grants")
@user_option
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
def command(options: RuntimeOptions, user: str | None, as_json: bool) -> None:
    """List the standing approvals, by tool and user."""
    grants = run_coroutine(_load_grants(options.require_store_address(), user))
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.writelines(json_line(asdict(grant)) for grant in grants)
    elif grants:
        _print_grants(grants)
    if not grants:
        sys.stderr.write("There are no standing approvals.\n")


async def _load_grants(address: str, user: str | None) -> list[Grant]:
    async with open_store(address) as store:
        return await store.grants.list_grants(user)


def _print_grants(grants: list[Grant]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("Tool", style="cyan", overflow="fold")
    table.add_column("User", overflow="fold")
    has_sessions = any(grant.session for grant in grants)
    if has_sessions:
        table.add_column("Session", overflow="fold")
    table.add_column("Given by", overflow="fold")
    table.add_column("Since")
    table.add_column("Definition", style="dim")
    for grant in grants:
        since = f"{format_duration(time.time() - grant.given_at)} ago"
        session = [to_one_line(grant.session or "all")] if has_sessions else []
        table.add_row(
            to_one_line(grant.tool),
            to_one_line(grant.user or "-"),
            *session,
            to_one_line(grant.by or "-"),
            since,
            grant.definition[:8],
        )
    create_console().print(table)
