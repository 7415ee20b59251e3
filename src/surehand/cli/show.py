"""`surehand show`: how one call stands, and what has happened to it."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any, TypeAlias

import click
from rich.table import Table
from rich.text import Text

from surehand.cli.answer import open_question
from surehand.cli.exits import UNKNOWN, Ended
from surehand.cli.options import Given, with_store
from surehand.cli.outcome import how_to_answer, outcome_as_json, show_outcome
from surehand.cli.run import run
from surehand.cli.screen import console, duration, is_person, line, one_line, pretty
from surehand.cli.starting import started
from surehand.core.outcome import Pending
from surehand.runtime.runtime import Runtime
from surehand.runtime.standing import Standing
from surehand.store.errors import Unstorable
from surehand.store.journal import Entry

By: TypeAlias = dict[str, str | None]
"""Who gave the answers that the journal tells of, by its cursors."""


@click.command("show")
@click.argument("call_id")
@click.option("--json", "as_json", is_flag=True, help="One JSON line, as in a pipe.")
@with_store
def command(given: Given, call_id: str, as_json: bool) -> None:
    """Show how the call CALL_ID stands.

    That is its arguments, what it waits for or what came of it, and its journal.

    Exit codes: 0 shown, 2 the store cannot be used, 5 no such call.
    """
    run(_show(given, call_id, as_json=as_json))


async def _show(given: Given, call_id: str, *, as_json: bool) -> None:
    async with started(Runtime(store=given.address())) as runtime:  # without tools it goes on with nobody's calls
        standing, entries = await _look(runtime, call_id)
        by = await _who_answered(runtime, call_id, entries)
        if standing is None and not entries:
            raise Ended(UNKNOWN, f"No call {call_id[:80]} is remembered.")
        if as_json or not is_person(sys.stdout):
            sys.stdout.write(line(_as_json(call_id, standing, entries, by)))
        else:
            _show_about(call_id, standing, entries, by)
            if standing is not None:
                await _show_outcome(given, runtime, standing)


async def _look(runtime: Runtime, call_id: str) -> tuple[Standing | None, list[Entry]]:
    """How a call stands, and what the journal has of it; of one without effects that did not wait, only the latter."""
    assert runtime.store is not None
    standing = await runtime.standing(call_id)
    if standing is not None and standing.state == "unknown":
        standing = replace(standing, round=(await open_question(runtime, call_id)).round)
    try:
        return standing, await runtime.store.journal.of_call(call_id)
    except Unstorable:  # nothing was ever kept under such a name
        return standing, []


async def _who_answered(runtime: Runtime, call_id: str, entries: list[Entry]) -> By:
    """The newest answer is the journal's last: of its lines the oldest may be forgotten."""
    held = await runtime.parts.waits.find(call_id, runtime.principal)
    given = [wait for wait in reversed(held.rounds) if not wait.open] if held is not None else []
    settled = [each for each in reversed(entries) if each.kind == "settled"]
    return {each.cursor: wait.by for each, wait in zip(settled, given, strict=False) if each.status == wait.answer}


def _as_json(call_id: str, standing: Standing | None, entries: list[Entry], by: By) -> dict[str, Any]:
    """Always the same keys; of a call that only the journal knows, most of them are null."""
    columns = ("at", "kind", "status", "latency_ms")
    journal = [{**{name: getattr(each, name) for name in columns}, "by": by.get(each.cursor)} for each in entries]
    found = {name: getattr(standing, name, None) for name in ("state", "arguments", "created_at", "changed_at")}
    tool, user = (standing.tool, standing.user) if standing is not None else (entries[0].tool, entries[0].user)
    asks = {"round": standing.round or None, "outcome": _outcome(standing)} if standing is not None else {}
    about = {"call_id": call_id, "tool": tool, "user": user, **found, "round": None, "outcome": None}
    return {**about, **asks, "journal": journal}


def _outcome(standing: Standing) -> dict[str, Any] | None:
    if standing.outcome is None:
        return None
    shown = outcome_as_json(standing.outcome)
    return {name: value for name, value in shown.items() if name not in ("call_id", "round", "meta")}


def _show_about(call_id: str, standing: Standing | None, entries: list[Entry], by: By) -> None:
    about = Table.grid(padding=(0, 3, 0, 0))
    for name, value in _about(call_id, standing, entries).items():
        if value is not None:
            about.add_row(Text(name, style="bold"), Text(one_line(value), overflow="fold"))
    for name, each in zip(["journal"] + [""] * len(entries), entries, strict=False):
        who = f" by {one_line(answerer)}" if (answerer := by.get(each.cursor)) else ""
        told = f"{_ago(each.at)}: {each.kind} ({one_line(each.status)}){who}"
        about.add_row(Text(name, style="bold"), Text(told, overflow="fold"))
    console().print(about)
    if standing is not None:
        console().print(pretty(standing.arguments), soft_wrap=True)


def _about(call_id: str, standing: Standing | None, entries: list[Entry]) -> dict[str, str | None]:
    if standing is None:
        return {"call id": call_id, "tool": entries[0].tool, "user": entries[0].user}
    return {
        "call id": call_id, "tool": standing.tool, "user": standing.user, "state": standing.state,
        "round": str(standing.round) if standing.round else None,
        "begun": _ago(standing.created_at), "changed": _ago(standing.changed_at),
    }  # fmt: skip


def _ago(at: float) -> str:
    return f"{duration(time.time() - at)} ago"


async def _show_outcome(given: Given, runtime: Runtime, standing: Standing) -> None:
    if (outcome := standing.outcome) is None:
        return
    asks = Pending("result", standing.call_id) if standing.state == "unknown" else outcome
    await show_outcome(outcome, runtime.parts.outputs, how_to_answer(asks, given, round=standing.round))
