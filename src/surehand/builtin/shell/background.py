"""Shell commands that run in the background of one runtime, for `bash`, `bash_output` and `bash_stop`.

Each command belongs to the user and session that started it, and all commands end when the runtime is closed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Self, TypeAlias

from surehand.builtin.shell.command import CommandEnding, describe_exit_code, render_output
from surehand.core.context import Context
from surehand.core.errors import NotFound, ToolError, Unavailable
from surehand.sandbox.child_process import ChildProcess
from surehand.workspace.refused_names import RefusedNames

OwnerKey: TypeAlias = tuple[str | None, str | None]
"""User and session that a command belongs to."""
MAX_RUNNING_COMMANDS = 64
"""Running commands of all owners together."""
MAX_ENDED_COMMANDS = 32
"""Ended commands whose output can still be read."""
UNREAD_OUTPUT_PAUSE_SECONDS = 0.01
"""Pause after each chunk once unread output is being dropped: a command that floods must not starve the event loop."""
_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class BackgroundLimits:
    """Limits on the background commands of one owner, and on the unread output of each command."""

    max_commands: int = 8
    timeout_seconds: float | None = 600.0
    max_unread_bytes: int = 1 << 20
    grace_seconds: float = 0.5


@dataclass(slots=True, eq=False)
class BackgroundCommand:
    """One command in the background, with the output that has not been read yet."""

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
    refused_names: RefusedNames | None = None
    task: asyncio.Task[None] | None = None
    _unread: bytearray = field(default_factory=bytearray)
    _dropped_bytes: int = 0
    """Unread bytes that were dropped since the last read."""

    @property
    def is_running(self) -> bool:
        """Whether the command has not ended yet."""
        return self.ending is None

    @property
    def state_text(self) -> str:
        """The state in words, for the model."""
        if self.is_running:
            return f"running for {monotonic() - self.started_at:.0f} s"
        if self.refused_names is not None and self.refused_names.renamed_paths:
            return self.refused_names.message
        if self.was_stopped:
            return "stopped"
        if self.ending == "timed out":
            return f"stopped after {self.duration_seconds:.0f} s, the longest that a command may run in the background"
        return f"ended with {describe_exit_code(self.exit_code or 0)} after {self.duration_seconds:.1f} s"

    def add_output(self, data: bytes) -> bool:
        """Store output, dropping the oldest unread bytes past the limit; return whether bytes were dropped."""
        self._unread += data
        excess = len(self._unread) - self.limits.max_unread_bytes
        if excess <= 0:
            return False
        del self._unread[:excess]
        self._dropped_bytes += excess
        return True

    def take_new_output(self) -> tuple[str, bool]:
        """Return the output since the last call, and whether part of it is missing."""
        output = render_output(self._unread)
        dropped = self._dropped_bytes
        self._unread.clear()
        self._dropped_bytes = 0
        note = f"[... {dropped:,} earlier bytes were not kept ...]\n" if dropped else ""
        return note + output, bool(dropped)

    async def stop(self) -> None:
        """Stop the command and wait until it has ended."""
        if self.task is None or self.child is None:
            return
        self.task.cancel()
        # `wait` and not `await task`: the latter would raise the task's own CancelledError here.
        await asyncio.wait({self.task})
        # A task that is cancelled before its first step never reaches its `finally`, so the child is stopped here.
        await self.child.stop(0)
        self.ending = self.ending or "ended"

    async def wait_for_end(self, seconds: float) -> None:
        """Wait at most this long for the command to end."""
        if self.task is not None and seconds > 0:
            await asyncio.wait({self.task}, timeout=seconds)


class BackgroundCommands:
    """All background commands of one runtime."""

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
        await asyncio.gather(*(command.stop() for command in self._commands.values()))
        self._commands.clear()

    async def start(
        self, command: str, owner: OwnerKey, start_child: Callable[[], Awaitable[tuple[ChildProcess, RefusedNames]]]
    ) -> BackgroundCommand:
        """Start a command, unless too many are running already."""
        self._refuse_too_many(owner)
        started = BackgroundCommand(command, owner, self._limits)
        # Registered before the child is started: calls that run at the same time count this one.
        self._commands[started.id] = started
        try:
            started.child, started.refused_names = await start_child()
        except BaseException:
            self._commands.pop(started.id, None)
            raise
        if self._closed:
            await started.child.stop(0)
            raise Unavailable("The runtime is closing, and its background with it.")
        loop = asyncio.get_running_loop()
        started.task = loop.create_task(_supervise(started, started.child), name=f"surehand: {started.id}")
        self._forget_oldest_ended()
        return started

    def _refuse_too_many(self, owner: OwnerKey) -> None:
        running = [command for command in self._commands.values() if command.is_running]
        own = [command.id for command in running if command.owner == owner]
        if len(own) >= self._limits.max_commands:
            problem = f"{len(own)} commands run in the background already: {', '.join(own)}. Stop one with bash_stop."
            raise ToolError(problem, code="limit_exceeded")
        if len(running) >= MAX_RUNNING_COMMANDS:
            raise ToolError("Too many commands run in the background. Try again later.", code="limit_exceeded")

    def _forget_oldest_ended(self) -> None:
        ended = [command.id for command in self._commands.values() if not command.is_running]
        for id in ended[:-MAX_ENDED_COMMANDS]:
            del self._commands[id]

    def find(self, id: str, owner: OwnerKey) -> BackgroundCommand:
        """Find a command by its id; a command of another owner is reported like one that does not exist."""
        command = self._commands.get(id)
        if command is None or command.owner != owner:
            own = [other.id for other in self._commands.values() if other.owner == owner]
            raise NotFound(f"No command {id[:100]!r} runs in the background. There are: {', '.join(own) or 'none'}.")
        return command


async def _supervise(command: BackgroundCommand, child: ChildProcess) -> None:
    """Collect the output of a command until it ends, times out or is stopped, and record how it ended."""
    ending: CommandEnding = "ended"
    try:
        async with asyncio.timeout(command.limits.timeout_seconds):
            await asyncio.gather(_collect_output(command, child.stdout), _collect_output(command, child.stderr))
            command.exit_code = await child.wait()
    except TimeoutError:
        ending = "timed out"
    except asyncio.CancelledError:
        pass  # only `stop` cancels this task, and it waits for the task instead of reading its result
    finally:
        with suppress(asyncio.CancelledError):
            await child.stop(command.limits.grace_seconds)
            command.add_output(await child.stdout.read() + await child.stderr.read())  # printed while it was stopping
        command.ending = ending
        command.duration_seconds = monotonic() - command.started_at


async def _collect_output(command: BackgroundCommand, stream: asyncio.StreamReader) -> None:
    while data := await stream.read(_READ_BYTES):
        if command.add_output(data):
            await asyncio.sleep(UNREAD_OUTPUT_PAUSE_SECONDS)


def owner_key(ctx: Context) -> OwnerKey:
    """The owner under which the commands of a caller are started and found."""
    return ctx.user, ctx.session
