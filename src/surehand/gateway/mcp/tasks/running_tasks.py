"""The tasks that run in this process. The runtime owns their asyncio tasks, so that no request has to wait for them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.core.events import CallProgress, Event
from surehand.core.outcome import Failed, Outcome

if TYPE_CHECKING:
    from surehand.gateway.mcp.tasks.call_watcher import CallWatcher
    from surehand.runtime.runtime import Runtime

OutcomeTask: TypeAlias = asyncio.Task[Outcome | None]
"""The asyncio task of an MCP task. Its result is None if answers left the call pending."""

log = logging.getLogger("surehand")
MAX_RUNNING_TASKS = 1_000
MAX_RUNNING_TASKS_PER_USER = 200
MAX_STATUS_MESSAGE_LENGTH = 1_000
"""Characters of a progress report that are kept as the task's status message."""


class RunningTasks:
    """Runs the work of tasks, and stores their failures. The runtime itself stores all other outcomes."""

    def __init__(self, runtime: Runtime, call_watcher: CallWatcher) -> None:
        self._runtime = runtime
        self._call_watcher = call_watcher
        self._running: dict[str, OutcomeTask] = {}
        self._last_reports: dict[str, str] = {}
        self._stop_listening: Callable[[], None] | None = None
        self._count_by_user: Counter[str | None] = Counter()

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._running

    def __len__(self) -> int:
        return len(self._running)

    def last_report(self, task_id: str) -> str | None:
        """The last progress report of a task that runs in this process."""
        return self._last_reports.get(task_id)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, CallProgress) and event.call_id in self._running:
            message = event.message or event.title
            if message:
                self._last_reports[event.call_id] = message[:MAX_STATUS_MESSAGE_LENGTH]

    def has_room(self, user: str | None) -> bool:
        """Whether one more task of this user may run."""
        return len(self._running) < MAX_RUNNING_TASKS and self._count_by_user[user] < MAX_RUNNING_TASKS_PER_USER

    def start(self, task_id: str, user: str | None, work: Coroutine[Any, Any, Outcome | None]) -> OutcomeTask:
        """Run the work to its end, whether or not the client that started it stays connected."""
        outcome_task = self._runtime.spawn(self._run(task_id, work))
        self._running[task_id] = outcome_task
        self._count_by_user[user] += 1
        if self._stop_listening is None:
            self._stop_listening = self._runtime.listen(self._on_event)
        outcome_task.add_done_callback(lambda done_task: self._on_done(task_id, user, done_task))
        return outcome_task

    async def _run(self, task_id: str, work: Coroutine[Any, Any, Outcome | None]) -> Outcome | None:
        try:
            outcome = await work
        except asyncio.CancelledError:
            if self._runtime.is_open:
                await self._runtime.record_failed_call(task_id, Failed("cancelled", "The task was cancelled."))
            raise
        if isinstance(outcome, Failed):
            await self._runtime.record_failed_call(task_id, outcome)
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
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("Task %s failed with an unexpected error", task_id, exc_info=error)
        self._call_watcher.notify(task_id)

    def cancel(self, task_id: str) -> None:
        """Cancel a task whose call has not yet reached the runtime, so that the runtime could not cancel it."""
        outcome_task = self._running.get(task_id)
        if outcome_task is not None:
            outcome_task.cancel()
