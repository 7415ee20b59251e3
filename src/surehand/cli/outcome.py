"""Outcomes and events, as people read them and as programs do, and the exit code that goes with them."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from typing import Any

from rich.text import Text

from surehand.cli.exits import DONE, FAILED, PENDING, REFUSED, complain
from surehand.cli.form import is_plain
from surehand.cli.options import Given
from surehand.cli.screen import console, pretty
from surehand.core.content import to_text
from surehand.core.errors import NotFound
from surehand.core.events import CallEnded, Event
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.core.sanitize import escape_unprintable
from surehand.runtime.outputs import NAME, Outputs
from surehand.runtime.runtime import Runtime


def exit_code(outcome: Outcome) -> int:
    """What the process ends with."""
    match outcome:
        case Done():
            return DONE
        case Pending():
            return PENDING
        case Failed(code="denied" | "rejected"):
            return REFUSED
    return FAILED


async def as_asked(runtime: Runtime, outcome: Outcome) -> tuple[Outcome, int]:
    """What a call waits for, and which of its questions that is, from one look: what is shown is what is answered."""
    if isinstance(outcome, Pending) and outcome.call_id:
        found = await runtime.standing(outcome.call_id)
        if found is not None and isinstance(found.outcome, Pending):
            return found.outcome, found.round
    return outcome, 0


def outcome_as_json(outcome: Outcome, asked: Outcome | None = None, round: int = 0) -> dict[str, Any]:
    """One outcome for a program: always the same keys, and a few more for a pending or a failed one.

    Args:
        asked: what it waits for, and `round` which of its questions that is, where it waits.
    """
    meta = asdict(outcome.meta)
    call_id = meta.pop("call_id")
    shown: dict[str, Any] = {"status": _status(outcome), "data": None, "text": outcome.text, "code": None}
    match outcome:
        case Done(data=data):
            shown["data"] = data
        case Failed():
            shown |= {"code": outcome.code, "data": outcome.data, "executed": outcome.executed}
        case Pending():
            call_id = outcome.call_id or call_id
            told = asked if isinstance(asked, Pending) else outcome
            shown |= {"waiting_for": told.waiting_for, "message": told.message, "request": told.request}
            shown |= {"round": round or None}
    return shown | {"call_id": call_id, "meta": meta}


def event_as_json(event: Event) -> dict[str, Any]:
    """One event for a program; the outcome itself is the last line, so the end only says how it went."""
    fields = event._asdict() if isinstance(event, tuple) else asdict(event)
    if isinstance(event, CallEnded):
        code = event.outcome.code if isinstance(event.outcome, Failed) else None
        fields |= {"outcome": _status(event.outcome), "code": code}
    return {"event": type(event).__name__, **fields}


async def show_outcome(outcome: Outcome, outputs: Outputs, hint: str = "") -> None:
    """The outcome for a person: what the tool gave on stdout, anything else on stderr."""
    match outcome:
        case Done(data=data):
            text = await _whole(outcome.text, outputs)
            console().print(Text(escape_unprintable(text)) if _says_more(text, data) else pretty(data), soft_wrap=True)
        case Failed(code=code, message=message):
            complain(escape_unprintable(await _whole(message, outputs)), kind=f"failed ({code})")
            if code == "crashed" and not logging.getLogger("surehand").isEnabledFor(logging.DEBUG):
                hint = "Run it again with --debug for the traceback."
        case Pending(waiting_for=waiting_for):
            complain(escape_unprintable(outcome.message), kind=f"pending ({waiting_for})", colour=33)
    if hint:
        sys.stderr.write(f"{hint}\n")


def how_to_answer(outcome: Outcome, given: Given | None, *, round: int = 1, asked: bool = False) -> str:
    """What a person can do about a call that waits: answer it later where it is remembered, else call again.

    Args:
        given: the options to repeat; None where the call ends with its process.
        round: which of its questions is open.
        asked: whether somebody was asked, and left.
    """
    match outcome:
        case Pending("approval", call_id) if given is not None:
            verbs = [given.command(verb, *named(call_id, round)) for verb in ("approve", "reject")]
            return "\n  ".join(["Nothing ran. Whoever decides can answer later:", *verbs])
        case Pending("input", call_id) if given is not None and is_plain(outcome.request):
            settle = given.command("settle", *named(call_id, round))
            return f"Whoever decides can answer later:\n  {settle} true   # yes\n  {settle} false   # no"
        case Pending(_, call_id) if given is not None:
            settle = given.command("settle", *named(call_id, round))
            return f"Whoever has the answer can give it later:\n  {settle} ANSWER"
        case Pending("approval"):
            ask = "Run it again to be asked again" if asked else "Answer in a terminal"
            return f"Nothing ran. {ask}, or run it with --yes or --no."
        case Pending():
            if asked:
                return "It got no answer. Run it again to be asked again."
            return "It still waits for an answer. Run it in a terminal to give one."
    return ""


def named(call_id: str, round: int) -> list[str]:
    """How a question is named on the command line; without a number, the first of its call is meant."""
    return [call_id, "--round", str(round)] if round > 1 else [call_id]


async def _whole(text: str, outputs: Outputs) -> str:
    """The text before it was cut for a model: a screen has room."""
    if not text.startswith(f'{{"{NAME}":'):
        return text
    try:
        return (await outputs.find(json.loads(text)[NAME]["handle"], None, None)).text
    except (ValueError, LookupError, TypeError, RecursionError, NotFound):  # a tool's own words, and no handle of ours
        return text


def _says_more(text: str, data: Any) -> bool:
    """Whether the text says more than the value as JSON would: a string, or blocks."""
    return data is None or isinstance(data, str) or text != to_text(data)


def _status(outcome: Outcome) -> str:
    return {Done: "done", Failed: "failed", Pending: "pending"}[type(outcome)]
