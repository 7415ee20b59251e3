"""`surehand call`: run one tool."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import Any

import click

from surehand.cli.arguments import read_arguments
from surehand.cli.conversation import Conversation
from surehand.cli.durations import Duration
from surehand.cli.exits import UNKNOWN
from surehand.cli.options import Given, with_tools_and_store
from surehand.cli.outcome import as_asked, event_as_json, exit_code, how_to_answer, outcome_as_json, show_outcome
from surehand.cli.progress import Watch
from surehand.cli.run import run
from surehand.cli.screen import is_person, line
from surehand.cli.starting import started
from surehand.core.outcome import Outcome
from surehand.runtime.runtime import Runtime

WHOM = {
    "user": "The user that the call is made for.",
    "session": "The session that it belongs to.",
    "agent": "The agent that makes it.",
    "space": "The space that is active meanwhile.",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for."""

    name: str
    arguments: str | tuple[str, ...]
    """What stdin said, or the words on the command line."""
    timeout: float | None
    whom: Mapping[str, Any]
    """The user, session, agent and space that were named."""


def _for_whom(command: Any) -> Any:
    """An option for each part of who makes a call, and for whom."""
    for name, told in reversed(WHOM.items()):
        command = click.option(f"--{name}", metavar="ID", help=told)(command)
    return command


@click.command("call")
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[JSON | - | KEY=VALUE ...]")
@click.option("--timeout", type=Duration(), metavar="DURATION", help="Stop the call after 30s, 5m, ...")
@click.option("--yes/--no", "verdict", default=None, help="Answer every approval so, and ask nobody.")
@_for_whom
@click.option("--events", is_flag=True, help="Every event as a JSON line, then the outcome.")
@click.option("--json", "as_json", is_flag=True, help="The outcome as a JSON line, as in a pipe.")
@with_tools_and_store
@click.pass_context
def command(
    ctx: click.Context,
    /,
    given: Given,
    name: str,
    arguments: tuple[str, ...],
    timeout: float | None,
    verdict: bool | None,
    events: bool,
    as_json: bool,
    **whom: str | None,
) -> None:
    """Run the tool NAME.

    Its arguments are one JSON object, - for JSON on stdin, or KEY=VALUE pairs.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 pending, 4 denied or rejected, 5 unknown tool,
    130 interrupted.
    """
    words = sys.stdin.read() if arguments == ("-",) else arguments
    asked = Asked(name, words, timeout, {key: value for key, value in whom.items() if value is not None})
    if is_person(sys.stdout) and not events and not as_json:
        watch = Watch()
        talk = Conversation(verdict=verdict, person=is_person(sys.stdin), pause=watch.paused)
        ctx.exit(run(_for_a_person(given, given.remembering(talk.approver), talk, asked, watch)))
    talk = Conversation(verdict=verdict, person=False, pause=nullcontext)
    ctx.exit(run(_for_a_program(given.remembering(talk.approver), talk, asked, events)))


async def _for_a_person(given: Given, runtime: Runtime, talk: Conversation, asked: Asked, watch: Watch) -> int:
    async with started(runtime):
        if is_person(sys.stderr):
            watch.follow(runtime)
        try:
            outcome, known = await _call(runtime, talk, asked)
        finally:
            watch.close()
        outcome, round = await as_asked(runtime, outcome)
        later = given if runtime.parts.durable else None
        hint = how_to_answer(outcome, later, round=round, asked=is_person(sys.stdin))
        await show_outcome(outcome, runtime.parts.outputs, hint)
    return exit_code(outcome) if known else UNKNOWN


async def _for_a_program(runtime: Runtime, talk: Conversation, asked: Asked, events: bool) -> int:
    out = sys.stdout

    def write(value: dict[str, Any]) -> None:
        out.write(line(value))
        out.flush()

    with redirect_stdout(sys.stderr):  # what a handler prints is no part of our output
        async with started(runtime):
            if events:
                runtime.listen(lambda event: write(event_as_json(event)))
            outcome, known = await _call(runtime, talk, asked)
            write(outcome_as_json(outcome, *await as_asked(runtime, outcome)))
    return exit_code(outcome) if known else UNKNOWN


async def _call(runtime: Runtime, talk: Conversation, asked: Asked) -> tuple[Outcome, bool]:
    """The outcome, and whether there is such a tool at all."""
    listing = runtime.catalogue.resolve(asked.name)
    arguments = read_arguments(asked.arguments, listing.tool.schema if listing else {})
    scope = runtime.scope(**asked.whom) if asked.whom else runtime
    return await talk.call(scope, asked.name, arguments, asked.timeout), listing is not None
