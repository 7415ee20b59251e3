"""Runs a converter of hostile documents as a child process with limits, for HTML pages and PDF files.

Converters hold the GIL or take minutes for a document that is made to slow them down. A process of its own costs
about 50 ms, leaves this one responsive, and can be killed.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO, Literal, TypeAlias

MAX_OUTPUT_BYTES = 10 << 20
TOO_LARGE_EXIT_CODE = 3
_MAX_MEMORY_BYTES = 2 << 30
_LIMITS_PROGRAM = """
try:
    import resource
    for name, limit in (("AS", {memory}), ("CPU", {seconds}), ("CORE", 0)):
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (limit, limit))
except ImportError:
    pass
"""

FailureReason: TypeAlias = Literal["timed_out", "too_large", "failed"]


class ConversionFailed(Exception):
    """A converter did not end well."""

    def __init__(self, reason: FailureReason) -> None:
        super().__init__(reason)
        self.reason = reason


async def run_converter(program: str, program_input: bytes, *, max_seconds: float) -> bytes:
    """Run a Python program on some input and return its output; raises `ConversionFailed`."""
    limits = _LIMITS_PROGRAM.format(memory=_MAX_MEMORY_BYTES, seconds=max(round(max_seconds), 1))
    # Files instead of pipes: no task has to feed and drain them, and a killed child leaves nothing behind.
    with TemporaryFile() as stdin, TemporaryFile() as stdout:
        stdin.write(program_input)
        stdin.seek(0)
        await _run_child(limits + program, stdin, stdout, max_seconds)
        stdout.seek(0)
        return stdout.read()


async def _run_child(program: str, stdin: IO[bytes], stdout: IO[bytes], max_seconds: float) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-c",
        program,
        stdin=stdin,
        stdout=stdout,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(max_seconds):
            exit_code = await child.wait()
    except TimeoutError:
        raise ConversionFailed("timed_out") from None
    finally:
        await _ensure_ended(child)
    if exit_code == TOO_LARGE_EXIT_CODE:
        raise ConversionFailed("too_large")
    if exit_code:
        raise ConversionFailed("failed")


async def _ensure_ended(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
