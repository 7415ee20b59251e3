"""`surehand store`: what is remembered, and making room."""

from __future__ import annotations

import sys
from typing import Any, get_args

import click
from rich.table import Table
from rich.text import Text

from surehand.cli.durations import Duration
from surehand.cli.opening import opened, refusals
from surehand.cli.options import Given, near, with_store
from surehand.cli.run import run
from surehand.cli.screen import console, is_person, line, size
from surehand.config.address import is_server, without_password
from surehand.store.ledger import State
from surehand.store.opening import MIGRATIONS
from surehand.store.opening import migrate as apply_missing
from surehand.store.postgres import Postgres
from surehand.store.retention import Retention
from surehand.store.sqlite import Sqlite

KEPT = {
    "calls": "30d", "journal": "30d", "artifacts": "7d", "inbox": "7d", "events": "7d", "messages": "off",
    "runs": "90d", "idle": "1d",
}  # fmt: skip
"""How long each is kept unless the command says otherwise, as `Retention` has it."""
OVER = {
    "calls": "ended calls",
    "journal": "lines of the journal",
    "artifacts": "large outputs",
    "inbox": "inbox events that were dealt with, or are for no agent",
    "events": "events of spaces and runs",
    "messages": "messages of spaces",
    "runs": "ended runs of agents",
    "idle": "ids of calls that came to nothing",
}


@click.group("store")
def command() -> None:
    """Look at what is remembered, bring it up to date, or make room."""


@command.command("info")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def info(given: Given, as_json: bool) -> None:
    """Show version, size, and how much there is of everything."""
    address = given.address()
    found = run(_info(address))
    if as_json or not is_person(sys.stdout):
        sys.stdout.write(line({"store": without_password(address), **found}))
    else:
        _show(address, found)


async def _info(address: str) -> dict[str, Any]:
    async with opened(address) as store:
        return await store.info()


@command.command("migrate")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def migrate(given: Given, as_json: bool) -> None:
    """Make the store, or bring its tables up to date. Whatever opens a store does the same by itself."""
    address = given.address(new=True)
    applied = run(_migrate(address))
    if as_json or not is_person(sys.stdout):
        sys.stdout.write(line({"store": without_password(address), "version": len(MIGRATIONS), "applied": applied}))
        return
    done = f"brought up by {applied}" if applied else "nothing to do"
    sys.stdout.write(f"{near(without_password(address))} is of version {len(MIGRATIONS)}, the newest ({done}).\n")


async def _migrate(address: str) -> int:
    """How many migrations were missing. `Store.open` would apply them without a word."""
    with refusals():
        database = await (Postgres(address) if is_server(address) else Sqlite(address)).open()
        try:
            return await apply_missing(database)
        finally:
            await database.close()


def _ages(command: Any) -> Any:
    """An option for each thing that can be forgotten."""
    for name, kept in reversed(KEPT.items()):
        told = f"Forget {OVER[name]} after so long; off keeps them for ever."
        option = click.option(
            f"--{name}", type=Duration(zero=True), metavar="AGE", default=kept, show_default=True, help=told
        )
        command = option(command)
    return command


@command.command("prune")
@_ages
@click.option("--vacuum", is_flag=True, help="Give the room back to the disk; others wait meanwhile.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def prune(given: Given, vacuum: bool, as_json: bool, **ages: Any) -> None:
    """Forget what is over and old. What waits, runs or is unknown is never forgotten, nor is the audit."""
    found = run(_prune(given.address(), Retention(**ages), vacuum))
    if as_json or not is_person(sys.stdout):
        sys.stdout.write(line(found))
        return
    _print("forgotten", {OVER[name]: number for name in KEPT if (number := found["forgotten"].get(name)) is not None})
    sys.stdout.write(f"The store has {size(found['bytes'])}.\n")


async def _prune(address: str, retention: Retention, vacuum: bool) -> dict[str, Any]:
    async with opened(address) as store:
        forgotten = await store.prune(retention, vacuum=vacuum)
        return {"forgotten": forgotten, "bytes": await store.database.size()}


def _show(address: str, found: dict[str, Any]) -> None:
    newest = "the newest" if found["version"] == found["newest_version"] else f"of {found['newest_version']}"
    about = Table.grid(padding=(0, 3, 0, 0))
    about.add_row(Text("store", style="bold"), Text(near(without_password(address)), overflow="fold"))
    about.add_row(Text("version", style="bold"), f"{found['version']}, {newest}")
    about.add_row(Text("size", style="bold"), size(found["bytes"]))
    about.add_row(Text("open waits", style="bold"), str(found["waiting"]))
    console().print(about)
    _print("calls by state", {state: found["calls"][state] for state in get_args(State) if state in found["calls"]})
    _print("rows by table", found["rows"])


def _print(heading: str, numbers: dict[str, int]) -> None:
    """A short list of numbers, each in front of what it counts."""
    if numbers:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(justify="right", min_width=8)
        table.add_column(overflow="fold")
        for name, number in numbers.items():
            style = "red" if name == "unknown" and number else "" if number else "dim"
            table.add_row(Text(f"{number:,}", style=style), Text(name, style=style))
        console().print(Text(heading, style="bold"))
        console().print(table)
