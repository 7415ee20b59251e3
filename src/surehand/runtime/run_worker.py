"""RunWorker: goes on with the runs of agents by itself, when what they wait for is answered or their process has died.

It looks at the runs of a store. Any number of processes may do so: one of them claims a run and drives it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from surehand.core.events import CallEnded, Event
from surehand.store.database import StoreError

if TYPE_CHECKING:
    from surehand.runtime.runtime import Runtime
    from surehand.runtime.scope import Scope
    from surehand.store.store import Store
    from surehand.store.tables.runs import ResumableRun

log = logging.getLogger("surehand")
MAX_DRIVEN_RUNS = 32
"""Runs that one worker drives at the same time; others wait."""
POLL_SECONDS = 2.0
"""How often a worker looks for runs if nothing wakes it: a process that dies wakes no one."""
MAX_REMEMBERED_RUNS = 10_000


class ResumableAgent(Protocol):
    """An agent whose runs can go on in any process."""

    @property
    def name(self) -> str: ...

    @property
    def agents(self) -> Sequence[Any]:
        """The agents that it can call."""

    async def resume_if_free(self, run_id: str, *, runtime: Scope) -> Any:
        """Go on with a run; None if another process drives it, or if it has ended."""


class RunWorker:
    """Drives the runs of some agents on the store of a runtime that is open."""

    def __init__(self, runtime: Runtime, agents: Iterable[ResumableAgent]) -> None:
        self._runtime = runtime
        self._agents = _with_sub_agents(agents)
        self._woken = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._known_answers: dict[str, int] = {}
        """How many answers a run had when it was resumed: only more of them let a run that still waits go on."""

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Work while the context is entered. In the end, runs that go on are left to other processes."""
        store = self._runtime.store
        if store is None or not self._runtime.is_durable or store.database.is_read_only:
            yield
            return
        unsubscribe = [self._runtime.listen(self._hear), store.database.on_announce(self._woken.set)]
        task = asyncio.create_task(self._work(store), name="go on with runs")
        try:
            yield
        finally:
            for stop_listening in unsubscribe:
                stop_listening()
            running = [task, *self._tasks.values()]
            for each in running:
                each.cancel()
            await asyncio.wait(running)

    def _hear(self, event: Event) -> None:
        if isinstance(event, CallEnded) and event.turn is not None:
            self._woken.set()

    async def _work(self, store: Store) -> None:
        while True:
            self._woken.clear()
            try:
                self._start(await store.runs.resumable(self._runtime.runtime_id))
            except StoreError as error:
                log.warning("The runs of agents cannot be read now: %s", error)
                await asyncio.sleep(POLL_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._woken.wait()

    def _start(self, runs: Sequence[ResumableRun]) -> None:
        for run in runs:
            agent = self._agents.get(run.agent)
            if agent is None or run.run_id in self._tasks or len(self._tasks) >= MAX_DRIVEN_RUNS:
                continue
            if run.answers and self._known_answers.get(run.run_id) == run.answers:
                continue
            self._remember(run)
            task = asyncio.create_task(self._drive(agent, run.run_id), name=f"run {run.run_id}")
            self._tasks[run.run_id] = task
            task.add_done_callback(partial(self._end, run.run_id))

    def _remember(self, run: ResumableRun) -> None:
        self._known_answers.pop(run.run_id, None)
        self._known_answers[run.run_id] = run.answers
        while len(self._known_answers) > MAX_REMEMBERED_RUNS:
            del self._known_answers[next(iter(self._known_answers))]

    def _end(self, run_id: str, _: object) -> None:
        del self._tasks[run_id]
        self._woken.set()  # another run may have waited for the place

    async def _drive(self, agent: ResumableAgent, run_id: str) -> None:
        try:
            await agent.resume_if_free(run_id, runtime=self._runtime)
        except StoreError as error:
            log.warning("Run %s cannot go on now: %s", run_id, error)
            self._known_answers.pop(run_id, None)
            await asyncio.sleep(POLL_SECONDS)
        except Exception:
            # Not again at once: a bug that ends this attempt would end the next one.
            log.exception("Run %s could not go on", run_id)
            await asyncio.sleep(POLL_SECONDS)


def _with_sub_agents(agents: Iterable[ResumableAgent]) -> dict[str, ResumableAgent]:
    """The agents, and those that they can call, by name; the runs of both are in the store."""
    found: dict[str, ResumableAgent] = {}
    waiting = list(agents)
    while waiting:
        agent = waiting.pop(0)
        if agent.name not in found:
            found[agent.name] = agent
            waiting += agent.agents
    return found
