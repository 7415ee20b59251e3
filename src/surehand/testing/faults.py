"""Faults: ways in which a tool's work can go wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeAlias

from surehand.core.clock import Clock
from surehand.core.context import RunningCall
from surehand.core.errors import FailureCode, ToolError
from surehand.core.handler import StartHandler

Fault: TypeAlias = Callable[[RunningCall, StartHandler], Awaitable[Any]]
"""Stands in for a tool's work, and may still do it: `await work(running)`."""

GARBAGE_VALUE: Any = {"\x00": [None, -1, "\ufffd", {"NaN": []}]}


def delay(seconds: float) -> Fault:
    """The work begins later, on the runtime's clock."""

    async def delay(running: RunningCall, work: StartHandler) -> Any:
        await _runtime_clock(running).sleep(seconds)
        return await work(running)

    return delay


def error(
    code: FailureCode, message: str = "", *, executed: bool = True, data: Any = None, retry_after: float | None = None
) -> Fault:
    """The work fails with a code, and `executed` says whether it may have had an effect."""
    told = message or f"injected fault: {code.replace('_', ' ')}."

    def made() -> ToolError:
        fault = ToolError(told, code=code, data=data, retry_after=retry_after)
        fault.executed = executed
        return fault

    made()  # an unknown code is a mistake here, and not in the call

    async def error(running: RunningCall, work: StartHandler) -> Any:
        raise made()

    return error


def hang() -> Fault:
    """The work never ends: the tool's time limit does, or its caller."""

    async def hang(running: RunningCall, work: StartHandler) -> Any:
        await asyncio.Event().wait()

    return hang


def garbage(value: Any = GARBAGE_VALUE) -> Fault:
    """The work gives something that nobody asked for; `garbage(object())` gives what JSON cannot hold."""

    async def garbage(running: RunningCall, work: StartHandler) -> Any:
        return value

    return garbage


def crash(exception: BaseException | type[BaseException] = RuntimeError) -> Fault:
    """The work raises what is no `ToolError`, as a bug does."""

    async def crash(running: RunningCall, work: StartHandler) -> Any:
        raise exception("injected fault") if isinstance(exception, type) else exception

    return crash


def flaky(times: int, fault: Fault) -> Fault:
    """Only the first attempts at each tool go wrong; retries count."""
    seen: Counter[str] = Counter()

    async def flaky(running: RunningCall, work: StartHandler) -> Any:
        seen[running.tool_name] += 1
        return await (fault(running, work) if seen[running.tool_name] <= times else work(running))

    return flaky


def chance(probability: float, fault: Fault, *, seed: int = 0) -> Fault:
    """Some attempts go wrong, the same ones for the same seed."""
    random = Random(seed)

    async def chance(running: RunningCall, work: StartHandler) -> Any:
        return await (fault(running, work) if random.random() < probability else work(running))

    return chance


def _runtime_clock(running: RunningCall) -> Clock:
    """The runtime's, or the machine's for a tool that is run by itself."""
    scope = getattr(running, "scope", None)
    return scope.services.clock if scope is not None else Clock()
