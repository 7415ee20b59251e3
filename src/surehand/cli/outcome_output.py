"""Prints outcomes for a person, converts outcomes and events to JSON for a program, and gives the exit code."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from typing import Any

from rich.text import Text

from surehand.cli.elicitation_form import is_yes_no_form
from surehand.cli.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_PENDING, EXIT_REFUSED, YELLOW, print_problem
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
    """The exit code for an outcome."""
    match outcome:
        case Done():
            return EXIT_DONE
        case Pending():
            return EXIT_PENDING
        case Failed(code="denied" | "rejected"):
            return EXIT_REFUSED
    return EXIT_FAILED


async def find_current_question(runtime: Runtime, outcome: Outcome) -> tuple[Outcome, int]:
    """The question that a pending call asks now, and its round.

    Both come from one read of the store, so that the person answers the question that is shown.
    """
    if isinstance(outcome, Pending) and outcome.call_id:
        status = await runtime.status(outcome.call_id)
        if status is not None and isinstance(status.outcome, Pending):
            return status.outcome, status.round
    return outcome, 0


def outcome_to_json(outcome: Outcome, question: Outcome | None = None, round: int = 0) -> dict[str, Any]:
    """An outcome for a program: always the same keys, and a few more for a pending or failed one.

    Args:
        question: the question that a pending call asks now.
        round: the round of that question.
    """
    meta = asdict(outcome.meta)
    call_id = meta.pop("call_id")
    record: dict[str, Any] = {"status": _status_word(outcome), "data": None, "text": outcome.text, "code": None}
    match outcome:
        case Done(data=data):
            record["data"] = data
        case Failed():
            record |= {"code": outcome.code, "data": outcome.data, "executed": outcome.executed}
        case Pending():
            call_id = outcome.call_id or call_id
            asked = question if isinstance(question, Pending) else outcome
            record |= {"waiting_for": asked.waiting_for, "message": asked.message, "request": asked.request}
            record |= {"round": round or None}
    return record | {"call_id": call_id, "meta": meta}


def event_to_json(event: Event) -> dict[str, Any]:
    """An event for a program. The outcome follows as a line of its own, so `CallEnded` has its status only."""
    fields = event._asdict() if isinstance(event, tuple) else asdict(event)
    if isinstance(event, CallEnded):
        code = event.outcome.code if isinstance(event.outcome, Failed) else None
        fields |= {"outcome": _status_word(event.outcome), "code": code}
    return {"event": type(event).__name__, **fields}


async def print_outcome(outcome: Outcome, outputs: OversizedOutputs, hint: str = "") -> None:
    """Print an outcome for a person: a result on stdout, everything else on stderr."""
    match outcome:
        case Done(data=data):
            text = await _full_text(outcome.text, outputs)
            rendered = Text(escape_unprintable(text)) if _text_adds_to_data(text, data) else pretty_json(data)
            create_console().print(rendered, soft_wrap=True)
        case Failed(code=code, message=message):
            prefix = "failed" if code == "failed" else f"failed ({code})"
            print_problem(escape_unprintable(await _full_text(message, outputs)), prefix=prefix)
            if code == "crashed" and not logging.getLogger("surehand").isEnabledFor(logging.DEBUG):
                hint = "Run it again with --debug for the traceback."
        case Pending(waiting_for=waiting_for):
            print_problem(escape_unprintable(outcome.message), prefix=f"pending ({waiting_for})", ansi_colour=YELLOW)
    if hint:
        sys.stderr.write(f"{hint}\n")


def unanswerable_wait_message(pending: Pending) -> str:
    """Why a call fails instead of waiting, and what to add, in a pipe without a store."""
    verb = "approve" if pending.waiting_for == "approval" else "settle"
    remedy = f"Add --store surehand.db, or `store:` to the configuration file, and answer it with `surehand {verb}`"
    if pending.waiting_for == "approval":
        remedy += "; or add --yes or --no"
    return f"has to wait for {pending.waiting_for}, and no one can answer it in a pipe without a store. {remedy}."


def answer_hint(outcome: Outcome, options: RuntimeOptions | None, *, round: int = 1) -> str:
    """How a person can answer a pending call: with a command if it is stored, else by calling again.

    Args:
        options: the options to repeat; None if the call is not stored and ends with this process.
        round: the round of the open question.
    """
    match outcome:
        case Pending("approval", call_id) if options is not None:
            arguments = question_arguments(call_id, round)
            commands = [options.follow_up_command(verb, *arguments) for verb in ("approve", "reject")]
            return "\n  ".join(["Nothing ran. Answer it later with one of:", *commands])
        case Pending("input", call_id) if options is not None and is_yes_no_form(outcome.request):
            settle = options.follow_up_command("settle", *question_arguments(call_id, round))
            return f"Answer it later with one of:\n  {settle} true   # yes\n  {settle} false   # no"
        case Pending(_, call_id) if options is not None:
            settle = options.follow_up_command("settle", *question_arguments(call_id, round))
            return f"Answer it later with:\n  {settle} ANSWER"
        case Pending("approval"):
            return "Nothing ran. Run it again to be asked again, or run it with --yes or --no."
        case Pending():
            return "It got no answer. Run it again to be asked again."
    return ""


def question_arguments(call_id: str, round: int) -> list[str]:
    """The arguments that name a question on the command line; --round is needed after the first."""
    return [call_id, "--round", str(round)] if round > 1 else [call_id]


async def _full_text(text: str, outputs: OversizedOutputs) -> str:
    """The whole text of an output that was too large for a model and is stored under a handle."""
    if not text.startswith(f'{{"{READER_TOOL_NAME}":'):
        return text
    try:
        handle = json.loads(text)[READER_TOOL_NAME]["handle"]
        return (await outputs.find(handle, None, None)).text
    except (ValueError, LookupError, TypeError, RecursionError, NotFound):  # a tool's own text that looks like one
        return text


def _text_adds_to_data(text: str, data: Any) -> bool:
    """Whether the text is more than the data as JSON: a plain string, or content blocks."""
    return data is None or isinstance(data, str) or text != to_text(data)


def _status_word(outcome: Outcome) -> str:
    return {Done: "done", Failed: "failed", Pending: "pending"}[type(outcome)]
