"""Runs a converter of hostile documents as a child process with limits, for HTML pages and PDF files.

`run_converter` is for coroutines, `run_converter_in_thread` for handlers that run in a thread of their own.

Converters hold the GIL or take minutes for a document that is made to slow them down. A process of its own costs
about 50 ms, leaves this one responsive, and can be killed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import IO, Literal, TypeAlias

MAX_OUTPUT_BYTES = 10 << 20
TOO_LARGE_EXIT_CODE = 3
_MAX_MEMORY_BYTES = 2 << 30
# Runs at the start of the child: a `preexec_fn` would run Python between fork and exec, which is unsafe with threads.
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
    # Files instead of pipes: no task has to feed and drain them, and a killed child leaves nothing behind. The
    # environment is empty: a document that takes the converter over finds no secrets in it.
    with _temporary_input(program_input) as stdin, TemporaryFile() as stdout:
        child = await asyncio.create_subprocess_exec(
            *_command(program, max_seconds), stdin=stdin, stdout=stdout, stderr=asyncio.subprocess.DEVNULL, env={}
        )
        try:
            async with asyncio.timeout(max_seconds):
                exit_code = await child.wait()
        except TimeoutError:
            raise ConversionFailed("timed_out") from None
        finally:
            await _ensure_ended(child)
        return _read_output(exit_code, stdout)


def run_converter_in_thread(program: str, program_input: bytes, *, max_seconds: float) -> bytes:
    """The same, for code that runs in a thread and may block it."""
    with _temporary_input(program_input) as stdin, TemporaryFile() as stdout:
        try:
            child = subprocess.run(
                _command(program, max_seconds),
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                env={},
                timeout=max_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:  # `run` has killed the child
            raise ConversionFailed("timed_out") from None
        return _read_output(child.returncode, stdout)


def _command(program: str, max_seconds: float) -> list[str]:
    limits = _LIMITS_PROGRAM.format(memory=_MAX_MEMORY_BYTES, seconds=max(round(max_seconds), 1))
    # -I: isolated, so that neither the environment nor the current folder can change which modules are imported.
    return [sys.executable, "-I", "-c", limits + program]


@contextmanager
def _temporary_input(program_input: bytes) -> Iterator[IO[bytes]]:
    with TemporaryFile() as file:
        file.write(program_input)
        file.seek(0)
        yield file


def _read_output(exit_code: int, stdout: IO[bytes]) -> bytes:
    if exit_code == TOO_LARGE_EXIT_CODE:
        raise ConversionFailed("too_large")
    if exit_code:
        raise ConversionFailed("failed")
    stdout.seek(0)
    return stdout.read()


async def _ensure_ended(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
