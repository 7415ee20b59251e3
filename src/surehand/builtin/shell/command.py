"""Running one shell command to its end, within a time limit and an output limit, and keeping its output short."""

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
"""Bytes of each output stream that a model is shown."""
CommandEnding: TypeAlias = Literal["ended", "timed out", "flooded"]
PROGRESS_INTERVAL_SECONDS = 0.2
MAX_PROGRESS_BYTES = 2_000
"""Newest bytes of output in one progress report."""
_CANCEL_GRACE_SECONDS = 0.1
_READ_BYTES = 1 << 16


class HeadTailBuffer:
    """Keeps the first and the last bytes of a stream, and counts the bytes between them."""

    def __init__(self, max_bytes: int = MAX_STREAM_BYTES) -> None:
        self._half_bytes = max_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """Append the next chunk of the stream."""
        self.total_bytes += len(data)
        if room := self._half_bytes - len(self._head):
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half_bytes :]
        # Trimmed only at twice the size: deleting from the front at every chunk would copy the tail every time.
        if len(self._tail) > 2 * self._half_bytes:
            del self._tail[: -self._half_bytes]

    @property
    def omitted_bytes(self) -> int:
        """Bytes that are neither in the head nor in the tail."""
        return max(self.total_bytes - len(self._head) - self._half_bytes, 0)

    @property
    def text(self) -> str:
        """Head and tail as printable text, with the number of omitted bytes between them."""
        if not self.omitted_bytes:
            return escape_terminal_output((self._head + self._tail).decode(errors="replace"))
        # An incremental decoder drops a character that is cut off at the end of the head.
        head = getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        tail = bytes(self._tail[-self._half_bytes :])
        # The tail may begin inside a character: skip UTF-8 continuation bytes (10xxxxxx).
        start = next((position for position, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        missing = f"\n[... {self.omitted_bytes:,} bytes left out ...]\n"
        return escape_terminal_output(head) + missing + escape_terminal_output(tail[start:].decode(errors="replace"))


@dataclass(slots=True)
class CommandResult:
    """Output and exit code of a command, and how it ended."""

    ending: CommandEnding = "ended"
    exit_code: int | None = None
    stdout: HeadTailBuffer = field(default_factory=HeadTailBuffer)
    stderr: HeadTailBuffer = field(default_factory=HeadTailBuffer)
    duration_seconds: float = 0.0

    @property
    def output(self) -> str:
        """Both streams as a model is shown them."""
        stdout = self.stdout.text.rstrip("\n")
        stderr = self.stderr.text.rstrip("\n")
        parts = [stdout, f"[stderr]\n{stderr}" if stderr else ""]
        return "\n\n".join(part for part in parts if part)

    @property
    def is_truncated(self) -> bool:
        """Whether part of the output is left out."""
        return bool(self.stdout.omitted_bytes or self.stderr.omitted_bytes)


class OutputProgress:
    """Reports the newest output as progress, at most once per interval."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._next_report_at = 0.0
        self._unreported = b""

    def __call__(self, data: bytes) -> None:
        self._unreported = (self._unreported + data)[-MAX_PROGRESS_BYTES:]
        now = monotonic()
        if now >= self._next_report_at:
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
    """Read the output of a command until it ends, times out or prints too much; then stop all its processes."""
    started_at = monotonic()
    result = CommandResult()
    try:
        async with asyncio.timeout(timeout):
            await _read_streams(child, result, max_output_bytes, on_output)
            result.exit_code = await child.wait()
    except TimeoutError:
        result.ending = "timed out"
    except _OutputLimitExceeded:
        result.ending = "flooded"
        grace = 0.0
    except asyncio.CancelledError:
        # The deadline stage gives a cancelled handler half a second in all.
        grace = min(grace, _CANCEL_GRACE_SECONDS)
        raise
    finally:
        await child.stop(grace)
        result.duration_seconds = monotonic() - started_at
    # What the command printed while it was stopping is still buffered in the streams.
    result.stdout.add(await child.stdout.read())
    result.stderr.add(await child.stderr.read())
    return result


class _OutputLimitExceeded(Exception):
    """The command printed more than its output limit."""


async def _read_streams(
    child: ChildProcess, result: CommandResult, max_output_bytes: int, on_output: Callable[[bytes], None]
) -> None:
    def add_output(buffer: HeadTailBuffer, data: bytes) -> None:
        buffer.add(data)
        on_output(data)
        if result.stdout.total_bytes + result.stderr.total_bytes > max_output_bytes:
            raise _OutputLimitExceeded

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_read_stream(child.stdout, partial(add_output, result.stdout)))
            group.create_task(_read_stream(child.stderr, partial(add_output, result.stderr)))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _read_stream(stream: StreamReader, on_data: Callable[[bytes], Any]) -> None:
    while data := await stream.read(_READ_BYTES):
        on_data(data)


def describe_exit_code(code: int) -> str:
    """Describe an exit code; above 128 it names the signal that ended the command."""
    with suppress(ValueError):
        if code > 128:
            return f"exit code {code} ({signal.Signals(code - 128).name})"
    return f"exit code {code}"
