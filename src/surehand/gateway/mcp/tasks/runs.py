"""Runs: the work of tasks, which the runtime owns and nobody has to wait for."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.core.events import CallProgress, Event
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.standing import conclude

if TYPE_CHECKING:
    from surehand.gateway.mcp.tasks.watch import Watch
    from surehand.runtime.runtime import Runtime

Run: TypeAlias = asyncio.Task[Outcome | None]

log = logging.getLogger("surehand")
MOST, MOST_OF_USER = 1_000, 200
"""Tasks that run at the same time, in all and of one user."""
LONGEST = 1_000
"""Characters of a report."""


class Runs:
    """What runs here, by the ids of tasks. How it ends is written down, also where it came to nothing."""

    def __init__(self, runtime: Runtime, watch: Watch) -> None:
        self._runtime, self._watch = runtime, watch
        self._running: dict[str, Run] = {}
        self._said: dict[str, str] = {}
        self._unlisten: Callable[[], None] | None = None
        self._users: Counter[str | None] = Counter()

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._running

    def __len__(self) -> int:
        return len(self._running)

    def said(self, task_id: str) -> str | None:
        """What a task that runs here last reported."""
        return self._said.get(task_id)

    def _hear(self, event: Event) -> None:
        if (
            isinstance(event, CallProgress)
            and event.call_id in self._running
            and (told := event.message or event.title)
        ):
            self._said[event.call_id] = told[:LONGEST]

    def have_room(self, user: str | None) -> bool:
        """Whether one more may run for a user."""
        return len(self._running) < MOST and self._users[user] < MOST_OF_USER

    def begin(self, task_id: str, user: str | None, work: Coroutine[Any, Any, Outcome | None]) -> Run:
        """Have it done, however long that takes and whoever leaves."""
        run = self._running[task_id] = self._runtime.parts.reaper.own(self._carried_out(task_id, work))
        self._users[user] += 1
        if self._unlisten is None:
            self._unlisten = self._runtime.listen(self._hear)
        run.add_done_callback(lambda ended: self._over(task_id, user, ended))
        return run

    async def _carried_out(self, task_id: str, work: Coroutine[Any, Any, Outcome | None]) -> Outcome | None:
        parts = self._runtime.parts
        try:
            outcome = await work
        except asyncio.CancelledError:
            if parts.open:
                await conclude(parts, task_id, Failed("cancelled", "The task was cancelled."))
            raise
        if isinstance(outcome, Failed):
            await conclude(parts, task_id, outcome)
        return outcome

    def _over(self, task_id: str, user: str | None, run: Run) -> None:
        if self._running.get(task_id) is run:
            del self._running[task_id]
            self._said.pop(task_id, None)
        if not self._running and self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        self._users[user] -= 1
        if not self._users[user]:
            del self._users[user]
        if not run.cancelled() and (error := run.exception()) is not None:
            log.error("Task %s could not go on", task_id, exc_info=error)
        self._watch.tell(task_id)

    def stop(self, task_id: str) -> None:
        """Stop what is on its way, and has not come to where the runtime stops calls."""
        if (run := self._running.get(task_id)) is not None:
            run.cancel()
