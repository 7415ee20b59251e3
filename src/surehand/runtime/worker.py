"""Worker: wakes agents for what is in their inboxes, and goes on with their runs, in the background.

It looks at the runs and inboxes of a store. Any number of processes may do so: one of them claims a run and drives it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from surehand.core.errors import DefinitionError
from surehand.core.events import CallEnded, Event
from surehand.core.ids import new_id
from surehand.runtime.inbox_prompt import event_prompt, origin_run, origin_space
from surehand.runtime.sources import AgentSource
from surehand.store.database import StoreError
from surehand.store.tables.runs import ResumableRun

if TYPE_CHECKING:
    from surehand.runtime.runtime import Runtime
    from surehand.runtime.scope import Scope
    from surehand.store.store import Store
    from surehand.store.tables.inbox import WaitingEvent

log = logging.getLogger("surehand")
MAX_DRIVEN_RUNS = 32
"""Runs that one worker drives at the same time, if it is not told otherwise; others wait."""
SHUTDOWN_SECONDS = 30.0
"""How long runs may take to finish their step when the worker stops, if it is not told otherwise."""
MAX_ATTEMPTS = 6
"""How often driving a run may fail before it ends as failed. A process that dies is not a failed attempt."""
POLL_SECONDS = 0.5
"""How often a worker looks for work if nothing wakes it: processes on a SQLite file cannot notify each other."""
RUNS_PER_READ = 100
MAX_REMEMBERED_RUNS = 10_000


class ResumableAgent(AgentSource, Protocol):
    """An agent whose runs can go on in any process."""

    async def resume_if_free(self, run_id: str, *, runtime: Scope) -> Any:
        """Go on with a run; None if another process drives it, or if it has ended."""

    async def give_up(self, run_id: str, *, reason: str, runtime: Scope) -> None:
        """End a run as failed, unless another process drives it, or it has ended."""

    def hand_back(self, run_id: str) -> bool:
        """Leave a run that is driven here to another process after its step; False if it is not driven here."""
        ...


@dataclass(frozen=True, slots=True)
class _DrivenRun:
    agent: ResumableAgent
    task: asyncio.Task[None]


class Worker:
    """Drives the runs of agents on the store of an open runtime: `async with Worker(runtime, agents=[agent]): ...`.

    Events in the inboxes of the agents start runs, runs that wait go on when they are answered, and runs whose process
    has died go on here.

    Args:
        agents: the agents, with those that they call.
        concurrent: how many runs it drives at the same time.
        shutdown_seconds: how long runs may take to finish their step when the worker stops; then they are interrupted.
            Another worker goes on with them.
    """

    def __init__(
        self,
        runtime: Runtime,
        agents: Iterable[ResumableAgent],
        *,
        concurrent: int = MAX_DRIVEN_RUNS,
        shutdown_seconds: float = SHUTDOWN_SECONDS,
    ) -> None:
        self._runtime = runtime
        self._agents = _with_sub_agents(agents)
        if not self._agents:
            raise DefinitionError("A worker without agents has nothing to do.", fix="give it agents=[...].")
        if concurrent < 1:
            raise ValueError(f"`concurrent` must be a positive integer, got {concurrent}.")
        self._concurrent = concurrent
        self._shutdown_seconds = shutdown_seconds
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._driven: dict[str, _DrivenRun] = {}
        self._left_alone: Counter[str] = Counter()
        self._known_answers: dict[str, int] = {}
        """How many answers a run had when it was resumed: only more of them let a run that still waits go on."""
        self._answered_cursor = ""
        self._has_warned = False
        self._unsubscribe: list[Callable[[], None]] = []

    @property
    def driven_runs(self) -> int:
        """How many runs it drives now."""
        return len(self._driven)

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise RuntimeError("The worker is running already.")
        store = self._require_store()
        for agent in self._agents.values():
            await self._runtime.enter_agent(agent)  # answers to calls of its own tools find these
        self._unsubscribe = [
            self._runtime.listen(self._hear),
            self._runtime.on_trigger(self._woken.set),
            store.database.on_announce(self._woken.set),
        ]
        self._task = asyncio.create_task(self._work(store), name="surehand worker")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._take_no_more_work()
        tasks = self._hand_back_runs()
        if not tasks:
            return
        try:
            _, tasks = await asyncio.wait(tasks, timeout=self._shutdown_seconds)
        finally:
            for task in tasks:
                task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @contextmanager
    def leave_alone(self, run_id: str) -> Iterator[None]:
        """Do not go on with a run while several of its calls are answered, so that its model hears of all at once."""
        self._left_alone[run_id] += 1
        try:
            yield
        finally:
            self._left_alone[run_id] -= 1
            self._left_alone += Counter()  # drops the counts that are zero
            self._woken.set()

    async def stop_and_hand_back(self) -> None:
        """Take no more work, and wait until the runs have finished their step; another worker goes on with them."""
        await self._take_no_more_work()
        if tasks := self._hand_back_runs():
            await asyncio.wait(tasks)

    async def _take_no_more_work(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def _hand_back_runs(self) -> set[asyncio.Task[None]]:
        """Leave the runs to other processes after their step, and return the tasks that end then."""
        for run_id, run in self._driven.items():
            if not run.agent.hand_back(run_id):  # it has not begun, or has ended
                run.task.cancel()
        return {run.task for run in self._driven.values()}

    def _require_store(self) -> Store:
        store = self._runtime.store
        if not self._runtime.is_durable:
            raise DefinitionError(
                "A worker looks at the runs in a store, and its runtime has none.",
                fix="give it one: Runtime(..., store='app.db').",
            )
        if store is None:
            raise RuntimeError("The runtime is not running: open it first, with `async with Runtime(...)`.")
        if store.database.is_read_only:
            raise DefinitionError("A worker cannot work on a store that is read-only.", fix="copy the store.")
        return store

    def _hear(self, event: Event) -> None:
        if isinstance(event, CallEnded) and event.turn is not None:
            self._woken.set()

    async def _work(self, store: Store) -> None:
        """Look for work until the task is cancelled; a failure is logged and the next round tries again."""
        while True:
            self._woken.clear()
            try:
                await self._look_for_work(store)
                self._has_warned = False
            except StoreError as error:
                if not self._has_warned:
                    log.warning("The worker cannot read the store now: %s", error)
                self._has_warned = True
                await self._runtime.clock.sleep(POLL_SECONDS)
            except Exception:
                log.exception("The worker could not look for work; it is tried again")
                await self._runtime.clock.sleep(POLL_SECONDS)
            timer = self._runtime.clock.call_later(POLL_SECONDS, self._woken.set)
            try:
                await self._woken.wait()
            finally:
                timer.cancel()

    async def _look_for_work(self, store: Store) -> None:
        """Start as many runs as there are places: answered ones, interrupted ones, then new ones."""
        if self._free_places:
            for run in await self._read_answered(store):
                if self._known_answers.get(run.run_id) != run.answers:
                    self._start(run)
        if self._free_places:
            for run in await store.runs.interrupted(self._agents, owner=self._runtime.runtime_id, limit=RUNS_PER_READ):
                self._start(run)
        if self._free_places:
            events = await store.inbox.oldest(self._agents, limit=self._free_places)
            await asyncio.gather(*(self._begin_run(store, event) for event in events))

    @property
    def _free_places(self) -> int:
        return max(0, self._concurrent - len(self._driven))

    async def _read_answered(self, store: Store) -> list[ResumableRun]:
        """The next page of answered runs: those that had nothing to do before must not hide the others."""
        runs = await store.runs.answered(self._agents, after=self._answered_cursor, limit=RUNS_PER_READ)
        is_full = len(runs) == RUNS_PER_READ
        self._answered_cursor = runs[-1].run_id if is_full else ""
        if is_full:
            self._woken.set()
        return runs

    async def _begin_run(self, store: Store, event: WaitingEvent) -> None:
        """Give an event to the run that waits for it, or to a new one, in one transaction with its beginning."""
        waiting_run = origin_run(event)
        if waiting_run is not None and await store.runs.find(waiting_run) is not None:
            await store.inbox.give_to_run(event.id, waiting_run)
            return
        run_id = event.run_id or new_id()
        space = origin_space(event)
        begin = store.runs.leave_to_workers_statement(
            run_id,
            event.agent,
            event_prompt(event),
            user=event.user,
            session=event.session,
            context={} if space is None else {"space": space},
        )
        if await store.inbox.give_to_run(event.id, run_id, [begin]):
            self._start(ResumableRun(run_id, event.agent))
        else:  # another worker was first, and there may be more events
            self._woken.set()

    def _start(self, run: ResumableRun) -> None:
        if run.run_id in self._driven or run.run_id in self._left_alone or not self._free_places:
            return
        self._remember(run)
        agent = self._agents[run.agent]
        task = asyncio.create_task(self._drive(agent, run), name=f"run {run.run_id}")
        self._driven[run.run_id] = _DrivenRun(agent, task)
        task.add_done_callback(partial(self._end, run.run_id))

    def _remember(self, run: ResumableRun) -> None:
        self._known_answers.pop(run.run_id, None)
        self._known_answers[run.run_id] = run.answers
        while len(self._known_answers) > MAX_REMEMBERED_RUNS:
            del self._known_answers[next(iter(self._known_answers))]

    def _end(self, run_id: str, _: object) -> None:
        del self._driven[run_id]
        self._woken.set()  # another run may have waited for the place

    async def _drive(self, agent: ResumableAgent, run: ResumableRun) -> None:
        try:
            if run.attempts < MAX_ATTEMPTS:
                await agent.resume_if_free(run.run_id, runtime=self._runtime)
            else:
                reason = f"Given up after {run.attempts} failed attempts. {run.reason or ''}".rstrip()
                await agent.give_up(run.run_id, reason=reason, runtime=self._runtime)
        except StoreError as error:
            log.warning("Run %s cannot go on now: %s", run.run_id, error)
            self._known_answers.pop(run.run_id, None)
            await self._runtime.clock.sleep(POLL_SECONDS)
        except Exception:
            # The run is tried again when its back-off is over.
            log.exception("Run %s could not go on", run.run_id)


def _with_sub_agents(agents: Iterable[ResumableAgent]) -> dict[str, ResumableAgent]:
    """The agents, and those that they can call, by name; the runs of both are in the store."""
    found: dict[str, ResumableAgent] = {}
    waiting: list[Any] = list(agents)
    while waiting:
        agent = waiting.pop(0)
        if agent.name not in found:
            found[agent.name] = agent
            waiting += agent.agents
    return found
