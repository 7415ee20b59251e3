"""`surehand call`: run one tool."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import Any

import click

from surehand.cli.exit_codes import EXIT_NOT_FOUND
from surehand.cli.formatting import is_terminal, json_line
from surehand.cli.interactive_call import InteractiveCall
from surehand.cli.lifecycle import run_coroutine, start_runtime
from surehand.cli.options import DurationParam, RuntimeOptions, with_tools_and_store
from surehand.cli.outcome_output import (
    answer_hint,
    event_to_json,
    exit_code,
    find_current_question,
    outcome_to_json,
    print_outcome,
)
from surehand.cli.progress import ProgressDisplay
from surehand.cli.tool_arguments import parse_arguments
from surehand.core.outcome import Outcome
from surehand.runtime.runtime import Runtime

PRINCIPAL_OPTIONS = {
    "user": "The user that the call is made for.",
    "session": "The session that it belongs to.",
    "agent": "The agent that makes it.",
    "space": "The space that is active meanwhile.",
}


@dataclass(frozen=True, slots=True)
class CommandLineCall:
    """What was asked for."""

    tool_name: str
    arguments: str | tuple[str, ...]
    """What stdin said, or the words on the command line."""
    timeout: float | None
    principal: Mapping[str, Any]
    """The user, session, agent and space that were named."""


def _principal_options(command: Any) -> Any:
    """An option for each part of who makes a call, and for whom."""
    for name, told in reversed(PRINCIPAL_OPTIONS.items()):
        command = click.option(f"--{name}", metavar="ID", help=told)(command)
    return command


@click.command("call")
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[JSON | - | KEY=VALUE ...]")
@click.option("--timeout", type=DurationParam(), metavar="DURATION", help="Stop the call after 30s, 5m, ...")
@click.option("--yes/--no", "verdict", default=None, help="Answer every approval so, and ask nobody.")
@_principal_options
@click.option("--events", is_flag=True, help="Every event as a JSON line, then the outcome.")
@click.option("--json", "as_json", is_flag=True, help="The outcome as a JSON line, as in a pipe.")
@with_tools_and_store
@click.pass_context
def command(
    ctx: click.Context,
    /,
    options: RuntimeOptions,
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
    asked = CommandLineCall(name, words, timeout, {key: value for key, value in whom.items() if value is not None})
    if is_terminal(sys.stdout) and not events and not as_json:
        watch = ProgressDisplay()
        talk = InteractiveCall(preset_decision=verdict, can_ask=is_terminal(sys.stdin), pause=watch.paused)
        ctx.exit(
            run_coroutine(
                _call_for_person(options, options.build_runtime_with_store(talk.approver), talk, asked, watch)
            )
        )
    talk = InteractiveCall(preset_decision=verdict, can_ask=False, pause=nullcontext)
    ctx.exit(run_coroutine(_call_for_program(options.build_runtime_with_store(talk.approver), talk, asked, events)))


async def _call_for_person(
    options: RuntimeOptions,
    runtime: Runtime,
    interactive_call: InteractiveCall,
    request: CommandLineCall,
    progress: ProgressDisplay,
) -> int:
    async with start_runtime(runtime):
        if is_terminal(sys.stderr):
            progress.follow(runtime)
        try:
            outcome, known = await _call_tool(runtime, interactive_call, request)
        finally:
            progress.close()
        outcome, round = await find_current_question(runtime, outcome)
        later = options if runtime.services.is_durable else None
        hint = answer_hint(outcome, later, round=round, was_asked=is_terminal(sys.stdin))
        await print_outcome(outcome, runtime.services.outputs, hint)
    return exit_code(outcome) if known else EXIT_NOT_FOUND


async def _call_for_program(
    runtime: Runtime, interactive_call: InteractiveCall, request: CommandLineCall, events: bool
) -> int:
    out = sys.stdout

    def write(value: dict[str, Any]) -> None:
        out.write(json_line(value))
        out.flush()

    with redirect_stdout(sys.stderr):  # what a handler prints is no part of our output
        async with start_runtime(runtime):
            if events:
                runtime.listen(lambda event: write(event_to_json(event)))
            outcome, known = await _call_tool(runtime, interactive_call, request)
            write(outcome_to_json(outcome, *await find_current_question(runtime, outcome)))
    return exit_code(outcome) if known else EXIT_NOT_FOUND


async def _call_tool(
    runtime: Runtime, interactive_call: InteractiveCall, request: CommandLineCall
) -> tuple[Outcome, bool]:
    """The outcome, and whether there is such a tool at all."""
    listing = runtime.catalogue.resolve(request.tool_name)
    arguments = parse_arguments(request.arguments, listing.tool.schema if listing else {})
    scope = runtime.scope(**request.principal) if request.principal else runtime
    return await interactive_call.call(scope, request.tool_name, arguments, request.timeout), listing is not None
