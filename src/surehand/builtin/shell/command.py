"""Running one shell command to its end, within a time limit and an output limit, and keeping its output short."""

from __future__ import annotations

import asyncio
import signal
from asyncio import StreamReader
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal, TypeAlias

from surehand.core.sanitize import escape_terminal_output
from surehand.sandbox.child_process import ChildProcess

MAX_SHOWN_BYTES = 30_000
"""Bytes of output that a model is shown at once; the runtime keeps longer output under a handle."""
MAX_KEPT_BYTES = 10 << 20
"""Bytes of one command's output that are kept, half of them from the beginning and half from the end."""
CommandEnding: TypeAlias = Literal["ended", "timed out", "flooded"]
"""`ended` by itself, `timed out`, or `flooded`: stopped because it printed more than its output limit."""
PROGRESS_INTERVAL_SECONDS = 0.2
MAX_PROGRESS_BYTES = 2_000
"""Newest bytes of output in one progress report."""
_CANCEL_GRACE_SECONDS = 0.1
_READ_BYTES = 1 << 16
_RENDERED_PIECE_BYTES = 1 << 16


class HeadTailBuffer:
    """Keeps the first and the last bytes of an output, and counts the bytes between them."""

    def __init__(self) -> None:
        self._half_bytes = MAX_KEPT_BYTES // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """Append the next chunk of the output."""
        self.total_bytes += len(data)
        if room := self._half_bytes - len(self._head):
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half_bytes :]
        # Trimmed only at twice the size: deleting from the front at every chunk would copy the tail every time.
        if len(self._tail) > 2 * self._half_bytes:
            del self._tail[: -self._half_bytes]

    @property
    def text(self) -> str:
        """Head and tail as printable text, in whole lines, with the number of omitted bytes between them."""
        omitted = max(self.total_bytes - len(self._head) - self._half_bytes, 0)
        if not omitted:
            return render_output(self._head + self._tail)
        head = _without_partial_last_line(bytes(self._head))
        tail = _without_partial_first_line(bytes(self._tail[-self._half_bytes :]))
        omitted = self.total_bytes - len(head) - len(tail)
        return f"{render_output(head)}\n[... {omitted:,} bytes were not kept ...]\n{render_output(tail)}"


def render_output(output: bytes | bytearray) -> str:
    """Output as printable text.

    Ten megabytes of random bytes take seconds, and a regular expression holds the GIL for as long as it works: piece by
    piece, the event loop can run in between.
    """
    pieces: list[str] = []
    start = 0
    while start < len(output):
        end = output.find(b"\n", start + _RENDERED_PIECE_BYTES) + 1 or len(output)
        pieces.append(escape_terminal_output(output[start:end].decode(errors="replace")))
        start = end
    return "".join(pieces)


def _without_partial_last_line(head: bytes) -> bytes:
    end = head.rfind(b"\n")
    if end >= 0:
        return head[:end]
    # One endless line: an incremental decoder drops only a character that is cut off at its end.
    return getincrementaldecoder("utf-8")("replace").decode(head).encode()


def _without_partial_first_line(tail: bytes) -> bytes:
    start = tail.find(b"\n", 0, len(tail) - 1) + 1
    if start:
        return tail[start:]
    # One endless line: skip the UTF-8 continuation bytes (10xxxxxx) of a character that is cut off at its start.
    return tail[next((position for position, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0) :]


@dataclass(slots=True)
class CommandResult:
    """Output and exit code of a command, and how it ended."""

    ending: CommandEnding = "ended"
    exit_code: int | None = None
    output: HeadTailBuffer = field(default_factory=HeadTailBuffer)
    duration_seconds: float = 0.0

    async def render(self) -> str:
        """The output as a model is shown it; in a thread, because much of it takes long."""
        text = await asyncio.to_thread(lambda: self.output.text)
        return text.rstrip("\n") or "(no output)"


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
    result.output.add(await child.stdout.read() + await child.stderr.read())
    return result


class _OutputLimitExceeded(Exception):
    """The command printed more than its output limit."""


async def _read_streams(
    child: ChildProcess, result: CommandResult, max_output_bytes: int, on_output: Callable[[bytes], None]
) -> None:
    def add_output(data: bytes) -> None:
        result.output.add(data)
        on_output(data)
        if result.output.total_bytes > max_output_bytes:
            raise _OutputLimitExceeded

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_read_stream(child.stdout, add_output))
            group.create_task(_read_stream(child.stderr, add_output))
    except BaseExceptionGroup as errors:  # a task group wraps whatever its tasks raise
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
