"""`surehand store`: what is remembered, and making room."""

from __future__ import annotations

import sys
from typing import Any, get_args

import click
from rich.table import Table
from rich.text import Text

from surehand.cli.formatting import create_console, format_size, is_terminal, json_line
from surehand.cli.lifecycle import exit_on_store_error, open_store, run_coroutine
from surehand.cli.options import DurationParam, RuntimeOptions, relative_path, with_store
from surehand.config.store_address import hide_password, is_server_address
from surehand.store.migrations import MIGRATION_FILES
from surehand.store.migrations import apply_migrations as apply_missing
from surehand.store.postgres.database import PostgresDatabase
from surehand.store.retention import Retention
from surehand.store.sqlite.database import SqliteDatabase
from surehand.store.tables.ledger import LedgerState

DEFAULT_AGES = {
    "calls": "30d", "journal": "30d", "artifacts": "7d", "inbox": "7d", "events": "7d", "messages": "off",
    "runs": "90d", "idle": "1d",
}  # fmt: skip
"""How long each is kept unless the command says otherwise, as `Retention` has it."""
RETENTION_LABELS = {
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
def info(options: RuntimeOptions, as_json: bool) -> None:
    """Show version, size, and how much there is of everything."""
    address = options.require_store_address()
    found = run_coroutine(_load_info(address))
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.write(json_line({"store": hide_password(address), **found}))
    else:
        _print_info(address, found)


async def _load_info(address: str) -> dict[str, Any]:
    async with open_store(address) as store:
        return await store.info()


@command.command("migrate")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def migrate(options: RuntimeOptions, as_json: bool) -> None:
    """Make the store, or bring its tables up to date. Whatever opens a store does the same by itself."""
    address = options.require_store_address(may_be_new=True)
    applied = run_coroutine(_apply_migrations(address))
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.write(
            json_line({"store": hide_password(address), "version": len(MIGRATION_FILES), "applied": applied})
        )
        return
    done = f"brought up by {applied}" if applied else "nothing to do"
    sys.stdout.write(
        f"{relative_path(hide_password(address))} is of version {len(MIGRATION_FILES)}, the newest ({done}).\n"
    )


async def _apply_migrations(address: str) -> int:
    """How many migrations were missing. `Store.open` would apply them without a word."""
    with exit_on_store_error():
        database = await (PostgresDatabase(address) if is_server_address(address) else SqliteDatabase(address)).open()
        try:
            return await apply_missing(database)
        finally:
            await database.close()


def _age_options(command: Any) -> Any:
    """An option for each thing that can be forgotten."""
    for name, kept in reversed(DEFAULT_AGES.items()):
        told = f"Forget {RETENTION_LABELS[name]} after so long; off keeps them for ever."
        option = click.option(
            f"--{name}", type=DurationParam(allow_zero=True), metavar="AGE", default=kept, show_default=True, help=told
        )
        command = option(command)
    return command


@command.command("prune")
@_age_options
@click.option("--vacuum", is_flag=True, help="Give the room back to the disk; others wait meanwhile.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def prune(options: RuntimeOptions, vacuum: bool, as_json: bool, **ages: Any) -> None:
    """Forget what is over and old. What waits, runs or is unknown is never forgotten, nor is the audit."""
    found = run_coroutine(_prune(options.require_store_address(), Retention(**ages), vacuum))
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.write(json_line(found))
        return
    _print_counts(
        "forgotten",
        {
            RETENTION_LABELS[name]: number
            for name in DEFAULT_AGES
            if (number := found["forgotten"].get(name)) is not None
        },
    )
    sys.stdout.write(f"The store has {format_size(found['bytes'])}.\n")


async def _prune(address: str, retention: Retention, vacuum: bool) -> dict[str, Any]:
    async with open_store(address) as store:
        forgotten = await store.prune(retention, vacuum=vacuum)
        return {"forgotten": forgotten, "bytes": await store.database.size_bytes()}


def _print_info(address: str, store_info: dict[str, Any]) -> None:
    newest = (
        "the newest" if store_info["version"] == store_info["newest_version"] else f"of {store_info['newest_version']}"
    )
    about = Table.grid(padding=(0, 3, 0, 0))
    about.add_row(Text("store", style="bold"), Text(relative_path(hide_password(address)), overflow="fold"))
    about.add_row(Text("version", style="bold"), f"{store_info['version']}, {newest}")
    about.add_row(Text("size", style="bold"), format_size(store_info["bytes"]))
    about.add_row(Text("open waits", style="bold"), str(store_info["waiting"]))
    create_console().print(about)
    _print_counts(
        "calls by state",
        {state: store_info["calls"][state] for state in get_args(LedgerState) if state in store_info["calls"]},
    )
    _print_counts("rows by table", store_info["rows"])


def _print_counts(heading: str, counts: dict[str, int]) -> None:
    """A short list of numbers, each in front of what it counts."""
    if counts:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(justify="right", min_width=8)
        table.add_column(overflow="fold")
        for name, number in counts.items():
            style = "red" if name == "unknown" and number else "" if number else "dim"
            table.add_row(Text(f"{number:,}", style=style), Text(name, style=style))
        create_console().print(Text(heading, style="bold"))
        create_console().print(table)
