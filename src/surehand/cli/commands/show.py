"""`surehand show`: how one call stands, and what has happened to it."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any, TypeAlias

import click
from rich.table import Table
from rich.text import Text

from surehand.cli.answers import find_open_question
from surehand.cli.exit_codes import EXIT_NOT_FOUND, CommandExit
from surehand.cli.formatting import create_console, format_duration, is_terminal, json_line, pretty_json, to_one_line
from surehand.cli.lifecycle import run_coroutine, start_runtime
from surehand.cli.options import RuntimeOptions, with_store
from surehand.cli.outcome_output import answer_hint, outcome_to_json, print_outcome
from surehand.core.outcome import Pending
from surehand.runtime.pending.status import CallStatus
from surehand.runtime.runtime import Runtime
from surehand.store.errors import UnstorableValue
from surehand.store.tables.journal import JournalRow

AnswerersByCursor: TypeAlias = dict[str, str | None]
"""Who gave the answers that the journal tells of, by its cursors."""


@click.command("show")
@click.argument("call_id")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def command(options: RuntimeOptions, call_id: str, as_json: bool) -> None:
    """Show how the call CALL_ID stands.

    That is its arguments, what it waits for or what came of it, and its journal.

    Exit codes: 0 shown, 2 the store cannot be used, 5 no such call.
    """
    run_coroutine(_show_call(options, call_id, as_json=as_json))


async def _show_call(options: RuntimeOptions, call_id: str, *, as_json: bool) -> None:
    async with start_runtime(
        Runtime(store=options.require_store_address())
    ) as runtime:  # without tools it goes on with nobody's calls
        standing, entries = await _load_call(runtime, call_id)
        by = await _find_answerers(runtime, call_id, entries)
        if standing is None and not entries:
            raise CommandExit(EXIT_NOT_FOUND, f"No call {call_id[:80]} is remembered.")
        if as_json or not is_terminal(sys.stdout):
            sys.stdout.write(json_line(_call_to_json(call_id, standing, entries, by)))
        else:
            _print_summary(call_id, standing, entries, by)
            if standing is not None:
                await _print_call_outcome(options, runtime, standing)


async def _load_call(runtime: Runtime, call_id: str) -> tuple[CallStatus | None, list[JournalRow]]:
    """How a call stands, and what the journal has of it; of one without effects that did not wait, only the latter."""
    assert runtime.store is not None
    standing = await runtime.status(call_id)
    if standing is not None and standing.state == "unknown":
        standing = replace(standing, round=(await find_open_question(runtime, call_id)).round)
    try:
        return standing, await runtime.store.journal.of_call(call_id)
    except UnstorableValue:  # nothing was ever kept under such a name
        return standing, []


async def _find_answerers(runtime: Runtime, call_id: str, entries: list[JournalRow]) -> AnswerersByCursor:
    """The newest answer is the journal's last: of its lines the oldest may be forgotten."""
    held = await runtime.services.pending_calls.find(call_id, runtime.principal)
    given = [wait for wait in reversed(held.rounds) if not wait.is_open] if held is not None else []
    settled = [each for each in reversed(entries) if each.kind == "settled"]
    return {
        each.cursor: wait.answered_by for each, wait in zip(settled, given, strict=False) if each.status == wait.answer
    }


def _call_to_json(
    call_id: str, status: CallStatus | None, entries: list[JournalRow], answerers: AnswerersByCursor
) -> dict[str, Any]:
    """Always the same keys; of a call that only the journal knows, most of them are null."""
    columns = ("at", "kind", "status", "latency_ms")
    journal = [
        {**{name: getattr(each, name) for name in columns}, "by": answerers.get(each.cursor)} for each in entries
    ]
    found = {name: getattr(status, name, None) for name in ("state", "arguments", "created_at", "changed_at")}
    tool, user = (status.tool, status.user) if status is not None else (entries[0].tool, entries[0].user)
    asks = {"round": status.round or None, "outcome": _outcome_to_json(status)} if status is not None else {}
    about = {"call_id": call_id, "tool": tool, "user": user, **found, "round": None, "outcome": None}
    return {**about, **asks, "journal": journal}


def _outcome_to_json(status: CallStatus) -> dict[str, Any] | None:
    if status.outcome is None:
        return None
    shown = outcome_to_json(status.outcome)
    return {name: value for name, value in shown.items() if name not in ("call_id", "round", "meta")}


def _print_summary(
    call_id: str, status: CallStatus | None, entries: list[JournalRow], answerers: AnswerersByCursor
) -> None:
    about = Table.grid(padding=(0, 3, 0, 0))
    for name, value in _summary_fields(call_id, status, entries).items():
        if value is not None:
            about.add_row(Text(name, style="bold"), Text(to_one_line(value), overflow="fold"))
    for name, each in zip(["journal"] + [""] * len(entries), entries, strict=False):
        who = f" by {to_one_line(answerer)}" if (answerer := answerers.get(each.cursor)) else ""
        told = f"{_format_age(each.at)}: {each.kind} ({to_one_line(each.status)}){who}"
        about.add_row(Text(name, style="bold"), Text(told, overflow="fold"))
    create_console().print(about)
    if status is not None:
        create_console().print(pretty_json(status.arguments), soft_wrap=True)


def _summary_fields(call_id: str, status: CallStatus | None, entries: list[JournalRow]) -> dict[str, str | None]:
    if status is None:
        return {"call id": call_id, "tool": entries[0].tool, "user": entries[0].user}
    return {
        "call id": call_id, "tool": status.tool, "user": status.user, "state": status.state,
        "round": str(status.round) if status.round else None,
        "begun": _format_age(status.created_at), "changed": _format_age(status.changed_at),
    }  # fmt: skip


def _format_age(timestamp: float) -> str:
    return f"{format_duration(time.time() - timestamp)} ago"


async def _print_call_outcome(options: RuntimeOptions, runtime: Runtime, status: CallStatus) -> None:
    if (outcome := status.outcome) is None:
        return
    asks = Pending("result", status.call_id) if status.state == "unknown" else outcome
    await print_outcome(outcome, runtime.services.outputs, answer_hint(asks, options, round=status.round))
