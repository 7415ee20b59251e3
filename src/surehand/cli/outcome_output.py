"""Outcomes and events, as people read them and as programs do, and the exit code that goes with them."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from typing import Any

from rich.text import Text

from surehand.cli.elicitation_form import is_yes_no_form
from surehand.cli.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_PENDING, EXIT_REFUSED, print_problem
from surehand.cli.formatting import create_console, pretty_json
from surehand.cli.options import RuntimeOptions
from surehand.core.content import to_text
from surehand.core.errors import NotFound
from surehand.core.events import CallEnded, Event
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.core.sanitize import escape_unprintable
from surehand.runtime.outputs import READER_TOOL_NAME, OversizedOutputs
from surehand.runtime.runtime import Runtime


def exit_code(outcome: Outcome) -> int:
    """What the process ends with."""
    match outcome:
        case Done():
            return EXIT_DONE
        case Pending():
            return EXIT_PENDING
        case Failed(code="denied" | "rejected"):
            return EXIT_REFUSED
    return EXIT_FAILED


async def find_current_question(runtime: Runtime, outcome: Outcome) -> tuple[Outcome, int]:
    """What a call waits for, and which of its questions that is, from one look: what is shown is what is answered."""
    if isinstance(outcome, Pending) and outcome.call_id:
        found = await runtime.status(outcome.call_id)
        if found is not None and isinstance(found.outcome, Pending):
            return found.outcome, found.round
    return outcome, 0


def outcome_to_json(outcome: Outcome, question: Outcome | None = None, round: int = 0) -> dict[str, Any]:
    """One outcome for a program: always the same keys, and a few more for a pending or a failed one.

    Args:
        asked: what it waits for, and `round` which of its questions that is, where it waits.
    """
    meta = asdict(outcome.meta)
    call_id = meta.pop("call_id")
    shown: dict[str, Any] = {"status": _status_word(outcome), "data": None, "text": outcome.text, "code": None}
    match outcome:
        case Done(data=data):
            shown["data"] = data
        case Failed():
            shown |= {"code": outcome.code, "data": outcome.data, "executed": outcome.executed}
        case Pending():
            call_id = outcome.call_id or call_id
            told = question if isinstance(question, Pending) else outcome
            shown |= {"waiting_for": told.waiting_for, "message": told.message, "request": told.request}
            shown |= {"round": round or None}
    return shown | {"call_id": call_id, "meta": meta}


def event_to_json(event: Event) -> dict[str, Any]:
    """One event for a program; the outcome itself is the last line, so the end only says how it went."""
    fields = event._asdict() if isinstance(event, tuple) else asdict(event)
    if isinstance(event, CallEnded):
        code = event.outcome.code if isinstance(event.outcome, Failed) else None
        fields |= {"outcome": _status_word(event.outcome), "code": code}
    return {"event": type(event).__name__, **fields}


async def print_outcome(outcome: Outcome, outputs: OversizedOutputs, hint: str = "") -> None:
    """The outcome for a person: what the tool gave on stdout, anything else on stderr."""
    match outcome:
        case Done(data=data):
            text = await _full_text(outcome.text, outputs)
            create_console().print(
                Text(escape_unprintable(text)) if _text_adds_to_data(text, data) else pretty_json(data), soft_wrap=True
            )
        case Failed(code=code, message=message):
            print_problem(escape_unprintable(await _full_text(message, outputs)), prefix=f"failed ({code})")
            if code == "crashed" and not logging.getLogger("surehand").isEnabledFor(logging.DEBUG):
                hint = "Run it again with --debug for the traceback."
        case Pending(waiting_for=waiting_for):
            print_problem(escape_unprintable(outcome.message), prefix=f"pending ({waiting_for})", ansi_colour=33)
    if hint:
        sys.stderr.write(f"{hint}\n")


def answer_hint(outcome: Outcome, options: RuntimeOptions | None, *, round: int = 1, was_asked: bool = False) -> str:
    """What a person can do about a call that waits: answer it later where it is remembered, else call again.

    Args:
        given: the options to repeat; None where the call ends with its process.
        round: which of its questions is open.
        asked: whether somebody was asked, and left.
    """
    match outcome:
        case Pending("approval", call_id) if options is not None:
            verbs = [
                options.follow_up_command(verb, *question_arguments(call_id, round)) for verb in ("approve", "reject")
            ]
            return "\n  ".join(["Nothing ran. Whoever decides can answer later:", *verbs])
        case Pending("input", call_id) if options is not None and is_yes_no_form(outcome.request):
            settle = options.follow_up_command("settle", *question_arguments(call_id, round))
            return f"Whoever decides can answer later:\n  {settle} true   # yes\n  {settle} false   # no"
        case Pending(_, call_id) if options is not None:
            settle = options.follow_up_command("settle", *question_arguments(call_id, round))
            return f"Whoever has the answer can give it later:\n  {settle} ANSWER"
        case Pending("approval"):
            ask = "Run it again to be asked again" if was_asked else "Answer in a terminal"
            return f"Nothing ran. {ask}, or run it with --yes or --no."
        case Pending():
            if was_asked:
                return "It got no answer. Run it again to be asked again."
            return "It still waits for an answer. Run it in a terminal to give one."
    return ""


def question_arguments(call_id: str, round: int) -> list[str]:
    """How a question is named on the command line; without a number, the first of its call is meant."""
    return [call_id, "--round", str(round)] if round > 1 else [call_id]


async def _full_text(text: str, outputs: OversizedOutputs) -> str:
    """The text before it was cut for a model: a screen has room."""
    if not text.startswith(f'{{"{READER_TOOL_NAME}":'):
        return text
    try:
        return (await outputs.find(json.loads(text)[READER_TOOL_NAME]["handle"], None, None)).text
    except (ValueError, LookupError, TypeError, RecursionError, NotFound):  # a tool's own words, and no handle of ours
        return text


def _text_adds_to_data(text: str, data: Any) -> bool:
    """Whether the text says more than the value as JSON would: a string, or blocks."""
    return data is None or isinstance(data, str) or text != to_text(data)


def _status_word(outcome: Outcome) -> str:
    return {Done: "done", Failed: "failed", Pending: "pending"}[type(outcome)]
