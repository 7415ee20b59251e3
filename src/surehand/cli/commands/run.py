"""`surehand run`: run an agent once, for pipes and scripts."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, redirect_stdout
from dataclasses import dataclass
from typing import Any

import click

from surehand.agent.agent import Agent
from surehand.agent.run import Run
from surehand.agent.run_family import RunFamily
from surehand.cli.answers import login_name
from surehand.cli.chosen_agent import NO_AGENTS_MESSAGE, choose_agent
from surehand.cli.exit_codes import EXIT_NOT_FOUND, EXIT_USAGE, YELLOW, CommandExit, print_problem
from surehand.cli.formatting import is_terminal, json_line
from surehand.cli.lifecycle import run_coroutine, start_runtime
from surehand.cli.options import RuntimeOptions, with_tools_and_store
from surehand.cli.outcome_output import unanswerable_wait_message
from surehand.cli.run_output import run_event_to_json, run_exit_code, run_to_json, waiting_hint
from surehand.cli.turn_display import TurnDisplay
from surehand.core.events import Event, RunEnded
from surehand.core.ids import new_id
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.pending.pending_call import Approver, PendingCall
from surehand.runtime.runtime import Runtime
from surehand.store.tables.runs import RunRow


@dataclass(frozen=True, slots=True)
class CommandLineRun:
    """A run as given on the command line."""

    prompt: str | None
    """None to go on with a run."""
    run_id: str
    user: str | None
    session: str | None


@click.command("run")
@click.argument("agent")
@click.argument("prompt", required=False, metavar="[PROMPT | -]")
@click.option("--resume", metavar="RUN", help="Go on with a run that waited, instead of a new prompt.")
@click.option("--run-id", metavar="ID", help="An id for the run: the same id again is the same run.")
@click.option("--user", metavar="ID", help="The user of the run.")
@click.option("--session", metavar="ID", help="The session of the run.")
@click.option("--yes/--no", "decision", default=None, help="Approve or reject every approval of the run.")
@click.option("--events", is_flag=True, help="Every event as a JSON line, then the run.")
@click.option("--json", "as_json", is_flag=True, help="The run as a JSON line, as in a pipe.")
@with_tools_and_store
@click.pass_context
def command(
    ctx: click.Context,
    /,
    options: RuntimeOptions,
    agent: str,
    prompt: str | None,
    resume: str | None,
    run_id: str | None,
    user: str | None,
    session: str | None,
    decision: bool | None,
    events: bool,
    as_json: bool,
) -> None:
    """Run AGENT on PROMPT, or on the text of stdin (-).

    A run that waits for a person ends with code 3, and says how to answer and how to go on.

    Exit codes: 0 done, 1 failed or stopped at a limit, 2 wrong usage or configuration, 3 waiting, 5 unknown agent or
    run, 130 interrupted.
    """
    if (prompt is None) == (resume is None):
        raise click.UsageError("Give a prompt, - for stdin, or --resume RUN.", ctx)
    text = sys.stdin.read() if prompt == "-" else prompt
    chosen_id = resume or run_id or new_id()
    family = RunFamily(chosen_id)
    approver = _preset_approver(family, decision)
    runtime, agents = options.build_runtime_with_agents(approver, nothing_configured=NO_AGENTS_MESSAGE)
    runtime.listen(family.includes)
    chosen = choose_agent(agents, agent)
    if not runtime.is_durable:
        if resume is not None:
            raise CommandExit(
                EXIT_USAGE, "A run can be resumed from a store only: add --store, or `store:` to the file."
            )
        runtime.refuse_waits(unanswerable_wait_message)
    request = CommandLineRun(text, chosen_id, user, session)
    if is_terminal(sys.stdout) and not events and not as_json:
        ctx.exit(run_coroutine(_run_for_person(options, runtime, chosen, request)))
    ctx.exit(run_coroutine(_run_for_program(options, runtime, chosen, request, events)))


def _preset_approver(family: RunFamily, decision: bool | None) -> Approver | None:
    """An approver that gives the same decision for every call of the run, as given with --yes or --no."""
    if decision is None:
        return None

    async def decide(pending_call: PendingCall) -> Approval | None:
        # A runtime with a store may resume other calls, about which nothing was said.
        return Approval(decision, by=login_name()) if pending_call.turn in family.run_ids else None

    return decide


async def _run_for_person(options: RuntimeOptions, runtime: Runtime, agent: Agent, request: CommandLineRun) -> int:
    async with start_runtime(runtime):
        display = TurnDisplay()
        run: Run | None = None
        async with aclosing(_events(runtime, agent, request)) as events:
            async for event in events:
                display(event)
                if isinstance(event, RunEnded):
                    run = event.run
        assert run is not None  # the last event of every stream
        display.end_line()
        if run.status != "done":
            colour = {} if run.status == "failed" else {"ansi_colour": YELLOW}
            print_problem(run.reason, prefix=run.status, **colour)
        if run.status == "waiting" and runtime.is_durable:
            sys.stderr.write(f"{waiting_hint(run, options)}\n")
    return run_exit_code(run)


async def _run_for_program(
    options: RuntimeOptions, runtime: Runtime, agent: Agent, request: CommandLineRun, shows_events: bool
) -> int:
    stdout = sys.stdout

    def write(value: dict[str, Any]) -> None:
        stdout.write(json_line(value))
        stdout.flush()

    run: Run | None = None
    with redirect_stdout(sys.stderr):  # keep the prints of handlers out of the JSON on stdout
        async with start_runtime(runtime):
            async with aclosing(_events(runtime, agent, request)) as events:
                async for event in events:
                    if shows_events:
                        write(run_event_to_json(event))
                    if isinstance(event, RunEnded):
                        run = event.run
            assert run is not None  # the last event of every stream
            write(run_to_json(run, options if runtime.is_durable else None))
    return run_exit_code(run)


async def _events(runtime: Runtime, agent: Agent, request: CommandLineRun) -> AsyncGenerator[Event]:
    """The events of a new run, or of one that goes on."""
    prompt = request.prompt
    user = request.user
    session = request.session
    row = await _find_run(runtime, request.run_id)
    if prompt is None:
        if row is None or row.agent != agent.name:
            raise CommandExit(EXIT_NOT_FOUND, f"The agent {agent.name} has no run {request.run_id!r} in this store.")
        # A run that exists is started again by its id, for its own user, and goes on with its own prompt.
        prompt = ""
        user = row.user
        session = row.session
    elif row is not None and (row.agent, row.user, row.session) != (agent.name, user, session):
        raise CommandExit(EXIT_USAGE, f"The id {request.run_id!r} belongs to another run. Choose another --run-id.")
    stream = agent.stream(prompt, runtime=runtime, user=user, session=session, run_id=request.run_id)
    async with aclosing(stream):
        async for event in stream:
            yield event


async def _find_run(runtime: Runtime, run_id: str) -> RunRow | None:
    """The run of this id, if there is a store that has it."""
    store = runtime.store
    if store is None or not runtime.is_durable:
        return None
    return await store.runs.find(run_id)
