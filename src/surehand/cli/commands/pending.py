"""`surehand pending`: which calls wait for somebody."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from surehand.cli.elicitation_form import render_form
from surehand.cli.exit_codes import EXIT_NOT_FOUND, CommandExit
from surehand.cli.formatting import (
    compact_json,
    create_console,
    format_duration,
    highlight_json,
    is_terminal,
    json_line,
    pretty_json,
    render_preview,
    to_one_line,
    truncate_text,
)
from surehand.cli.lifecycle import open_store, run_coroutine
from surehand.cli.options import RuntimeOptions, with_store
from surehand.cli.outcome_output import question_arguments
from surehand.core.sanitize import escape_unprintable
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.pending.pending_calls import pending_call_from_row

MAX_SHOWN_LENGTH = 2_000
"""Characters of a message, and of arguments, in the list."""
TABLE_HEADER = ("Call id", "Tool", "Waits for", "Since", "Expires")


@click.command("pending")
@click.argument("call_id", required=False)
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
def command(options: RuntimeOptions, call_id: str | None, as_json: bool) -> None:
    """List the calls that wait for somebody, or show all of CALL_ID."""
    waits = run_coroutine(_load_pending_calls(options.require_store_address()))
    if call_id is not None:
        waits = [wait for wait in waits if wait.call_id == call_id]
        if not waits:
            raise CommandExit(EXIT_NOT_FOUND, f"No call {call_id[:80]} is waiting.")
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.writelines(json_line(asdict(wait)) for wait in waits)
    elif call_id is not None:
        _print_details(waits[0])
    elif waits:
        _print_table(waits, options)
    if not waits:
        sys.stderr.write("Nothing waits.\n")


async def _load_pending_calls(address: str) -> list[PendingCall]:
    async with open_store(address) as store:
        await store.owners.release_dead_owners("")  # a call whose process died waits for somebody to find out about it
        return [pending_call_from_row(held, held.rounds[-1]) for held in await store.pending.list_open()]


def _print_table(pending_calls: list[PendingCall], options: RuntimeOptions) -> None:
    """A row for each, and below it, as wide as the screen, what it wants to do."""
    of_users = any(wait.user is not None for wait in pending_calls)
    head = (*TABLE_HEADER, "User") if of_users else TABLE_HEADER
    rows = [_table_row(wait)[: len(head)] for wait in pending_calls]
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    screen, show = create_console(), options.follow_up_command("pending", "CALL_ID")
    screen.print(Text(_align_cells(head, widths), style="bold"), soft_wrap=True)
    for wait, (call_id, tool, *others) in zip(pending_calls, rows, strict=True):
        told = Text.assemble((call_id.ljust(widths[0]), "cyan"), "   ", (tool.ljust(widths[1]), "bold"), "   ")
        screen.print(told.append(_align_cells(others, widths[2:])), soft_wrap=True)
        rest = f"`{show.replace('CALL_ID', wait.call_id)}` shows all"
        for text in truncate_text(wait.message, MAX_SHOWN_LENGTH, rest).split("\n"):
            screen.print(Text(f"  {text}", style="yellow"), soft_wrap=True)
        screen.print(
            highlight_json(f"  {truncate_text(compact_json(wait.arguments), MAX_SHOWN_LENGTH, rest)}"), soft_wrap=True
        )


def _table_row(pending_call: PendingCall) -> tuple[str, ...]:
    since, expires = _relative_times(pending_call)
    question, user = " ".join(question_arguments(pending_call.call_id, pending_call.round)), pending_call.user or "-"
    return (
        to_one_line(question),
        to_one_line(pending_call.tool),
        pending_call.waiting_for,
        since,
        expires,
        to_one_line(user),
    )


def _align_cells(cells: tuple[str, ...] | list[str], widths: list[int]) -> str:
    return "   ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _relative_times(pending_call: PendingCall) -> tuple[str, str]:
    now = time.time()
    expires = "never" if pending_call.expires_at is None else f"in {format_duration(pending_call.expires_at - now)}"
    return f"{format_duration(now - pending_call.created_at)} ago", expires


def _print_details(pending_call: PendingCall) -> None:
    """Everything, however long: what is cut off could be what matters."""
    screen = create_console()
    since, expires = _relative_times(pending_call)
    about = Table.grid(padding=(0, 3, 0, 0))
    for name, value in {
        "call id": pending_call.call_id, "round": str(pending_call.round), "tool": pending_call.tool, "waits for": pending_call.waiting_for,
        "since": since, "expires": expires, "user": pending_call.user, "session": pending_call.session,
    }.items():  # fmt: skip
        if value is not None:
            about.add_row(Text(name, style="bold"), Text(to_one_line(value), overflow="fold"))
    screen.print(about)
    screen.print(Text(escape_unprintable(pending_call.message), style="yellow"), soft_wrap=True)
    screen.print(pretty_json(pending_call.arguments), soft_wrap=True)
    if (form := render_form(pending_call.request)) is not None:
        screen.print(form, soft_wrap=True)
        return
    request = pending_call.request if isinstance(pending_call.request, dict) else {"request": pending_call.request}
    for name, value in request.items():
        if value is not None and not (name == "schema" and pending_call.waiting_for == "approval"):
            screen.print(Text(f"{escape_unprintable(name)}:", style="bold"))
            screen.print(render_preview(value) if name == "preview" else _render_value(value), soft_wrap=True)


def _render_value(value: Any) -> Text:
    return Text(escape_unprintable(value)) if isinstance(value, str) else pretty_json(value)
