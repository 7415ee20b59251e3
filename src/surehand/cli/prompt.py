"""The prompt: a person at the terminal says yes, no or something else, and answers for client tools."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from surehand.catalogue.catalogue import Catalogue
from surehand.cli.form import shown_form
from surehand.cli.preview import shown_preview
from surehand.cli.screen import console, pretty
from surehand.core.errors import InvalidArguments
from surehand.core.jsontext import Malformed, parse
from surehand.core.sanitize import escape_unprintable
from surehand.runtime.approval import Approval
from surehand.runtime.policy import Policy
from surehand.runtime.waiting import WaitingCall

try:
    import readline
    import termios
except ImportError:  # not on Windows: lines cannot be edited there before they are sent
    readline = termios = None  # type: ignore[assignment]

QUESTION = "Run it? [y]es, [n]o, [e]dit: "


def approval_of(wait: WaitingCall, catalogue: Catalogue, policy: Policy) -> Approval | None:
    """Show everything that would happen and ask; None if the person leaves without an answer."""
    forget_typed()
    _show_question(wait)
    edited: Mapping[str, Any] | None = None
    while (answer := ask(QUESTION)) is not None:
        match answer.strip().lower():
            case "y" | "yes":
                return Approval(True, arguments=edited)
            case "n" | "no":
                return Approval(False)
            case "e" | "edit":
                edited = _edited(wait.tool, wait.arguments if edited is None else edited, catalogue, policy)
                _show_arguments(edited)
            case _:
                say("Answer y, n or e.", "yellow")
    return None


def answer_to(wait: WaitingCall, catalogue: Catalogue) -> tuple[Any] | None:
    """What the person answers in place of a client: JSON where it is JSON, else text; None for no answer."""
    say(f"{wait.tool} asks you", "bold yellow")
    listing = catalogue.find(wait.tool)
    say(listing.tool.description if listing and listing.kind in ("client", "external") else wait.message)
    _show_arguments(wait.arguments)
    if wait.request:
        say("It asks for:", "bold")
        console(sys.stderr).print(shown_form(wait.request) or pretty(wait.request), soft_wrap=True)
    answer = ask("Answer (JSON or text): ")
    if answer is None:
        return None
    try:
        return (json.loads(answer),)
    except ValueError:
        return (answer,)


def _show_question(wait: WaitingCall) -> None:
    say(f"{wait.tool} asks first", "bold yellow")
    say(wait.message)
    _show_arguments(wait.arguments)
    preview = wait.request.get("preview") if isinstance(wait.request, Mapping) else None
    if preview is not None:
        say("Preview:", "bold")
        console(sys.stderr).print(shown_preview(preview), soft_wrap=True)


def _show_arguments(arguments: Mapping[str, Any]) -> None:
    """All of them, however long: what is cut off could be what matters."""
    console(sys.stderr).print(pretty(arguments), soft_wrap=True)


def _edited(tool: str, arguments: Mapping[str, Any], catalogue: Catalogue, policy: Policy) -> Mapping[str, Any]:
    """Other arguments from the person, asked for until they fit; an empty line keeps those there are."""
    text = json.dumps(arguments, ensure_ascii=True)
    say("Change them and press Enter; an empty line leaves them as they are.")
    while True:
        text = ask("Arguments: ", filled_in=text) or ""
        if not text.strip():
            return arguments
        if problem := _problem(tool, text, catalogue, policy):
            say(problem, "red")
        else:
            return dict(parse(text))


def _problem(tool: str, text: str, catalogue: Catalogue, policy: Policy) -> str:
    listing = catalogue.find(tool)
    try:
        if not isinstance(parse(text), Mapping):
            return 'The arguments have to be a JSON object: {"name": value, ...}.'
        if listing is not None and policy.decide(listing, listing.tool.check(text)).decision == "deny":
            return "The policy does not allow these arguments."
    except Malformed as error:
        return str(error).partition(" Send ")[0]  # what follows tells a model what to do
    except InvalidArguments as error:
        return f"These arguments do not fit: {str(error).removeprefix('invalid arguments: ')}"
    return ""


def say(text: str, style: str = "") -> None:
    """Tell the person something, on stderr."""
    console(sys.stderr).print(Text(escape_unprintable(text), style=style))


def forget_typed() -> None:
    """What was typed before the question was there is no answer to it."""
    if termios is not None:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def ask(question: str, filled_in: str = "") -> str | None:
    """One line from the person; None at the end of input. Ctrl-C raises KeyboardInterrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    if filled_in and readline is not None:
        readline.set_startup_hook(lambda: readline.insert_text(filled_in))
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
