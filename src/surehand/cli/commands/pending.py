"""`surehand pending`: list the pending calls, or show one."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from functools import partial
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from surehand.cli.call_ids import choose_candidate, shorten_ids
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
from surehand.cli.lifecycle import open_store_for_reading, release_calls_of_dead_processes, run_coroutine
from surehand.cli.options import RuntimeOptions, with_store
from surehand.cli.outcome_output import question_arguments
from surehand.cli.tables import fit_widths, print_row
from surehand.core.sanitize import escape_unprintable
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.pending.pending_calls import pending_call_from_row
from surehand.store.database import to_storable_name
from surehand.store.tables.pending import BEFORE_ALL, PendingPosition

MAX_SHOWN_LENGTH = 2_000
"""Characters of a message and of the arguments in the list."""
MAX_CALLS = 1 << 31
TABLE_HEADER = ("Call id", "Tool", "Waits for", "Since", "Expires")


class CursorParam(click.ParamType[PendingPosition]):
    """The cursor of a pending call."""

    name = "cursor"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> PendingPosition:
        """Read the position, or refuse the text."""
        if isinstance(value, PendingPosition):
            return value
        try:
            return PendingPosition.from_cursor(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("pending")
@click.argument("call_id", required=False)
@click.option("--user", metavar="USER", help="Of this user.")
@click.option("--session", metavar="SESSION", help="Of this session.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the N oldest, or the next N with --after.")
@click.option("--after", type=CursorParam(), metavar="CURSOR", help="Continue after the last call of the page before.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
def command(
    options: RuntimeOptions,
    call_id: str | None,
    user: str | None,
    session: str | None,
    limit: int | None,
    after: PendingPosition | None,
    as_json: bool,
) -> None:
    """List the pending calls, oldest first, or show everything about CALL_ID."""
    address = options.require_store_address()
    load = partial(_load_pending_calls, address, user=user, session=session, after=after)
    has_more = False
    if call_id is None and limit is not None:
        pending_calls = run_coroutine(load(limit=limit + 1))
        has_more = len(pending_calls) > limit
        pending_calls = pending_calls[:limit]
    else:
        pending_calls = run_coroutine(load())
    if call_id is not None:
        candidates = {each.call_id: each.tool for each in pending_calls if call_id and each.call_id.startswith(call_id)}
        chosen = choose_candidate(call_id, candidates)
        pending_calls = [each for each in pending_calls if each.call_id == chosen]
        if not pending_calls:
            raise CommandExit(EXIT_NOT_FOUND, f"No call {call_id[:80]} is pending.")
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.writelines(json_line({**asdict(each), "cursor": each.cursor}) for each in pending_calls)
    elif call_id is not None:
        _print_details(pending_calls[0])
    elif pending_calls:
        _print_table(pending_calls, options)
    if has_more:
        filters = [*(("--user", user) if user else ()), *(("--session", session) if session else ())]
        page = ["--limit", str(limit), "--after", pending_calls[-1].cursor]
        next_page = options.follow_up_command("pending", *filters, *page)
        sys.stderr.write(f"More calls are pending: {next_page}\n")
    if not pending_calls:
        is_filtered = user is not None or session is not None
        sys.stderr.write("No pending calls match.\n" if is_filtered else "No calls are pending.\n")


async def _load_pending_calls(
    address: str,
    *,
    user: str | None,
    session: str | None,
    after: PendingPosition | None,
    limit: int = MAX_CALLS,
) -> list[PendingCall]:
    # The table lists for a session what it may see, which includes calls without a session: these are left out here.
    max_rows = limit if session is None else MAX_CALLS
    async with open_store_for_reading(address) as store:
        await release_calls_of_dead_processes(store)
        names = (to_storable_name(user), to_storable_name(session))
        rows = await store.pending.list_open(*names, limit=max_rows, after=after or BEFORE_ALL)
    pending_calls = [pending_call_from_row(row, row.rounds[-1]) for row in rows]
    return [each for each in pending_calls if session is None or each.session == session][:limit]


def _print_table(pending_calls: list[PendingCall], options: RuntimeOptions) -> None:
    """A row for each call, and below it the message and the arguments, as wide as the terminal."""
    has_users = any(each.user is not None for each in pending_calls)
    header = (*TABLE_HEADER, "User") if has_users else TABLE_HEADER
    short_ids = shorten_ids(each.call_id for each in pending_calls)
    rows = [_table_row(each, short_ids[each.call_id])[: len(header)] for each in pending_calls]
    console = create_console()
    widths = fit_widths(header, rows, console.width, ("Tool", "User"))
    show_command = options.follow_up_command("pending", "CALL_ID")
    print_row(console, [Text(name, style="bold") for name in header], widths)
    for pending_call, row in zip(pending_calls, rows, strict=True):
        print_row(console, row, widths)
        how_to_see_rest = f"`{show_command.replace('CALL_ID', pending_call.call_id)}` shows all"
        message = truncate_text(pending_call.message, MAX_SHOWN_LENGTH, how_to_see_rest)
        for message_line in message.split("\n"):
            console.print(Text(f"  {message_line}", style="yellow"), soft_wrap=True)
        arguments = truncate_text(compact_json(pending_call.arguments), MAX_SHOWN_LENGTH, how_to_see_rest)
        console.print(highlight_json(f"  {arguments}"), soft_wrap=True)


def _table_row(pending_call: PendingCall, short_id: str) -> tuple[Text, ...]:
    since, expires = _relative_times(pending_call)
    question = " ".join(question_arguments(short_id, pending_call.round))
    return (
        Text(to_one_line(question), style="cyan"),
        Text(to_one_line(pending_call.tool), style="bold"),
        Text(pending_call.waiting_for),
        Text(since),
        Text(expires),
        Text(to_one_line(pending_call.user or "-")),
    )


def _relative_times(pending_call: PendingCall) -> tuple[str, str]:
    now = time.time()
    expires = "never" if pending_call.expires_at is None else f"in {format_duration(pending_call.expires_at - now)}"
    return f"{format_duration(now - pending_call.created_at)} ago", expires


def _print_details(pending_call: PendingCall) -> None:
    """Print everything, however long: a cut could hide the part that matters."""
    console = create_console()
    since, expires = _relative_times(pending_call)
    fields = {
        "call id": pending_call.call_id,
        "round": str(pending_call.round),
        "tool": pending_call.tool,
        "waits for": pending_call.waiting_for,
        "since": since,
        "expires": expires,
        "user": pending_call.user,
        "session": pending_call.session,
    }
    table = Table.grid(padding=(0, 3, 0, 0))
    for name, value in fields.items():
        if value is not None:
            table.add_row(Text(name, style="bold"), Text(to_one_line(value), overflow="fold"))
    console.print(table)
    console.print(Text(escape_unprintable(pending_call.message), style="yellow"), soft_wrap=True)
    console.print(pretty_json(pending_call.arguments), soft_wrap=True)
    form = render_form(pending_call.request)
    if form is not None:
        console.print(form, soft_wrap=True)
        return
    request = pending_call.request if isinstance(pending_call.request, dict) else {"request": pending_call.request}
    for name, value in request.items():
        # The schema of an approval is the tool's own, which the arguments already match.
        if value is not None and not (name == "schema" and pending_call.waiting_for == "approval"):
            console.print(Text(f"{escape_unprintable(name)}:", style="bold"))
            console.print(render_preview(value) if name == "preview" else _render_value(value), soft_wrap=True)


def _render_value(value: Any) -> Text:
    return Text(escape_unprintable(value)) if isinstance(value, str) else pretty_json(value)
