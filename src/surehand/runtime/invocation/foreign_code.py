"""Foreign code: functions of the application that stages run, such as `confirm`, `preview`, approver and middleware.

They may raise anything and ignore their cancellation. The stages call them through this module, so that a call always
ends with an outcome, and in time.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from surehand.runtime.background_tasks import BackgroundTasks

ForeignTask: TypeAlias = asyncio.Task[tuple[Any, BaseException | None]]
"""A task that runs foreign code and ends with its result or its exception."""


class ForeignCodeError(Exception):
    """Foreign code raised an exception, which is the `__cause__`."""

    @property
    def original(self) -> BaseException:
        """The exception that the foreign code raised."""
        return self.__cause__ or self


def is_interruption(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether an exception ends the task itself: a cancellation that was asked for, or Ctrl-C.

    Foreign code may raise `CancelledError` on its own, for example when it awaits a task that was cancelled.
    """
    if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
        return task is None or task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt)


def call_foreign(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; raises `ForeignCodeError` for everything that it raises but `KeyboardInterrupt`."""
    try:
        return function(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ForeignCodeError from error


async def run_foreign(background_tasks: BackgroundTasks, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a sync or async function and return its result; raises `ForeignCodeError` for everything that it raises."""
    result = call_foreign(function, *arguments)
    return await await_foreign(background_tasks, result) if inspect.isawaitable(result) else result


async def await_foreign(background_tasks: BackgroundTasks, awaitable: Awaitable[Any]) -> Any:
    """Await foreign code in a task of its own; raises `ForeignCodeError` for everything that it raises.

    A cancellation of the caller cancels that task. If the task ignores it for the grace period, it is left to the
    background tasks, and the caller goes on.
    """
    task = start_foreign(awaitable)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await background_tasks.stop(task)
        raise
    return foreign_result(task)


def start_foreign(awaitable: Awaitable[Any]) -> ForeignTask:
    """Start foreign code in a task of its own; `foreign_result` takes its result."""
    return asyncio.get_running_loop().create_task(_capture(awaitable), name="surehand: foreign code")


def foreign_result(task: ForeignTask) -> Any:
    """The result of foreign code that has ended; raises `ForeignCodeError` for everything that it raised."""
    if task.cancelled():  # by the foreign code itself
        raise ForeignCodeError from asyncio.CancelledError()
    value, error = task.result()
    if error is not None:
        raise ForeignCodeError from error
    return value


async def _capture(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """The result or the exception. A task that ends with `SystemExit` would end the whole event loop."""
    task = asyncio.current_task()
    try:
        return await awaitable, None
    except BaseException as error:
        if is_interruption(error, task):
            raise
        return None, error
