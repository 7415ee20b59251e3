"""`surehand work`: run the agents in the background, on what is put into their inboxes."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout

import click

from surehand.agent.agent import Agent
from surehand.cli.exit_codes import EXIT_USAGE, CommandExit
from surehand.cli.lifecycle import exit_on_store_error, fastest_loop_factory, run_coroutine, start_runtime
from surehand.cli.options import NO_STORE_MESSAGE, RuntimeOptions, with_tools_and_store
from surehand.cli.serving import log_crashes, print_stderr, silence_library_logs
from surehand.runtime.runtime import Runtime
from surehand.runtime.worker import MAX_DRIVEN_RUNS, Worker

NO_AGENTS_MESSAGE = (
    "No agents are configured. Add them to `agents` of {file}, or name a Python file with agents: --tools agents.py"
)
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@click.command("work")
@click.option(
    "--concurrent",
    type=click.IntRange(min=1),
    default=MAX_DRIVEN_RUNS,
    metavar="N",
    help=f"Runs that go on at the same time [{MAX_DRIVEN_RUNS}].",
)
@with_tools_and_store
def command(options: RuntimeOptions, concurrent: int) -> None:
    """Run the agents in the background until Ctrl-C, on the events in their inboxes.

    Runs that wait go on when they are answered, and runs whose process has died go on here. Several processes may work
    on one store. At the end, a run finishes its step, and the next worker goes on with it.

    Exit codes: 0 stopped by a signal, 2 wrong usage or configuration.
    """
    runtime, agents = options.build_runtime_with_agents()
    file = options.load_config().path or "a surehand.yaml"
    if not agents:
        raise CommandExit(EXIT_USAGE, NO_AGENTS_MESSAGE.format(file=file))
    if not runtime.is_durable:
        raise CommandExit(EXIT_USAGE, NO_STORE_MESSAGE.format(file=file))
    with exit_on_store_error(), silence_library_logs(), log_crashes(), redirect_stdout(sys.stderr):
        run_coroutine(_work(runtime, list(agents.values()), concurrent), fastest_loop_factory())


async def _work(runtime: Runtime, agents: list[Agent], concurrent: int) -> None:
    names = ", ".join(sorted(agent.name for agent in agents))
    async with (
        _stop_signal() as stopped,
        start_runtime(runtime),
        Worker(runtime, agents=agents, concurrent=concurrent),
    ):
        print_stderr(f"Working for {names} until Ctrl-C.")
        await stopped.wait()
        print_stderr("Finishing the steps of runs. Another worker goes on with them.")


@asynccontextmanager
async def _stop_signal() -> AsyncIterator[asyncio.Event]:
    """An event that is set by Ctrl-C or SIGTERM. A second Ctrl-C ends the process at once."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def stop() -> None:
        stopped.set()
        for each in STOP_SIGNALS:
            loop.remove_signal_handler(each)

    for each in STOP_SIGNALS:
        loop.add_signal_handler(each, stop)
    try:
        yield stopped
    finally:
        for each in STOP_SIGNALS:
            loop.remove_signal_handler(each)
