"""`surehand calls`: list, filter and show the calls that the store remembers."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click
from rich.text import Text

from surehand.cli.call_ids import find_call_id, shorten_ids
from surehand.cli.commands.show import show_call
from surehand.cli.formatting import create_console, format_age, is_terminal, json_line, to_one_line
from surehand.cli.history_options import HistoryGroup, refuse_misplaced_options, resolve_filters, with_filters
from surehand.cli.lifecycle import open_store, run_coroutine
from surehand.cli.options import RuntimeOptions, with_store
from surehand.cli.tables import print_rows
from surehand.store.tables.journal import JournalRow

ENTRIES_PER_CALL = 4
"""Entries to read for each call: one that waits twice has six, most have one."""
HEADER = ("Call id", "Tool", "Status", "When", "Took", "User", "Session")


@click.group("calls", cls=HistoryGroup, invoke_without_command=True, subcommand_metavar="[CALL_ID | show CALL_ID]")
@with_filters
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
@click.pass_context
def command(ctx: click.Context, /, options: RuntimeOptions, as_json: bool, **filters: Any) -> None:
    """List the calls that the store remembers, newest first, or show CALL_ID.

    Status is what a call waits for, `ok`, or the code of its failure.

    Exit codes: 0 listed, 2 the store cannot be used, 5 no such call.
    """
    refuse_misplaced_options(ctx)
    if ctx.invoked_subcommand is None:
        _print_calls(run_coroutine(_load_calls(options.require_store_address(), filters)), as_json=as_json)


@command.command("show")
@click.argument("call_id")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def show(options: RuntimeOptions, call_id: str, as_json: bool) -> None:
    """Show the call CALL_ID, as `surehand show` does."""
    run_coroutine(show_call(options, find_call_id(options, call_id), as_json=as_json))


async def _load_calls(address: str, filters: dict[str, Any]) -> list[JournalRow]:
    """The newest entry of each call."""
    async with open_store(address) as store:
        resolved = await resolve_filters(store, filters)
        limit = filters["limit"]
        entries = await store.journal.list(**{**resolved, "limit": limit * ENTRIES_PER_CALL})
    newest: dict[str, JournalRow] = {}
    for entry in entries:
        newest.setdefault(entry.call_id, entry)
    return list(newest.values())[:limit]


def _print_calls(entries: list[JournalRow], *, as_json: bool) -> None:
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.writelines(json_line(_entry_to_json(entry)) for entry in entries)
    elif entries:
        short_ids = shorten_ids(entry.call_id for entry in entries)
        rows = [_table_row(entry, short_ids[entry.call_id]) for entry in entries]
        print_rows(create_console(), HEADER, rows, flexible=("Tool", "User", "Session"))
    if not entries:
        sys.stderr.write("No calls match.\n")


def _entry_to_json(entry: JournalRow) -> dict[str, Any]:
    return {name: value for name, value in asdict(entry).items() if name != "cursor"}


def _table_row(entry: JournalRow, short_id: str) -> tuple[Text, ...]:
    is_ended = entry.kind == "ended"
    status = entry.status if is_ended else f"{entry.kind} ({entry.status})"
    colour = "green" if entry.status == "ok" else "red" if is_ended else "yellow"
    return (
        Text(to_one_line(short_id), style="cyan"),
        Text(to_one_line(entry.tool), style="bold"),
        Text(to_one_line(status), style=colour),
        Text(format_age(entry.at)),
        Text(_format_latency(entry.latency_ms) if is_ended else "-"),
        Text(to_one_line(entry.user or "-")),
        Text(to_one_line(entry.session or "-")),
    )


def _format_latency(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:.0f} s"
