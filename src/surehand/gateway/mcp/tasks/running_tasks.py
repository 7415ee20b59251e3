"""Runs: the work of tasks, which the runtime owns and nobody has to wait for."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.core.events import CallProgress, Event
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.pending.status import record_failed_call

if TYPE_CHECKING:
    from surehand.gateway.mcp.tasks.call_watcher import CallWatcher
    from surehand.runtime.runtime import Runtime

OutcomeTask: TypeAlias = asyncio.Task[Outcome | None]

log = logging.getLogger("surehand")
MAX_RUNNING_TASKS, MAX_RUNNING_TASKS_PER_USER = 1_000, 200
"""Tasks that run at the same time, in all and of one user."""
MAX_STATUS_MESSAGE_LENGTH = 1_000
"""Characters of a report."""


class RunningTasks:
    """What runs here, by the ids of tasks. How it ends is written down, also where it came to nothing."""

    def __init__(self, runtime: Runtime, call_watcher: CallWatcher) -> None:
        self._runtime, self._call_watcher = runtime, call_watcher
        self._running: dict[str, OutcomeTask] = {}
        self._last_reports: dict[str, str] = {}
        self._stop_listening: Callable[[], None] | None = None
        self._count_by_user: Counter[str | None] = Counter()

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._running

    def __len__(self) -> int:
        return len(self._running)

    def last_report(self, task_id: str) -> str | None:
        """What a task that runs here last reported."""
        return self._last_reports.get(task_id)

    def _on_event(self, event: Event) -> None:
        if (
            isinstance(event, CallProgress)
            and event.call_id in self._running
            and (told := event.message or event.title)
        ):
            self._last_reports[event.call_id] = told[:MAX_STATUS_MESSAGE_LENGTH]

    def has_room(self, user: str | None) -> bool:
        """Whether one more may run for a user."""
        return len(self._running) < MAX_RUNNING_TASKS and self._count_by_user[user] < MAX_RUNNING_TASKS_PER_USER

    def start(self, task_id: str, user: str | None, work: Coroutine[Any, Any, Outcome | None]) -> OutcomeTask:
        """Have it done, however long that takes and whoever leaves."""
        run = self._running[task_id] = self._runtime.services.reaper.spawn(self._run(task_id, work))
        self._count_by_user[user] += 1
        if self._stop_listening is None:
            self._stop_listening = self._runtime.listen(self._on_event)
        run.add_done_callback(lambda ended: self._on_done(task_id, user, ended))
        return run

    async def _run(self, task_id: str, work: Coroutine[Any, Any, Outcome | None]) -> Outcome | None:
        parts = self._runtime.services
        try:
            outcome = await work
        except asyncio.CancelledError:
            if parts.is_open:
                await record_failed_call(parts, task_id, Failed("cancelled", "The task was cancelled."))
            raise
        if isinstance(outcome, Failed):
            await record_failed_call(parts, task_id, outcome)
        return outcome

    def _on_done(self, task_id: str, user: str | None, task: OutcomeTask) -> None:
        if self._running.get(task_id) is task:
            del self._running[task_id]
            self._last_reports.pop(task_id, None)
        if not self._running and self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        self._count_by_user[user] -= 1
        if not self._count_by_user[user]:
            del self._count_by_user[user]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Task %s could not go on", task_id, exc_info=error)
        self._call_watcher.notify(task_id)

    def cancel(self, task_id: str) -> None:
        """Stop what is on its way, and has not come to where the runtime stops calls."""
        if (run := self._running.get(task_id)) is not None:
            run.cancel()
