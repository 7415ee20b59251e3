"""`surehand call`: call one tool."""

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
    unanswerable_wait_message,
)
from surehand.cli.progress import ProgressDisplay
from surehand.cli.tool_arguments import parse_arguments
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.runtime import Runtime

PRINCIPAL_OPTIONS = {
    "user": "The user of the call.",
    "session": "The session of the call.",
    "agent": "The agent that makes the call.",
    "space": "The space that is active during the call.",
}


@dataclass(frozen=True, slots=True)
class CommandLineCall:
    """A call as given on the command line."""

    tool_name: str
    arguments: str | tuple[str, ...]
    """The text of stdin, or the words on the command line."""
    timeout: float | None
    principal: Mapping[str, Any]
    """The user, session, agent and space, as far as given."""


def _principal_options(command: Any) -> Any:
    """Add the options for user, session, agent and space."""
    for name, help_text in reversed(PRINCIPAL_OPTIONS.items()):
        command = click.option(f"--{name}", metavar="ID", help=help_text)(command)
    return command


@click.command("call")
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[JSON | - | KEY=VALUE ...]")
@click.option("--timeout", type=DurationParam(), metavar="DURATION", help="Stop the call after 30s, 5m, ...")
@click.option("--yes/--no", "decision", default=None, help="Approve or reject every approval without asking.")
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
    decision: bool | None,
    events: bool,
    as_json: bool,
    **principal: str | None,
) -> None:
    """Call the tool NAME.

    Its arguments are one JSON object, - for JSON on stdin, or KEY=VALUE pairs.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 pending, 4 denied or rejected, 5 unknown tool,
    130 interrupted.
    """
    words = sys.stdin.read() if arguments == ("-",) else arguments
    given_principal = {key: value for key, value in principal.items() if value is not None}
    request = CommandLineCall(name, words, timeout, given_principal)
    if is_terminal(sys.stdout) and not events and not as_json:
        progress = ProgressDisplay()
        call = InteractiveCall(preset_decision=decision, can_ask=is_terminal(sys.stdin), pause=progress.paused)
        runtime = options.build_runtime_with_store(call.approver)
        _refuse_unanswerable_waits(runtime, call)
        ctx.exit(run_coroutine(_call_for_person(options, runtime, call, request, progress)))
    call = InteractiveCall(preset_decision=decision, can_ask=False, pause=nullcontext)
    runtime = options.build_runtime_with_store(call.approver)
    _refuse_unanswerable_waits(runtime, call)
    ctx.exit(run_coroutine(_call_for_program(runtime, call, request, events)))


def _refuse_unanswerable_waits(runtime: Runtime, interactive_call: InteractiveCall) -> None:
    """Let calls fail that no one could ever answer: there is no terminal, and the wait would end with the process."""
    if not interactive_call.can_ask and not runtime.is_durable:
        runtime.refuse_waits(unanswerable_wait_message)


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
            outcome, is_known = await _call_tool(runtime, interactive_call, request)
        finally:
            progress.close()
        outcome, round = await find_current_question(runtime, outcome)
        options_to_repeat = options if runtime.is_durable else None
        hint = answer_hint(outcome, options_to_repeat, round=round)
        await print_outcome(outcome, runtime.outputs, hint)
    return exit_code(outcome) if is_known else EXIT_NOT_FOUND


async def _call_for_program(
    runtime: Runtime, interactive_call: InteractiveCall, request: CommandLineCall, events: bool
) -> int:
    stdout = sys.stdout

    def write(value: dict[str, Any]) -> None:
        stdout.write(json_line(value))
        stdout.flush()

    with redirect_stdout(sys.stderr):  # keep the prints of handlers out of the JSON on stdout
        async with start_runtime(runtime):
            if events:
                runtime.listen(lambda event: write(event_to_json(event)))
            outcome, is_known = await _call_tool(runtime, interactive_call, request)
            question, round = await find_current_question(runtime, outcome)
            write(outcome_to_json(outcome, question, round))
    return exit_code(outcome) if is_known else EXIT_NOT_FOUND


async def _call_tool(
    runtime: Runtime, interactive_call: InteractiveCall, request: CommandLineCall
) -> tuple[Outcome, bool]:
    """Call the tool; return the outcome, and whether the tool is known: one that is left out or down is, too."""
    listing = runtime.catalogue.resolve(request.tool_name)
    arguments = parse_arguments(request.arguments, listing.tool.schema if listing else {})
    scope = runtime.scope(**request.principal) if request.principal else runtime
    outcome = await interactive_call.call(scope, request.tool_name, arguments, request.timeout)
    is_unknown = listing is None and isinstance(outcome, Failed) and outcome.code == "not_found"
    return outcome, not is_unknown
