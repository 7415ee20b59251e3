"""Commands in the background: each belongs to whoever started it, and all end with the runtime."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Self, TypeAlias

from surehand.builtin.shell_output import Kept
from surehand.builtin.shell_run import Ending, ended
from surehand.core.context import Context
from surehand.core.errors import NotFound, ToolError, Unavailable
from surehand.sandbox.child import Child

Owner: TypeAlias = tuple[str | None, str | None]
MOST = 64
"""Commands of all owners together."""
REMEMBERED = 32
"""Commands that have ended and can still be looked at."""
PAUSE = 0.01
"""Seconds between two pieces of output that nobody looks at: a flood in the background takes no time from others."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many commands each owner may have, for how long, and how much of their output is kept."""

    count: int = 8
    life: float | None = 600.0
    kept: int = 1 << 20
    grace: float = 0.5


@dataclass(slots=True, eq=False)
class Job:
    """One command in the background."""

    command: str
    owner: Owner
    bounds: Bounds
    id: str = field(default_factory=lambda: f"bg_{secrets.token_hex(6)}")
    began: float = field(default_factory=monotonic)
    code: int | None = None
    ending: Ending | None = None
    stopped: bool = False
    seconds: float = 0.0
    child: Child | None = None
    task: asyncio.Task[None] | None = None
    _unread: bytearray = field(default_factory=bytearray)
    _lost: int = 0

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.ending is None

    @property
    def state(self) -> str:
        """In words."""
        if self.running:
            return f"running for {monotonic() - self.began:.0f} s"
        if self.stopped:
            return "stopped"
        if self.ending == "timed out":
            return f"stopped after {self.seconds:.0f} s, the longest that a command may run in the background"
        return f"ended with {ended(self.code or 0)} after {self.seconds:.1f} s"

    def add(self, data: bytes) -> bool:
        """What it printed; the newest is kept. True if something was let go for it."""
        self._unread += data
        if (over := len(self._unread) - self.bounds.kept) > 0:
            del self._unread[:over]
            self._lost += over
        return over > 0

    def news(self) -> tuple[str, bool]:
        """What it printed since this was asked last, and whether something of that is missing."""
        kept = Kept()
        kept.add(bytes(self._unread))
        lost, self._lost = self._lost, 0
        self._unread.clear()
        note = f"[... {lost:,} earlier bytes were not kept ...]\n" if lost else ""
        return note + kept.text, bool(lost or kept.left_out)

    async def stop(self) -> None:
        """End it, and wait until it has ended."""
        if self.task is not None and self.child is not None:
            self.task.cancel()
            await asyncio.wait({self.task})
            await self.child.stop(0)  # a task that is cancelled before its first step has looked after nothing
            self.ending = self.ending or "ended"

    async def finished(self, seconds: float) -> None:
        """Wait for its end, but no longer than this."""
        if self.task is not None and seconds > 0:
            await asyncio.wait({self.task}, timeout=seconds)


class Background:
    """All commands in the background of one runtime."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._jobs: dict[str, Job] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        await asyncio.gather(*(job.stop() for job in self._jobs.values()))
        self._jobs.clear()

    async def start(self, command: str, owner: Owner, begin: Callable[[], Awaitable[Child]]) -> Job:
        """Start a command, unless there are too many already."""
        self._refuse_too_many(owner)
        job = Job(command, owner, self._bounds)
        self._jobs[job.id] = job
        try:
            job.child = await begin()
        except BaseException:
            self._jobs.pop(job.id, None)
            raise
        if self._closed:
            await job.child.stop(0)
            raise Unavailable("The runtime is closing, and its background with it.")
        job.task = asyncio.get_running_loop().create_task(_look_after(job, job.child), name=f"surehand: {job.id}")
        self._forget_oldest()
        return job

    def _refuse_too_many(self, owner: Owner) -> None:
        running = [job for job in self._jobs.values() if job.running]
        own = [job.id for job in running if job.owner == owner]
        if len(own) >= self._bounds.count:
            problem = f"{len(own)} commands run in the background already: {', '.join(own)}. Stop one with bash_stop."
            raise ToolError(problem, code="limit_exceeded")
        if len(running) >= MOST:
            raise ToolError("Too many commands run in the background. Try again later.", code="limit_exceeded")

    def _forget_oldest(self) -> None:
        over = [job.id for job in self._jobs.values() if not job.running][:-REMEMBERED]
        for id in over:
            del self._jobs[id]

    def find(self, id: str, owner: Owner) -> Job:
        """A command by its id; somebody else's looks as if there were none."""
        job = self._jobs.get(id)
        if job is None or job.owner != owner:
            own = [job.id for job in self._jobs.values() if job.owner == owner]
            raise NotFound(f"No command {id[:100]!r} runs in the background. There are: {', '.join(own) or 'none'}.")
        return job


async def _look_after(job: Job, child: Child) -> None:
    ending: Ending = "ended"
    try:
        async with asyncio.timeout(job.bounds.life):
            await asyncio.gather(_keep(job, child.stdout), _keep(job, child.stderr))
            job.code = await child.wait()
    except TimeoutError:
        ending = "timed out"
    except asyncio.CancelledError:
        pass  # by `stop`, or by the end of the runtime: there is nobody else to tell
    finally:
        with suppress(asyncio.CancelledError):
            await child.stop(job.bounds.grace)
            job.add(await child.stdout.read() + await child.stderr.read())  # what it printed last
        job.ending, job.seconds = ending, monotonic() - job.began


async def _keep(job: Job, stream: asyncio.StreamReader) -> None:
    while data := await stream.read(1 << 16):
        if job.add(data):
            await asyncio.sleep(PAUSE)


def owner_of(ctx: Context) -> Owner:
    """Whose commands a caller may see."""
    return ctx.user, ctx.session
