"""Reaper: looks after handlers that will not stop, so that their callers need not wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger("surehand")
CANCELLATION_GRACE_SECONDS = 0.5
"""Seconds that a cancelled handler has to clean up before its caller is answered."""


class Reaper:
    """Cancels tasks, and owns those that go on in spite of it."""

    def __init__(self) -> None:
        self.leftover_tasks: set[asyncio.Task[Any]] = set()

    async def stop(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task and wait for it a moment; what is still running then is left to the reaper."""
        task.cancel()
        again = await _wait_for_cancelled_task(task)
        if not task.done():
            self.leftover_tasks.add(task)
            task.add_done_callback(self.leftover_tasks.discard)
        if again is not None:
            raise again

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something that must go on even if nobody waits for it, until it ends or the runtime closes."""
        task = asyncio.get_running_loop().create_task(coroutine, name="surehand")
        self.leftover_tasks.add(task)
        task.add_done_callback(self.leftover_tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel whatever is left once more; what ignores even that has its coroutine closed under it."""
        if left := {task for task in self.leftover_tasks if not task.done()}:
            for task in left:
                task.cancel()
            _, stubborn = await asyncio.wait(left, timeout=CANCELLATION_GRACE_SECONDS)
            for task in stubborn:
                _end_by_force(task)
            if stubborn:
                await asyncio.wait(stubborn, timeout=CANCELLATION_GRACE_SECONDS)


async def _wait_for_cancelled_task(task: asyncio.Task[Any]) -> asyncio.CancelledError | None:
    """Wait for a cancelled task. Whoever is cancelled once more meanwhile still waits: the task holds their slot."""
    clock, again = asyncio.get_running_loop().time, None
    until = clock() + CANCELLATION_GRACE_SECONDS
    while not task.done() and (left := until - clock()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError as error:
            again = error
    return again


def _end_by_force(task: asyncio.Task[Any]) -> None:
    log.warning("%s ignores cancellation and is ended by force.", task.get_name())
    try:
        task.get_coro().close()
    except RuntimeError:  # it swallowed even that
        log.error("%s cannot be ended.", task.get_name())
    task.cancel()
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # it is known already
