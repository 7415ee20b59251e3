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

from surehand.builtin.shell.command import CommandEnding, HeadTailBuffer, describe_exit_code
from surehand.core.context import Context
from surehand.core.errors import NotFound, ToolError, Unavailable
from surehand.sandbox.child_process import ChildProcess

OwnerKey: TypeAlias = tuple[str | None, str | None]
MAX_RUNNING_COMMANDS = 64
"""Commands of all owners together."""
MAX_ENDED_COMMANDS = 32
"""Commands that have ended and can still be looked at."""
UNREAD_OUTPUT_PAUSE_SECONDS = 0.01
"""Seconds between two pieces of output that nobody looks at: a flood in the background takes no time from others."""


@dataclass(frozen=True, slots=True)
class BackgroundLimits:
    """How many commands each owner may have, for how long, and how much of their output is kept."""

    max_commands: int = 8
    timeout_seconds: float | None = 600.0
    max_unread_bytes: int = 1 << 20
    grace_seconds: float = 0.5


@dataclass(slots=True, eq=False)
class BackgroundCommand:
    """One command in the background."""

    command: str
    owner: OwnerKey
    limits: BackgroundLimits
    id: str = field(default_factory=lambda: f"bg_{secrets.token_hex(6)}")
    started_at: float = field(default_factory=monotonic)
    exit_code: int | None = None
    ending: CommandEnding | None = None
    was_stopped: bool = False
    duration_seconds: float = 0.0
    child: ChildProcess | None = None
    task: asyncio.Task[None] | None = None
    _unread: bytearray = field(default_factory=bytearray)
    _dropped_bytes: int = 0

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.ending is None

    @property
    def state_text(self) -> str:
        """In words."""
        if self.is_running:
            return f"running for {monotonic() - self.started_at:.0f} s"
        if self.was_stopped:
            return "stopped"
        if self.ending == "timed out":
            return f"stopped after {self.duration_seconds:.0f} s, the longest that a command may run in the background"
        return f"ended with {describe_exit_code(self.exit_code or 0)} after {self.duration_seconds:.1f} s"

    def add_output(self, data: bytes) -> bool:
        """What it printed; the newest is kept. True if something was let go for it."""
        self._unread += data
        if (over := len(self._unread) - self.limits.max_unread_bytes) > 0:
            del self._unread[:over]
            self._dropped_bytes += over
        return over > 0

    def take_new_output(self) -> tuple[str, bool]:
        """What it printed since this was asked last, and whether something of that is missing."""
        kept = HeadTailBuffer()
        kept.add(bytes(self._unread))
        lost, self._dropped_bytes = self._dropped_bytes, 0
        self._unread.clear()
        note = f"[... {lost:,} earlier bytes were not kept ...]\n" if lost else ""
        return note + kept.text, bool(lost or kept.omitted_bytes)

    async def stop(self) -> None:
        """End it, and wait until it has ended."""
        if self.task is not None and self.child is not None:
            self.task.cancel()
            await asyncio.wait({self.task})
            await self.child.stop(0)  # a task that is cancelled before its first step has looked after nothing
            self.ending = self.ending or "ended"

    async def wait_for_end(self, seconds: float) -> None:
        """Wait for its end, but no longer than this."""
        if self.task is not None and seconds > 0:
            await asyncio.wait({self.task}, timeout=seconds)


class BackgroundCommands:
    """All commands in the background of one runtime."""

    def __init__(self, limits: BackgroundLimits) -> None:
        self._limits = limits
        self._commands: dict[str, BackgroundCommand] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        await asyncio.gather(*(job.stop() for job in self._commands.values()))
        self._commands.clear()

    async def start(
        self, command: str, owner: OwnerKey, start_child: Callable[[], Awaitable[ChildProcess]]
    ) -> BackgroundCommand:
        """Start a command, unless there are too many already."""
        self._refuse_too_many(owner)
        job = BackgroundCommand(command, owner, self._limits)
        self._commands[job.id] = job
        try:
            job.child = await start_child()
        except BaseException:
            self._commands.pop(job.id, None)
            raise
        if self._closed:
            await job.child.stop(0)
            raise Unavailable("The runtime is closing, and its background with it.")
        job.task = asyncio.get_running_loop().create_task(_supervise(job, job.child), name=f"surehand: {job.id}")
        self._forget_oldest_ended()
        return job

    def _refuse_too_many(self, owner: OwnerKey) -> None:
        running = [job for job in self._commands.values() if job.is_running]
        own = [job.id for job in running if job.owner == owner]
        if len(own) >= self._limits.max_commands:
            problem = f"{len(own)} commands run in the background already: {', '.join(own)}. Stop one with bash_stop."
            raise ToolError(problem, code="limit_exceeded")
        if len(running) >= MAX_RUNNING_COMMANDS:
            raise ToolError("Too many commands run in the background. Try again later.", code="limit_exceeded")

    def _forget_oldest_ended(self) -> None:
        over = [job.id for job in self._commands.values() if not job.is_running][:-MAX_ENDED_COMMANDS]
        for id in over:
            del self._commands[id]

    def find(self, id: str, owner: OwnerKey) -> BackgroundCommand:
        """A command by its id; somebody else's looks as if there were none."""
        job = self._commands.get(id)
        if job is None or job.owner != owner:
            own = [job.id for job in self._commands.values() if job.owner == owner]
            raise NotFound(f"No command {id[:100]!r} runs in the background. There are: {', '.join(own) or 'none'}.")
        return job


async def _supervise(command: BackgroundCommand, child: ChildProcess) -> None:
    ending: CommandEnding = "ended"
    try:
        async with asyncio.timeout(command.limits.timeout_seconds):
            await asyncio.gather(_collect_output(command, child.stdout), _collect_output(command, child.stderr))
            command.exit_code = await child.wait()
    except TimeoutError:
        ending = "timed out"
    except asyncio.CancelledError:
        pass  # by `stop`, or by the end of the runtime: there is nobody else to tell
    finally:
        with suppress(asyncio.CancelledError):
            await child.stop(command.limits.grace_seconds)
            command.add_output(await child.stdout.read() + await child.stderr.read())  # what it printed last
        command.ending, command.duration_seconds = ending, monotonic() - command.started_at


async def _collect_output(command: BackgroundCommand, stream: asyncio.StreamReader) -> None:
    while data := await stream.read(1 << 16):
        if command.add_output(data):
            await asyncio.sleep(UNREAD_OUTPUT_PAUSE_SECONDS)


def owner_key(ctx: Context) -> OwnerKey:
    """Whose commands a caller may see."""
    return ctx.user, ctx.session
