"""`surehand grants`: who need not be asked any more, and for what."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict

import click
from rich.table import Table

from surehand.cli.opening import opened
from surehand.cli.options import Given, with_store
from surehand.cli.run import run
from surehand.cli.screen import console, duration, is_person, line, one_line
from surehand.store.grants import Grant

user_option = click.option("--user", metavar="ID", help="Only those of this user; '' for calls without one.")


@click.command("grants")
@user_option
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
def command(given: Given, user: str | None, as_json: bool) -> None:
    """List the standing approvals, by tool and user."""
    found = run(_grants(given.address(), user))
    if as_json or not is_person(sys.stdout):
        sys.stdout.writelines(line(asdict(grant)) for grant in found)
    elif found:
        _show(found)
    if not found:
        sys.stderr.write("Nothing is granted.\n")


async def _grants(address: str, user: str | None) -> list[Grant]:
    async with opened(address) as store:
        return await store.grants.listed(user)


def _show(grants: list[Grant]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("Tool", style="cyan", overflow="fold")
    table.add_column("User", overflow="fold")
    table.add_column("Given by", overflow="fold")
    table.add_column("Since")
    table.add_column("Definition", style="dim")
    for grant in grants:
        since = f"{duration(time.time() - grant.given_at)} ago"
        table.add_row(
            one_line(grant.tool), one_line(grant.user or "-"), one_line(grant.by or "-"), since, grant.definition[:8]
        )
    console().print(table)
