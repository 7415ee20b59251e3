"""`surehand show`: the status of one call, and its journal."""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import click
from rich.table import Table
from rich.text import Text

from surehand.cli.call_ids import find_call_id
from surehand.cli.exit_codes import EXIT_NOT_FOUND, CommandExit
from surehand.cli.formatting import create_console, format_age, is_terminal, json_line, pretty_json, to_one_line
from surehand.cli.lifecycle import open_store_for_reading, run_coroutine, start_runtime
from surehand.cli.options import RuntimeOptions, with_store
from surehand.cli.outcome_output import answer_hint, outcome_to_json, print_outcome
from surehand.core.outcome import Pending
from surehand.runtime.pending.status import CallStatus
from surehand.runtime.runtime import Runtime
from surehand.store.errors import UnstorableValue
from surehand.store.tables.journal import JournalRow

AnswerersByCursor: TypeAlias = dict[str, str | None]
"""Who gave the answers in the journal, by the cursors of its rows."""


@click.command("show")
@click.argument("call_id")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def command(options: RuntimeOptions, call_id: str, as_json: bool) -> None:
    """Show the status of the call CALL_ID.

    Shown are its arguments, its question or outcome, and its journal.

    Exit codes: 0 shown, 2 the store cannot be used, 5 no such call.
    """
    run_coroutine(show_call(options, find_call_id(options, call_id), as_json=as_json))


async def show_call(options: RuntimeOptions, call_id: str, *, as_json: bool) -> None:
    """Print everything about a call, for a person or as JSON."""
    async with (
        open_store_for_reading(options.require_store_address()) as store,
        start_runtime(Runtime(store=store)) as runtime,  # without tools, so it resumes no answered calls
    ):
        status, entries = await _load_call(runtime, call_id)
        answerers = await _find_answerers(runtime, call_id, entries)
        if status is None and not entries:
            raise CommandExit(EXIT_NOT_FOUND, f"The store has no call {call_id[:80]}.")
        if as_json or not is_terminal(sys.stdout):
            sys.stdout.write(json_line(_call_to_json(call_id, status, entries, answerers)))
        else:
            _print_summary(call_id, status, entries, answerers)
            if status is not None:
                await _print_call_outcome(options, runtime, status)


async def _load_call(runtime: Runtime, call_id: str) -> tuple[CallStatus | None, list[JournalRow]]:
    """A call's status and its journal; a call without effects that was never pending has no status."""
    assert runtime.store is not None
    status = await runtime.status(call_id)
    try:
        return status, await runtime.store.journal.of_call(call_id)
    except UnstorableValue:  # an id that cannot be stored, for example with a NUL
        return status, []


async def _find_answerers(runtime: Runtime, call_id: str, entries: list[JournalRow]) -> AnswerersByCursor:
    """Match the answers to the journal from the newest on, because its oldest rows may have been pruned."""
    questions = await runtime.questions(call_id)
    answered_rounds = [each for each in reversed(questions) if not each.is_open]
    settled_entries = [entry for entry in reversed(entries) if entry.kind == "settled"]
    return {
        entry.cursor: answered.answered_by
        for entry, answered in zip(settled_entries, answered_rounds, strict=False)
        if entry.status == answered.answer
    }


def _call_to_json(
    call_id: str, status: CallStatus | None, entries: list[JournalRow], answerers: AnswerersByCursor
) -> dict[str, Any]:
    """The call for a program: always the same keys; most are null for a call that only the journal has."""
    journal = [
        {
            "at": entry.at,
            "kind": entry.kind,
            "status": entry.status,
            "latency_ms": entry.latency_ms,
            "by": answerers.get(entry.cursor),
        }
        for entry in entries
    ]
    return {
        "call_id": call_id,
        "tool": status.tool if status is not None else entries[0].tool,
        "user": status.user if status is not None else entries[0].user,
        "state": status.state if status is not None else None,
        "arguments": status.arguments if status is not None else None,
        "created_at": status.created_at if status is not None else None,
        "changed_at": status.changed_at if status is not None else None,
        "round": status.round or None if status is not None else None,
        "outcome": _outcome_to_json(status) if status is not None else None,
        "journal": journal,
    }


def _outcome_to_json(status: CallStatus) -> dict[str, Any] | None:
    if status.outcome is None:
        return None
    record = outcome_to_json(status.outcome)
    return {name: value for name, value in record.items() if name not in ("call_id", "round", "meta")}


def _print_summary(
    call_id: str, status: CallStatus | None, entries: list[JournalRow], answerers: AnswerersByCursor
) -> None:
    table = Table.grid(padding=(0, 3, 0, 0))
    for name, value in _summary_fields(call_id, status, entries).items():
        if value is not None:
            table.add_row(Text(name, style="bold"), Text(to_one_line(value), overflow="fold"))
    for index, entry in enumerate(entries):
        answerer = answerers.get(entry.cursor)
        who = f" by {to_one_line(answerer)}" if answerer else ""
        line = f"{format_age(entry.at)}: {entry.kind} ({to_one_line(entry.status)}){who}"
        table.add_row(Text("" if index else "journal", style="bold"), Text(line, overflow="fold"))
    create_console().print(table)
    if status is not None:
        create_console().print(pretty_json(status.arguments), soft_wrap=True)


def _summary_fields(call_id: str, status: CallStatus | None, entries: list[JournalRow]) -> dict[str, str | None]:
    if status is None:
        return {"call id": call_id, "tool": entries[0].tool, "user": entries[0].user}
    return {
        "call id": call_id,
        "tool": status.tool,
        "user": status.user,
        "state": status.state,
        "round": str(status.round) if status.round else None,
        "started": format_age(status.created_at),
        "changed": format_age(status.changed_at),
    }


async def _print_call_outcome(options: RuntimeOptions, runtime: Runtime, status: CallStatus) -> None:
    if status.outcome is None:
        return
    # A call with an unknown effect has an outcome, and can still be settled.
    question = Pending("result", status.call_id) if status.state == "unknown" else status.outcome
    hint = answer_hint(question, options, round=status.round)
    await print_outcome(status.outcome, runtime.outputs, hint)
