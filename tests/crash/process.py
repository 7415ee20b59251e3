"""What a process of the crash harness does with a store, from its start to its end or to its kill."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from surehand import Runtime
from tests.crash import faulty_runtimes
from tests.crash.caller import Caller, Person
from tests.crash.kill_points import Points
from tests.crash.load import run_load
from tests.crash.progress_watch import exit_if_event_loop_hangs, watch_progress
from tests.crash.run_log import RunLog
from tests.crash.scenarios import SCENARIOS
from tests.crash.tools import make_own_tools, make_tools

RUN_LOG = RunLog()
"""Shared by the tools, which are compiled once before the fork; each process then sets its own folder here."""
TOOLS = make_tools(RUN_LOG)
OWN_TOOLS = make_own_tools(RUN_LOG)


@dataclass(frozen=True)
class ProcessPlan:
    """The part that a process runs, and when it is killed: at a point, or after some seconds."""

    part: str
    """One of create, begin, answer, finish, verify, survive and load."""
    scenario: str
    address: str
    folder: str
    point: int | str | None = None
    """Its number among all points, or its name with its number among the points of that name."""
    kill_after_seconds: float | None = None
    victims: tuple[int, ...] = ()
    """Process ids to kill at the point instead of its own; zero is its own."""
    fault: str | None = None
    """Name of a deliberate fault, which the invariant checks must detect."""


def run_plan(plan: ProcessPlan) -> None:
    """Run a plan in this process, with its error output in the file `log`."""
    folder = Path(plan.folder)
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(log, 2)
    os.close(log)
    exit_if_event_loop_hangs()
    RUN_LOG.folder = folder
    RUN_LOG.part = plan.part
    RUN_LOG.points = Points(
        plan.point, victims=tuple(plan.victims), before_kill=lambda name: RUN_LOG.note("killed", name)
    )
    RUN_LOG.points.install()
    if plan.fault is not None:
        faulty_runtimes.FAULTS[plan.fault]()
    asyncio.run(_run_part(plan))
    RUN_LOG.note(f"points-{plan.part}", RUN_LOG.points.names)


def warm_up() -> None:
    """Import and compile what every process needs, without leaving a thread, because a fork would lose it."""

    async def call_tools() -> None:
        async with Runtime(*TOOLS, store=":memory:") as runtime:
            await runtime.call("ask", {}, call_id="warm")
            await runtime.settle("warm", "so")
            await runtime.call("wire", {"to": "nobody"}, call_id="asked")
            await runtime.reject("asked")

    asyncio.run(call_tools())
    import_module("psycopg")
    assert threading.active_count() == 1


async def _run_part(plan: ProcessPlan) -> None:
    scenario = SCENARIOS[plan.scenario]
    async with Runtime(*TOOLS, store=plan.address, defaults=scenario.defaults) as runtime:
        if plan.part == "answer":
            await watch_progress(runtime, RUN_LOG, Person(scenario, RUN_LOG, runtime).answer_all())
            return
        caller = Caller(scenario, RUN_LOG, runtime, OWN_TOOLS)
        parts: dict[str, Callable[[], Awaitable[Any]]] = {
            "create": _create_tables,
            "begin": caller.begin,
            "finish": caller.finish,
            "verify": lambda: _verify(caller),
            "survive": lambda: _survive(caller),
            "load": lambda: run_load(caller),
        }
        if plan.part == "load":  # it waits for a server that is down, and counts calls that are stuck by itself
            await parts[plan.part]()
        else:
            await watch_progress(runtime, RUN_LOG, parts[plan.part]())


async def _create_tables() -> None:
    """Opening the store has created the tables."""


async def _verify(caller: Caller) -> None:
    """Repeat the calls and the runs, wait for the end of the calls, and verify the audit chain."""
    await caller.repeat_calls()
    await caller.driver.drive_all()
    await caller.await_all_results()
    assert caller.runtime.store is not None
    await caller.runtime.store.audit.seal()
    verification = await caller.runtime.store.audit.verify()
    caller.run_log.note("audit", {"problem": verification.problem, "unsealed": verification.unsealed})


async def _survive(caller: Caller) -> None:
    """Work on the same calls as another process until that one is dead, then finish them."""
    folder = caller.run_log.folder
    (folder / "ready").touch()
    while not (folder / "dead").exists():
        await caller.repeat_calls()
        await caller.begin_to_await_results()
        await caller.driver.drive_free()
        for wait in await caller.scope.pending():
            await caller.answer(wait)
        await asyncio.sleep(0.001)
    await caller.finish()
