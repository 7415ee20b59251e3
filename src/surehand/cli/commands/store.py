"""`surehand store`: inspect, migrate and prune the store."""

from __future__ import annotations

import sys
from typing import Any, get_args

import click
from rich.table import Table
from rich.text import Text

from surehand.cli.formatting import create_console, format_size, is_terminal, json_line
from surehand.cli.lifecycle import exit_on_store_error, open_store, open_store_for_reading, run_coroutine
from surehand.cli.options import DurationParam, RuntimeOptions, relative_path, with_store
from surehand.config.store_address import hide_password, is_server_address
from surehand.store.migrations import MIGRATION_FILES, apply_migrations
from surehand.store.postgres.database import PostgresDatabase
from surehand.store.retention import Retention
from surehand.store.sqlite.database import SqliteDatabase
from surehand.store.tables.ledger import LedgerState

DEFAULT_AGES = {
    "calls": "30d", "journal": "30d", "artifacts": "7d", "inbox": "7d", "events": "7d", "messages": "off",
    "runs": "90d", "idle": "1d", "offers": "30d",
}  # fmt: skip
"""Default ages of `prune`, the same as those of `Retention`."""
RETENTION_LABELS = {
    "calls": "ended calls",
    "journal": "rows of the journal",
    "artifacts": "large outputs",
    "inbox": "inbox events that were handled, or have no agent",
    "events": "events of spaces and runs",
    "messages": "messages of spaces",
    "runs": "ended runs of agents",
    "idle": "ids of calls that never ran",
    "offers": "tools and active spaces of sessions",
}


@click.group("store")
def command() -> None:
    """Inspect the store, migrate its schema, or delete old rows."""


@command.command("info")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def info(options: RuntimeOptions, as_json: bool) -> None:
    """Show the schema version, the size, and the number of calls and rows."""
    address = options.require_store_address()
    store_info = run_coroutine(_load_info(address))
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.write(json_line({"store": hide_password(address), **store_info}))
    else:
        _print_info(address, store_info)


async def _load_info(address: str) -> dict[str, Any]:
    async with open_store_for_reading(address) as store:
        return await store.info()


@command.command("migrate")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def migrate(options: RuntimeOptions, as_json: bool) -> None:
    """Create the store, or migrate its schema to the newest version. Opening a store does the same."""
    address = options.require_store_address(may_be_new=True)
    applied = run_coroutine(_apply_migrations(address))
    if as_json or not is_terminal(sys.stdout):
        record = {"store": hide_password(address), "version": len(MIGRATION_FILES), "applied": applied}
        sys.stdout.write(json_line(record))
        return
    name = relative_path(hide_password(address))
    applied_text = f"{applied} migrations applied" if applied else "nothing to do"
    sys.stdout.write(f"{name} has version {len(MIGRATION_FILES)}, the newest ({applied_text}).\n")


async def _apply_migrations(address: str) -> int:
    """Apply the missing migrations and return their number, which `Store.open` does not report."""
    with exit_on_store_error():
        driver = PostgresDatabase if is_server_address(address) else SqliteDatabase
        database = await driver(address).open()
        try:
            return await apply_migrations(database)
        finally:
            await database.close()


def _age_options(command: Any) -> Any:
    """Add an option with the maximum age of each kind of row."""
    age = DurationParam(allow_zero=True)
    for name, default in reversed(DEFAULT_AGES.items()):
        help_text = f"Delete {RETENTION_LABELS[name]} after this time; off keeps them."
        option = click.option(f"--{name}", type=age, metavar="AGE", default=default, show_default=True, help=help_text)
        command = option(command)
    return command


@command.command("prune")
@_age_options
@click.option("--vacuum", is_flag=True, help="Return free space to the disk; blocks other writers meanwhile.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def prune(options: RuntimeOptions, vacuum: bool, as_json: bool, **ages: Any) -> None:
    """Delete old rows. Pending, running and unknown calls are never deleted, nor is the audit."""
    result = run_coroutine(_prune(options.require_store_address(), Retention(**ages), vacuum))
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.write(json_line(result))
        return
    deleted = result["forgotten"]
    _print_counts("deleted", {RETENTION_LABELS[name]: deleted[name] for name in DEFAULT_AGES if name in deleted})
    sys.stdout.write(f"The store has {format_size(result['bytes'])}.\n")


async def _prune(address: str, retention: Retention, vacuum: bool) -> dict[str, Any]:
    async with open_store(address) as store:
        deleted = await store.prune(retention, vacuum=vacuum)
        return {"forgotten": deleted, "bytes": await store.database.size_bytes()}


def _print_info(address: str, store_info: dict[str, Any]) -> None:
    version = store_info["version"]
    newest_version = store_info["newest_version"]
    newest = "the newest" if version == newest_version else f"of {newest_version}"
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_row(Text("store", style="bold"), Text(relative_path(hide_password(address)), overflow="fold"))
    table.add_row(Text("version", style="bold"), f"{version}, {newest}")
    table.add_row(Text("size", style="bold"), format_size(store_info["bytes"]))
    table.add_row(Text("pending calls", style="bold"), str(store_info["waiting"]))
    create_console().print(table)
    calls = store_info["calls"]
    _print_counts("calls by state", {state: calls[state] for state in get_args(LedgerState) if state in calls})
    _print_counts("rows by table", store_info["rows"])


def _print_counts(heading: str, counts: dict[str, int]) -> None:
    """Print a list of numbers, each before its name."""
    if not counts:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", min_width=8)
    table.add_column(overflow="fold")
    for name, count in counts.items():
        style = "" if count else "dim"
        if count and name == "unknown":
            style = "red"
        table.add_row(Text(f"{count:,}", style=style), Text(name, style=style))
    create_console().print(Text(heading, style="bold"))
    create_console().print(table)
