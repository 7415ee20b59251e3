"""`surehand pending`: which calls wait for somebody."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from surehand.cli.exits import UNKNOWN, Ended
from surehand.cli.form import shown_form
from surehand.cli.opening import opened
from surehand.cli.options import Given, with_store
from surehand.cli.outcome import named
from surehand.cli.preview import shown_preview
from surehand.cli.run import run
from surehand.cli.screen import compact, console, duration, excerpt, highlighted, is_person, line, one_line, pretty
from surehand.core.sanitize import escape_unprintable
from surehand.runtime.waiting import WaitingCall
from surehand.runtime.waits import shown

MOST_SHOWN = 2_000
"""Characters of a message, and of arguments, in the list."""
HEAD = ("Call id", "Tool", "Waits for", "Since", "Expires")


@click.command("pending")
@click.argument("call_id", required=False)
@click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
@with_store
def command(given: Given, call_id: str | None, as_json: bool) -> None:
    """List the calls that wait for somebody, or show all of CALL_ID."""
    waits = run(_waits(given.address()))
    if call_id is not None:
        waits = [wait for wait in waits if wait.call_id == call_id]
        if not waits:
            raise Ended(UNKNOWN, f"No call {call_id[:80]} is waiting.")
    if as_json or not is_person(sys.stdout):
        sys.stdout.writelines(line(asdict(wait)) for wait in waits)
    elif call_id is not None:
        _show_one(waits[0])
    elif waits:
        _show(waits, given)
    if not waits:
        sys.stderr.write("Nothing waits.\n")


async def _waits(address: str) -> list[WaitingCall]:
    async with opened(address) as store:
        await store.owners.bury("")  # a call whose process died waits for somebody to find out about it
        return [shown(held, held.rounds[-1]) for held in await store.pending.listed()]


def _show(waits: list[WaitingCall], given: Given) -> None:
    """A row for each, and below it, as wide as the screen, what it wants to do."""
    of_users = any(wait.user is not None for wait in waits)
    head = (*HEAD, "User") if of_users else HEAD
    rows = [_row(wait)[: len(head)] for wait in waits]
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    screen, show = console(), given.command("pending", "CALL_ID")
    screen.print(Text(_laid_out(head, widths), style="bold"), soft_wrap=True)
    for wait, (call_id, tool, *others) in zip(waits, rows, strict=True):
        told = Text.assemble((call_id.ljust(widths[0]), "cyan"), "   ", (tool.ljust(widths[1]), "bold"), "   ")
        screen.print(told.append(_laid_out(others, widths[2:])), soft_wrap=True)
        rest = f"`{show.replace('CALL_ID', wait.call_id)}` shows all"
        for text in excerpt(wait.message, MOST_SHOWN, rest).split("\n"):
            screen.print(Text(f"  {text}", style="yellow"), soft_wrap=True)
        screen.print(highlighted(f"  {excerpt(compact(wait.arguments), MOST_SHOWN, rest)}"), soft_wrap=True)


def _row(wait: WaitingCall) -> tuple[str, ...]:
    since, expires = _times(wait)
    question, user = " ".join(named(wait.call_id, wait.round)), wait.user or "-"
    return one_line(question), one_line(wait.tool), wait.waiting_for, since, expires, one_line(user)


def _laid_out(cells: tuple[str, ...] | list[str], widths: list[int]) -> str:
    return "   ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _times(wait: WaitingCall) -> tuple[str, str]:
    now = time.time()
    expires = "never" if wait.expires_at is None else f"in {duration(wait.expires_at - now)}"
    return f"{duration(now - wait.created_at)} ago", expires


def _show_one(wait: WaitingCall) -> None:
    """Everything, however long: what is cut off could be what matters."""
    screen = console()
    since, expires = _times(wait)
    about = Table.grid(padding=(0, 3, 0, 0))
    for name, value in {
        "call id": wait.call_id, "round": str(wait.round), "tool": wait.tool, "waits for": wait.waiting_for,
        "since": since, "expires": expires, "user": wait.user, "session": wait.session,
    }.items():  # fmt: skip
        if value is not None:
            about.add_row(Text(name, style="bold"), Text(one_line(value), overflow="fold"))
    screen.print(about)
    screen.print(Text(escape_unprintable(wait.message), style="yellow"), soft_wrap=True)
    screen.print(pretty(wait.arguments), soft_wrap=True)
    if (form := shown_form(wait.request)) is not None:
        screen.print(form, soft_wrap=True)
        return
    request = wait.request if isinstance(wait.request, dict) else {"request": wait.request}
    for name, value in request.items():
        if value is not None and not (name == "schema" and wait.waiting_for == "approval"):
            screen.print(Text(f"{escape_unprintable(name)}:", style="bold"))
            screen.print(shown_preview(value) if name == "preview" else _told(value), soft_wrap=True)


def _told(value: Any) -> Text:
    return Text(escape_unprintable(value)) if isinstance(value, str) else pretty(value)
