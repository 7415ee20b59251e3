"""Running one command to its end, within its time and its room."""

from __future__ import annotations

import asyncio
import signal
from asyncio import StreamReader
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Literal, TypeAlias

from surehand.builtin.shell_output import Kept
from surehand.core.sanitize import escape_terminal_output
from surehand.sandbox.child import Child

Ending: TypeAlias = Literal["ended", "timed out", "flooded"]
REPORTS = 0.2
"""Seconds between two reports of progress."""
SHOWN = 2_000
"""Bytes of one report: the newest."""


@dataclass(slots=True)
class Run:
    """What came of a command."""

    ending: Ending = "ended"
    code: int | None = None
    out: Kept = field(default_factory=Kept)
    err: Kept = field(default_factory=Kept)
    seconds: float = 0.0

    @property
    def output(self) -> str:
        """Both streams, as a model is shown them."""
        out, err = self.out.text.rstrip("\n"), self.err.text.rstrip("\n")
        return "\n\n".join(part for part in (out, f"[stderr]\n{err}" if err else "") if part)

    @property
    def truncated(self) -> bool:
        """Whether something of it is not shown."""
        return bool(self.out.left_out or self.err.left_out)


class Progress:
    """Tells of output while it comes, now and then."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._next = 0.0
        self._untold = b""

    def __call__(self, data: bytes) -> None:
        self._untold = (self._untold + data)[-SHOWN:]
        if (now := monotonic()) >= self._next:
            self._next = now + REPORTS
            self._report(escape_terminal_output(self._untold.decode(errors="replace")))
            self._untold = b""


async def run(
    child: Child, *, timeout: float, flood: int, grace: float, told: Callable[[bytes], None] = lambda data: None
) -> Run:
    """Read what a command prints until it ends, is too late, or has printed too much. Nothing of it is left then."""
    began, done = monotonic(), Run()
    try:
        async with asyncio.timeout(timeout):
            await _read_both(child, done, flood, told)
            done.code = await child.wait()
    except TimeoutError:
        done.ending = "timed out"
    except _Flood:
        done.ending, grace = "flooded", 0.0
    except asyncio.CancelledError:
        grace = min(grace, 0.1)  # whoever cancels a call waits for half a second at most
        raise
    finally:
        await child.stop(grace)
        done.seconds = monotonic() - began
    done.out.add(await child.stdout.read())  # what it printed last, when it was asked to end
    done.err.add(await child.stderr.read())
    return done


class _Flood(Exception):
    """More was printed than anybody will read."""


async def _read_both(child: Child, done: Run, flood: int, told: Callable[[bytes], None]) -> None:
    def take(kept: Kept, data: bytes) -> None:
        kept.add(data)
        told(data)
        if done.out.total + done.err.total > flood:
            raise _Flood

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_read(child.stdout, partial(take, done.out)))
            group.create_task(_read(child.stderr, partial(take, done.err)))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _read(stream: StreamReader, take: Callable[[bytes], Any]) -> None:
    while data := await stream.read(1 << 16):
        take(data)


def ended(code: int) -> str:
    """An exit code in words."""
    with suppress(ValueError):
        if code > 128:
            return f"exit code {code} ({signal.Signals(code - 128).name})"
    return f"exit code {code}"
