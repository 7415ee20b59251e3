"""Background tasks of a runtime, and the tasks of handlers that ignore their cancellation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger("surehand")
CANCELLATION_GRACE_SECONDS = 0.5
"""Seconds that a cancelled handler gets for cleaning up before its caller gets the outcome."""


class BackgroundTasks:
    """Cancels tasks, and keeps those that do not end until the runtime closes."""

    def __init__(self) -> None:
        self.leftover_tasks: set[asyncio.Task[Any]] = set()

    async def stop(self, task: asyncio.Task[Any], *, grace_seconds: float = CANCELLATION_GRACE_SECONDS) -> None:
        """Cancel a task and wait for the grace period; a task that still runs then is kept here."""
        task.cancel()
        cancelled_again = await _wait_for_cancelled_task(task, grace_seconds)
        if not task.done():
            self.leftover_tasks.add(task)
            task.add_done_callback(self.leftover_tasks.discard)
        if cancelled_again is not None:
            raise cancelled_again

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in the background until it ends or the runtime closes."""
        task = asyncio.get_running_loop().create_task(coroutine, name="surehand")
        self.leftover_tasks.add(task)
        task.add_done_callback(self.leftover_tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel all remaining tasks; close the coroutine of a task that ignores even that."""
        if left := {task for task in self.leftover_tasks if not task.done()}:
            for task in left:
                task.cancel()
            _, unstoppable = await asyncio.wait(left, timeout=CANCELLATION_GRACE_SECONDS)
            for task in unstoppable:
                _end_by_force(task)
            if unstoppable:
                await asyncio.wait(unstoppable, timeout=CANCELLATION_GRACE_SECONDS)


async def _wait_for_cancelled_task(task: asyncio.Task[Any], grace_seconds: float) -> asyncio.CancelledError | None:
    """Wait for a cancelled task, even if the waiting task is cancelled meanwhile: the first still holds its slot."""
    clock = asyncio.get_running_loop().time
    cancelled_again = None
    deadline = clock() + grace_seconds
    while not task.done() and (left := deadline - clock()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError as error:
            cancelled_again = error
    return cancelled_again


def _end_by_force(task: asyncio.Task[Any]) -> None:
    log.warning("Task %s ignores its cancellation; its coroutine is closed.", task.get_name())
    try:
        task.get_coro().close()
    except RuntimeError:  # the coroutine ignored GeneratorExit too
        log.error("Task %s ignores even the closing of its coroutine and keeps running.", task.get_name())
    task.cancel()
    # Retrieve the exception: asyncio would log it as never retrieved.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
