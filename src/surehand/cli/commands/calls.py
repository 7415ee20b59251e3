"""`surehand calls`: list, filter and show the calls that the store remembers."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import click
from rich.text import Text

from surehand.cli.call_ids import find_call_id, shorten_ids
from surehand.cli.commands.show import show_call
from surehand.cli.formatting import create_console, format_age, is_terminal, json_line, to_one_line
from surehand.cli.history_options import HistoryGroup, refuse_misplaced_options, resolve_filters, with_filters
from surehand.cli.lifecycle import open_store_for_reading, release_calls_of_dead_processes, run_coroutine
from surehand.cli.options import RuntimeOptions, with_store
from surehand.cli.tables import print_rows
from surehand.store.history_filter import HistoryFilter
from surehand.store.store import ActiveCall
from surehand.store.tables.journal import JournalRow

ENTRIES_PER_CALL = 4
"""Entries to read for each call: one that waits twice has six, most have one."""
HEADER = ("Call id", "Tool", "Status", "When", "Took", "User", "Session")


@dataclass(frozen=True, slots=True)
class CallSummary:
    """A call as the list shows it."""

    at: float
    kind: str
    """`ended`, `pending`, `settled`, or the state of a call that has not ended."""
    call_id: str
    tool: str
    status: str
    user: str | None
    session: str | None
    parent: str | None = None
    latency_ms: float = 0.0

    @classmethod
    def from_entry(cls, entry: JournalRow) -> CallSummary:
        """A call by its newest journal entry."""
        return cls(**{field.name: getattr(entry, field.name) for field in fields(cls)})

    @classmethod
    def from_active_call(cls, call: ActiveCall) -> CallSummary:
        """A call that the journal does not know yet."""
        return cls(call.created_at, call.state, call.call_id, call.tool, call.state, call.user, call.session)


@click.group("calls", cls=HistoryGroup, invoke_without_command=True, subcommand_metavar="[CALL_ID | show CALL_ID]")
@with_filters
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
@click.pass_context
def command(ctx: click.Context, /, options: RuntimeOptions, as_json: bool, **filters: Any) -> None:
    """List the calls that the store remembers, newest first, or show CALL_ID.

    Status is what a call waits for, `ok`, the code of its failure, or that it runs or that its effect is unknown.

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


async def _load_calls(address: str, filters: dict[str, Any]) -> list[CallSummary]:
    """Each call once, newest first: by its newest journal entry, or by its state if it has not ended."""
    limit = filters["limit"]
    async with open_store_for_reading(address) as store:
        await release_calls_of_dead_processes(store)
        filter = HistoryFilter(**await resolve_filters(store, filters))
        active = await store.active_calls(filter)
        entries = await store.journal.list(**{**asdict(filter), "limit": limit * ENTRIES_PER_CALL})
    summaries: dict[str, CallSummary] = {}
    for entry in entries:
        summaries.setdefault(entry.call_id, CallSummary.from_entry(entry))
    for call in active:
        known = summaries.get(call.call_id)
        if known is None:
            summaries[call.call_id] = CallSummary.from_active_call(call)
        elif call.state != "waiting":  # of a call that waits, the entry says what for
            summaries[call.call_id] = replace(known, kind=call.state, status=call.state)
    return sorted(summaries.values(), key=lambda summary: summary.at, reverse=True)[:limit]


def _print_calls(summaries: list[CallSummary], *, as_json: bool) -> None:
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.writelines(json_line(asdict(summary)) for summary in summaries)
    elif summaries:
        short_ids = shorten_ids(summary.call_id for summary in summaries)
        rows = [_table_row(summary, short_ids[summary.call_id]) for summary in summaries]
        print_rows(create_console(), HEADER, rows, flexible=("Tool", "User", "Session"))
    if not summaries:
        sys.stderr.write("No calls match.\n")


def _table_row(summary: CallSummary, short_id: str) -> tuple[Text, ...]:
    is_ended = summary.kind == "ended"
    has_reason = summary.kind in ("pending", "settled")
    status = f"{summary.kind} ({summary.status})" if has_reason else summary.status
    colour = "red" if is_ended else "yellow"
    if summary.status == "ok":
        colour = "green"
    return (
        Text(to_one_line(short_id), style="cyan"),
        Text(to_one_line(summary.tool), style="bold"),
        Text(to_one_line(status), style=colour),
        Text(format_age(summary.at)),
        Text(_format_latency(summary.latency_ms) if is_ended else "-"),
        Text(to_one_line(summary.user or "-")),
        Text(to_one_line(summary.session or "-")),
    )


def _format_latency(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:.0f} s"
