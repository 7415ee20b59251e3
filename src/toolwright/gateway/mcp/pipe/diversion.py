"""Diversion: the standard streams of this process, kept for the protocol alone.

What handlers and their children print goes to stderr meanwhile, and whoever reads stdin finds it at its end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from threading import Lock

_one_at_a_time = Lock()
_ours: set[int] = set()
"""The descriptors of the protocol."""


def _let_go() -> None:
    """A child that a handler forks has no part in the protocol; and while it held it open, it would never end."""
    nothing = os.open(os.devnull, os.O_RDWR) if _ours else -1
    for each in _ours:
        os.dup2(nothing, each, inheritable=False)
    if _ours:
        os.close(nothing)
        _ours.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def diverted() -> Iterator[tuple[int, int]]:
    """Descriptors for what stdin and stdout were; both are put back afterwards."""
    if not _one_at_a_time.acquire(blocking=False):
        raise RuntimeError("This process serves over its standard streams already.")
    try:
        reading, writing = _kept(0, os.O_RDONLY), _kept(1, os.O_WRONLY)
        _ours.update((reading, writing))
        try:
            _point(0, os.open(os.devnull, os.O_RDONLY))
            _point(1, _stderr())
            with redirect_stdout(sys.stderr):
                yield reading, writing
        finally:
            _ours.clear()
            _flush()  # what was printed meanwhile must not follow the last answer
            _point(0, reading)
            _point(1, writing)
    finally:
        _one_at_a_time.release()


def _kept(number: int, mode: int) -> int:
    """Another descriptor for a stream, beyond the standard ones, that no child inherits."""
    _flush()
    try:
        if sys.platform == "win32":
            return os.dup(number)
        from fcntl import F_DUPFD_CLOEXEC, fcntl

        return fcntl(number, F_DUPFD_CLOEXEC, 3)
    except OSError:  # it was closed
        return os.open(os.devnull, mode)


def _stderr() -> int:
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _point(number: int, other: int) -> None:
    os.dup2(other, number)
    os.close(other)


def _flush() -> None:
    for stream in {sys.stdout, sys.__stdout__} - {None}:
        with suppress(OSError, ValueError):
            stream.flush()  # type: ignore[union-attr]  # none of them is None
