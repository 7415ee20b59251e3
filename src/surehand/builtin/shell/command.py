"""Running one command to its end, within its time and its room."""

from __future__ import annotations

import asyncio
import signal
from asyncio import StreamReader
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Literal, TypeAlias

from surehand.core.sanitize import escape_terminal_output
from surehand.sandbox.child_process import ChildProcess

MAX_STREAM_BYTES = 30_000
"""Bytes of each stream that a model is shown."""


class HeadTailBuffer:
    """The first and the last bytes of a stream; what lies between is counted and let go."""

    def __init__(self, max_bytes: int = MAX_STREAM_BYTES) -> None:
        self._half_bytes = max_bytes // 2
        self._head, self._tail = bytearray(), bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """The next piece."""
        self.total_bytes += len(data)
        if room := self._half_bytes - len(self._head):
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half_bytes :]
        if len(self._tail) > 2 * self._half_bytes:
            del self._tail[: -self._half_bytes]

    @property
    def omitted_bytes(self) -> int:
        """Bytes that are in neither end."""
        return max(self.total_bytes - len(self._head) - self._half_bytes, 0)

    @property
    def text(self) -> str:
        """Both ends, readable, and between them how much is missing."""
        if not self.omitted_bytes:
            return escape_terminal_output((self._head + self._tail).decode(errors="replace"))
        head = getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))  # drops half a character
        tail = bytes(self._tail[-self._half_bytes :])
        start = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        missing = f"\n[... {self.omitted_bytes:,} bytes left out ...]\n"
        return escape_terminal_output(head) + missing + escape_terminal_output(tail[start:].decode(errors="replace"))


CommandEnding: TypeAlias = Literal["ended", "timed out", "flooded"]
PROGRESS_INTERVAL_SECONDS = 0.2
"""Seconds between two reports of progress."""
MAX_PROGRESS_BYTES = 2_000
"""Bytes of one report: the newest."""


@dataclass(slots=True)
class CommandResult:
    """What came of a command."""

    ending: CommandEnding = "ended"
    exit_code: int | None = None
    stdout: HeadTailBuffer = field(default_factory=HeadTailBuffer)
    stderr: HeadTailBuffer = field(default_factory=HeadTailBuffer)
    duration_seconds: float = 0.0

    @property
    def output(self) -> str:
        """Both streams, as a model is shown them."""
        out, err = self.stdout.text.rstrip("\n"), self.stderr.text.rstrip("\n")
        return "\n\n".join(part for part in (out, f"[stderr]\n{err}" if err else "") if part)

    @property
    def is_truncated(self) -> bool:
        """Whether something of it is not shown."""
        return bool(self.stdout.omitted_bytes or self.stderr.omitted_bytes)


class OutputProgress:
    """Tells of output while it comes, now and then."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._next_report_at = 0.0
        self._unreported = b""

    def __call__(self, data: bytes) -> None:
        self._unreported = (self._unreported + data)[-MAX_PROGRESS_BYTES:]
        if (now := monotonic()) >= self._next_report_at:
            self._next_report_at = now + PROGRESS_INTERVAL_SECONDS
            self._report(escape_terminal_output(self._unreported.decode(errors="replace")))
            self._unreported = b""


async def run_command(
    child: ChildProcess,
    *,
    timeout: float,
    max_output_bytes: int,
    grace: float,
    on_output: Callable[[bytes], None] = lambda data: None,
) -> CommandResult:
    """Read what a command prints until it ends, is too late, or has printed too much. Nothing of it is left then."""
    began, done = monotonic(), CommandResult()
    try:
        async with asyncio.timeout(timeout):
            await _read_streams(child, done, max_output_bytes, on_output)
            done.exit_code = await child.wait()
    except TimeoutError:
        done.ending = "timed out"
    except _OutputLimitExceeded:
        done.ending, grace = "flooded", 0.0
    except asyncio.CancelledError:
        grace = min(grace, 0.1)  # whoever cancels a call waits for half a second at most
        raise
    finally:
        await child.stop(grace)
        done.duration_seconds = monotonic() - began
    done.stdout.add(await child.stdout.read())  # what it printed last, when it was asked to end
    done.stderr.add(await child.stderr.read())
    return done


class _OutputLimitExceeded(Exception):
    """More was printed than anybody will read."""


async def _read_streams(
    child: ChildProcess, result: CommandResult, max_output_bytes: int, on_output: Callable[[bytes], None]
) -> None:
    def take(kept: HeadTailBuffer, data: bytes) -> None:
        kept.add(data)
        on_output(data)
        if result.stdout.total_bytes + result.stderr.total_bytes > max_output_bytes:
            raise _OutputLimitExceeded

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_read_stream(child.stdout, partial(take, result.stdout)))
            group.create_task(_read_stream(child.stderr, partial(take, result.stderr)))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _read_stream(stream: StreamReader, on_data: Callable[[bytes], Any]) -> None:
    while data := await stream.read(1 << 16):
        on_data(data)


def describe_exit_code(code: int) -> str:
    """An exit code in words."""
    with suppress(ValueError):
        if code > 128:
            return f"exit code {code} ({signal.Signals(code - 128).name})"
    return f"exit code {code}"
