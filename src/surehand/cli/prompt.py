"""Prompts at the terminal: approving a call, editing its arguments, and answering for a client tool or a server."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import click
from rich.text import Text

from surehand.catalogue.catalogue import Catalogue
from surehand.cli.elicitation_form import render_form
from surehand.cli.formatting import create_console, pretty_json, render_preview
from surehand.core.errors import InvalidArguments
from surehand.core.sanitize import escape_unprintable
from surehand.core.strict_json import MalformedJson, parse_json
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.policy import Policy

try:
    import readline
    import termios
except ImportError:  # Windows has neither: an answer cannot be edited there
    readline = termios = None  # type: ignore[assignment]

APPROVAL_QUESTION = "Run it? [y]es, [n]o, [e]dit: "
REVIEW_QUESTION = "Run it? [y]es, [n]o, [e]dit, [s]kip: "
EDITOR_VARIABLES = ("VISUAL", "EDITOR")


ReadAnswer: TypeAlias = Callable[[str, str], str | None]
"""Reads one line after a question, with a text to start from; None at the end of input."""


class EndOfAnswers(Exception):
    """The person has closed the input: no further question can be asked."""


def ask_for_approval(
    pending_call: PendingCall, catalogue: Catalogue, policy: Policy, read: ReadAnswer | None = None
) -> Approval | None:
    """Show what the call would do and ask for approval; None if the person gives no answer."""
    discard_typed_input()
    try:
        return _ask_for_approval(pending_call, catalogue, policy, APPROVAL_QUESTION, read or read_answer)
    except EndOfAnswers:
        return None


def review_approval(pending_call: PendingCall, catalogue: Catalogue, policy: Policy) -> Approval | None:
    """The same for one of several calls: None if the person skips it; raises `EndOfAnswers` at the end of input."""
    return _ask_for_approval(pending_call, catalogue, policy, REVIEW_QUESTION, read_answer)


def _ask_for_approval(
    pending_call: PendingCall, catalogue: Catalogue, policy: Policy, question: str, read: ReadAnswer
) -> Approval | None:
    _print_approval_request(pending_call)
    edited: Mapping[str, Any] | None = None
    while (answer := read(question, "")) is not None:
        match answer.strip().lower():
            case "y" | "yes":
                return Approval(True, arguments=edited)
            case "n" | "no":
                return Approval(False)
            case "e" | "edit":
                current = pending_call.arguments if edited is None else edited
                edited = _edit_arguments(pending_call.tool, current, catalogue, policy, read)
                _print_arguments(edited)
            case "s" | "skip" if question is REVIEW_QUESTION:
                return None
            case _:
                choices = "y, n, e or s" if question is REVIEW_QUESTION else "y, n or e"
                print_notice(f"Answer {choices}.", "yellow")
    raise EndOfAnswers


def ask_for_answer(
    pending_call: PendingCall, catalogue: Catalogue, read: ReadAnswer | None = None
) -> tuple[Any] | None:
    """The person's answer in a tuple, parsed if it is JSON; None for no answer."""
    print_notice(f"{pending_call.tool} asks you", "bold yellow")
    listing = catalogue.find(pending_call.tool)
    is_client_tool = listing is not None and listing.kind in ("client", "external")
    print_notice(listing.tool.description if listing is not None and is_client_tool else pending_call.message)
    _print_arguments(pending_call.arguments)
    if pending_call.request:
        print_notice("It asks for:", "bold")
        form = render_form(pending_call.request) or pretty_json(pending_call.request)
        create_console(sys.stderr).print(form, soft_wrap=True)
    answer = (read or read_answer)("Answer (JSON or text): ", "")
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
    request = pending_call.request
    preview = request.get("preview") if isinstance(request, Mapping) else None
    if preview is not None:
        print_notice("Preview:", "bold")
        create_console(sys.stderr).print(render_preview(preview), soft_wrap=True)


def _print_arguments(arguments: Mapping[str, Any]) -> None:
    """Print all arguments, however long: a cut could hide the part that matters."""
    create_console(sys.stderr).print(pretty_json(arguments), soft_wrap=True)


def _edit_arguments(
    tool: str, arguments: Mapping[str, Any], catalogue: Catalogue, policy: Policy, read: ReadAnswer
) -> Mapping[str, Any]:
    """Ask for other arguments until they are valid; nothing, or what was there before, keeps the current ones."""
    editor = next((os.environ[name] for name in EDITOR_VARIABLES if os.environ.get(name)), None)
    text = json.dumps(arguments, indent=None if editor is None else 2, ensure_ascii=True)
    if editor is None:
        print_notice("Change the arguments and press Enter; an empty line keeps them. $EDITOR would be opened here.")
    while True:
        changed = (read("Arguments: ", text) or "") if editor is None else _edit_in_editor(text, editor)
        if not changed.strip():
            return arguments
        problem = _argument_problem(tool, changed, catalogue, policy)
        if not problem:
            return dict(parse_json(changed))
        print_notice(problem, "red")
        if editor is not None and (read("Edit again? [Y]es, [n]o: ", "") or "").strip().lower() in ("n", "no"):
            return arguments
        text = changed


def _edit_in_editor(text: str, editor: str) -> str:
    """Open the text in an editor; empty if the person does not save it, or the editor cannot be started."""
    try:
        return click.edit(text, editor=editor, extension=".json") or ""
    except click.ClickException as error:
        print_notice(error.format_message(), "red")
        return ""


def _argument_problem(tool: str, text: str, catalogue: Catalogue, policy: Policy) -> str:
    """Why the arguments cannot be used; empty if they can."""
    listing = catalogue.find(tool)
    try:
        if not isinstance(parse_json(text), Mapping):
            return 'The arguments have to be a JSON object: {"name": value, ...}.'
        if listing is not None and policy.decide(listing, listing.tool.validate_arguments(text)).decision == "deny":
            return "The policy does not allow these arguments."
    except MalformedJson as error:
        return str(error).partition(" Send ")[0]  # the rest is advice for a model
    except InvalidArguments as error:
        return f"The arguments are invalid: {str(error).removeprefix('invalid arguments: ')}"
    return ""


def print_notice(text: str, style: str = "") -> None:
    """Print a line for the person on stderr."""
    create_console(sys.stderr).print(Text(escape_unprintable(text), style=style))


def discard_typed_input() -> None:
    """Discard what was typed before the question appeared: it is not an answer to it."""
    if termios is not None:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)  # the kernel buffers what is typed ahead


def read_answer(question: str, initial_text: str = "") -> str | None:
    """Read one line; None at the end of input. Ctrl-C raises KeyboardInterrupt."""
    # asyncio.Runner handles SIGINT by cancelling the main task, which does not interrupt a blocking `input`.
    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    if initial_text and readline is not None:
        readline.set_startup_hook(lambda: readline.insert_text(initial_text))
    try:
        return input(question)
    except EOFError:
        sys.stderr.write("\n")
        return None
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise
    finally:
        if readline is not None:
            readline.set_startup_hook()
        signal.signal(signal.SIGINT, previous_handler)
