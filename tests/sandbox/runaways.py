"""Hostile commands, ended by their timeout or by their caller: how long it takes, and which processes are left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from surehand import Failed, Runtime
from surehand.builtin.shell.tools import shell
from surehand.sandbox.sandbox import Sandbox, Unprotected
from tests.sandbox.remains import HOSTILE, descriptors, gone, marker, wait_until_closed

GRACE = 0.02


@dataclass
class Ended:
    """What came of many commands."""

    latencies: list[float] = field(default_factory=list)
    """Seconds from the end of a command's time, or from its cancelling, to its answer; without the grace."""
    left: list[str] = field(default_factory=list)
    opened: int = 0
    answers: set[str] = field(default_factory=set)

    def at(self, share: float) -> float:
        """The latency that such a share of all stays within, in milliseconds."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]


async def timed_out(
    folder: Path, sandbox: Sandbox | Unprotected, *, count: int, parallel: int, after: float = 0.06
) -> Ended:
    """Commands that run into their time limit."""

    async def one(runtime: Runtime, command: str, ended: Ended) -> None:
        outcome = await runtime.call("bash", {"command": command, "timeout": int(after * 1000)})
        ended.answers.add(outcome.code if isinstance(outcome, Failed) else "done")
        if outcome.data:  # the command's own time: its start is not counted
            ended.latencies.append(outcome.data["durationMs"] / 1000 - after - GRACE)

    return await _many(folder, sandbox, one, count=count, parallel=parallel, grace=GRACE)


async def cancelled(
    folder: Path, sandbox: Sandbox | Unprotected, *, count: int, parallel: int, after: float = 0.06
) -> Ended:
    """Commands whose caller is cancelled; they get no grace, so that only our own time is measured."""

    async def one(runtime: Runtime, command: str, ended: Ended) -> None:
        call = asyncio.create_task(runtime.call("bash", {"command": command}))
        await asyncio.sleep(after)
        began = perf_counter()
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        ended.latencies.append(perf_counter() - began)
        ended.answers.add("cancelled")

    return await _many(folder, sandbox, one, count=count, parallel=parallel, grace=0.0)


async def _many(folder, sandbox, one, *, count, parallel, grace):  # type: ignore[no-untyped-def]
    ended, word, numbers = Ended(), marker(), iter(range(count))
    async with _runtime(folder, sandbox, grace) as runtime:
        before = descriptors()

        async def several() -> None:
            for _ in numbers:
                await one(runtime, HOSTILE.format(word=word), ended)

        await asyncio.gather(*(several() for _ in range(parallel)))
        ended.left = await gone(word)  # on a busy machine a caller may be answered just before the end
        ended.opened = len(await wait_until_closed(before))
    return ended


@asynccontextmanager
async def _runtime(folder: Path, sandbox: Sandbox | Unprotected, grace: float) -> AsyncIterator[Runtime]:
    async with Runtime(*shell(folder, sandbox=sandbox, grace=grace)) as runtime:
        await runtime.call("bash", {"command": "true"})  # whatever is made once has been made then
        yield runtime
