"""Faults for tests: delays, errors, hangs, crashes and invalid results in place of a tool's work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeAlias

from surehand.core.context import RunningCall
from surehand.core.errors import FailureCode, ToolError
from surehand.core.handler import StartHandler

Fault: TypeAlias = Callable[[RunningCall, StartHandler], Awaitable[Any]]
"""Replaces the work of a tool; it may still do it with `await work(running)`."""

GARBAGE_VALUE: Any = {"\x00": [None, -1, "\ufffd", {"NaN": []}]}


def delay(seconds: float) -> Fault:
    """Delay the work, by the clock of the runtime."""

    async def delay(running: RunningCall, work: StartHandler) -> Any:
        await running.clock.sleep(seconds)
        return await work(running)

    return delay


def error(
    code: FailureCode, message: str = "", *, executed: bool = True, data: Any = None, retry_after: float | None = None
) -> Fault:
    """Fail with a code; `executed` says whether the work may have had an effect."""
    text = message or f"injected fault: {code.replace('_', ' ')}."

    def build_error() -> ToolError:
        fault = ToolError(text, code=code, data=data, retry_after=retry_after)
        fault.executed = executed
        return fault

    build_error()  # an unknown code fails here, and not in the call

    async def error(running: RunningCall, work: StartHandler) -> Any:
        raise build_error()

    return error


def hang() -> Fault:
    """Never return: only a time limit or the caller ends the call."""

    async def hang(running: RunningCall, work: StartHandler) -> Any:
        await asyncio.Event().wait()

    return hang


def garbage(value: Any = GARBAGE_VALUE) -> Fault:
    """Return an unexpected value; `garbage(object())` returns one that JSON cannot represent."""

    async def garbage(running: RunningCall, work: StartHandler) -> Any:
        return value

    return garbage


def crash(exception: BaseException | type[BaseException] = RuntimeError) -> Fault:
    """Raise an exception that is not a `ToolError`, as a bug does."""

    async def crash(running: RunningCall, work: StartHandler) -> Any:
        raise exception("injected fault") if isinstance(exception, type) else exception

    return crash


def flaky(times: int, fault: Fault) -> Fault:
    """Apply a fault to the first attempts of each tool only; retries count as attempts."""
    attempts: Counter[str] = Counter()

    async def flaky(running: RunningCall, work: StartHandler) -> Any:
        attempts[running.tool_name] += 1
        return await (fault(running, work) if attempts[running.tool_name] <= times else work(running))

    return flaky


def chance(probability: float, fault: Fault, *, seed: int = 0) -> Fault:
    """Apply a fault to random attempts, the same ones for the same seed."""
    random = Random(seed)

    async def chance(running: RunningCall, work: StartHandler) -> Any:
        return await (fault(running, work) if random.random() < probability else work(running))

    return chance
