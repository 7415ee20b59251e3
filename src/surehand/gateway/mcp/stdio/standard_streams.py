"""Standard streams: stdin and stdout of this process, reserved for MCP messages while a server uses them.

Meanwhile the output of tool handlers and of their child processes goes to stderr, and stdin is at its end for them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from threading import Lock

_reservation_lock = Lock()
_reserved_descriptors: set[int] = set()


def _release_in_child() -> None:
    """A forked child must not write messages, and a pipe that it held open would never end for the client."""
    if not _reserved_descriptors:
        return
    null_device = os.open(os.devnull, os.O_RDWR)
    for descriptor in _reserved_descriptors:
        os.dup2(null_device, descriptor, inheritable=False)
    os.close(null_device)
    _reserved_descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)


@contextmanager
def reserved_standard_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of the original stdin and stdout. Both are restored afterwards."""
    if not _reservation_lock.acquire(blocking=False):
        raise RuntimeError("This process serves over its standard streams already.")
    try:
        stdin = _duplicate(0, os.O_RDONLY)
        stdout = _duplicate(1, os.O_WRONLY)
        _reserved_descriptors.update((stdin, stdout))
        try:
            _move(os.open(os.devnull, os.O_RDONLY), 0)
            _move(_duplicate_stderr(), 1)
            with redirect_stdout(sys.stderr):
                yield stdin, stdout
        finally:
            _reserved_descriptors.clear()
            _flush_stdout()  # text that was printed meanwhile must not follow the last message
            _move(stdin, 0)
            _move(stdout, 1)
    finally:
        _reservation_lock.release()


def _duplicate(descriptor: int, mode: int) -> int:
    """A second descriptor of a stream, above the standard ones, which child processes do not inherit."""
    _flush_stdout()
    try:
        if sys.platform == "win32":
            return os.dup(descriptor)
        from fcntl import F_DUPFD_CLOEXEC, fcntl

        return fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
    except OSError:  # the process was started with this stream closed
        return os.open(os.devnull, mode)


def _duplicate_stderr() -> int:
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _move(source: int, target: int) -> None:
    os.dup2(source, target)
    os.close(source)


def _flush_stdout() -> None:
    for stream in {sys.stdout, sys.__stdout__} - {None}:
        with suppress(OSError, ValueError):
            stream.flush()  # type: ignore[union-attr]  # None was taken out of the set
