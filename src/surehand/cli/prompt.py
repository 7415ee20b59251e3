"""The prompt: a person at the terminal says yes, no or something else, and answers for client tools."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from surehand.catalogue.catalogue import Catalogue
from surehand.cli.elicitation_form import render_form
from surehand.cli.formatting import create_console, pretty_json, render_preview
from surehand.core.errors import InvalidArguments
from surehand.core.sanitize import escape_unprintable
from surehand.core.strict_json import MalformedJson, parse_json
from surehand.runtime.pending.approval import Approval
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.policy import Policy

try:
    import readline
    import termios
except ImportError:  # not on Windows: lines cannot be edited there before they are sent
    readline = termios = None  # type: ignore[assignment]

APPROVAL_QUESTION = "Run it? [y]es, [n]o, [e]dit: "


def ask_for_approval(pending_call: PendingCall, catalogue: Catalogue, policy: Policy) -> Approval | None:
    """Show everything that would happen and ask; None if the person leaves without an answer."""
    discard_typed_input()
    _print_approval_request(pending_call)
    edited: Mapping[str, Any] | None = None
    while (answer := read_answer(APPROVAL_QUESTION)) is not None:
        match answer.strip().lower():
            case "y" | "yes":
                return Approval(True, arguments=edited)
            case "n" | "no":
                return Approval(False)
            case "e" | "edit":
                edited = _edit_arguments(
                    pending_call.tool, pending_call.arguments if edited is None else edited, catalogue, policy
                )
                _print_arguments(edited)
            case _:
                print_notice("Answer y, n or e.", "yellow")
    return None


def ask_for_answer(pending_call: PendingCall, catalogue: Catalogue) -> tuple[Any] | None:
    """What the person answers in place of a client: JSON where it is JSON, else text; None for no answer."""
    print_notice(f"{pending_call.tool} asks you", "bold yellow")
    listing = catalogue.find(pending_call.tool)
    print_notice(
        listing.tool.description if listing and listing.kind in ("client", "external") else pending_call.message
    )
    _print_arguments(pending_call.arguments)
    if pending_call.request:
        print_notice("It asks for:", "bold")
        create_console(sys.stderr).print(
            render_form(pending_call.request) or pretty_json(pending_call.request), soft_wrap=True
        )
    answer = read_answer("Answer (JSON or text): ")
    if answer is None:
        return None
    try:
        return (json.loads(answer),)
    except ValueError:
        return (answer,)


def _print_approval_request(pending_call: PendingCall) -> None:
    print_notice(f"{pending_call.tool} asks first", "bold yellow")
    print_notice(pending_call.message)
    _print_arguments(pending_call.arguments)
    preview = pending_call.request.get("preview") if isinstance(pending_call.request, Mapping) else None
    if preview is not None:
        print_notice("Preview:", "bold")
        create_console(sys.stderr).print(render_preview(preview), soft_wrap=True)


def _print_arguments(arguments: Mapping[str, Any]) -> None:
    """All of them, however long: what is cut off could be what matters."""
    create_console(sys.stderr).print(pretty_json(arguments), soft_wrap=True)


def _edit_arguments(tool: str, arguments: Mapping[str, Any], catalogue: Catalogue, policy: Policy) -> Mapping[str, Any]:
    """Other arguments from the person, asked for until they fit; an empty line keeps those there are."""
    text = json.dumps(arguments, ensure_ascii=True)
    print_notice("Change them and press Enter; an empty line leaves them as they are.")
    while True:
        text = read_answer("Arguments: ", initial_text=text) or ""
        if not text.strip():
            return arguments
        if problem := _argument_problem(tool, text, catalogue, policy):
            print_notice(problem, "red")
        else:
            return dict(parse_json(text))


def _argument_problem(tool: str, text: str, catalogue: Catalogue, policy: Policy) -> str:
    listing = catalogue.find(tool)
    try:
        if not isinstance(parse_json(text), Mapping):
            return 'The arguments have to be a JSON object: {"name": value, ...}.'
        if listing is not None and policy.decide(listing, listing.tool.validate_arguments(text)).decision == "deny":
            return "The policy does not allow these arguments."
    except MalformedJson as error:
        return str(error).partition(" Send ")[0]  # what follows tells a model what to do
    except InvalidArguments as error:
        return f"These arguments do not fit: {str(error).removeprefix('invalid arguments: ')}"
    return ""


def print_notice(text: str, style: str = "") -> None:
    """Tell the person something, on stderr."""
    create_console(sys.stderr).print(Text(escape_unprintable(text), style=style))


def discard_typed_input() -> None:
    """What was typed before the question was there is no answer to it."""
    if termios is not None:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def read_answer(question: str, initial_text: str = "") -> str | None:
    """One line from the person; None at the end of input. Ctrl-C raises KeyboardInterrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    if initial_text and readline is not None:
        readline.set_startup_hook(lambda: readline.insert_text(initial_text))
    try:
        return input(question)
    except (EOFError, KeyboardInterrupt) as left:
        sys.stderr.write("\n")
        if isinstance(left, KeyboardInterrupt):
            raise
        return None
    finally:
        if readline is not None:
            readline.set_startup_hook()
        signal.signal(signal.SIGINT, before)
