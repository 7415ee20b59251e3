"""Where pins are kept: in a file that several processes share, or in memory."""

from __future__ import annotations

import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from surehand.core.errors import DefinitionError
from surehand.providers.mcp.trust.pins import Pins, Unreadable, read, written

LARGEST = 64 << 20
PATIENCE = 10.0
"""Seconds to wait for another process; it writes one small file."""
# A pipe would keep us waiting for whoever writes into it.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class PinPlace(Protocol):
    """Somewhere to keep pins."""

    def read(self) -> Pins:
        """What is kept now."""

    def alone(self) -> AbstractContextManager[None]:
        """While nobody else writes."""

    def write(self, pins: Pins) -> None:
        """Keep these, whole or not at all."""


class InMemory:
    """Pins for as long as the program runs."""

    def __init__(self) -> None:
        self._pins, self._lock = Pins(), threading.Lock()

    def read(self) -> Pins:
        """What is kept now."""
        return self._pins

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While no other thread writes."""
        with self._lock:
            yield

    def write(self, pins: Pins) -> None:
        """Keep these."""
        self._pins = pins


class LockFile:
    """Pins in a JSON file, which is meant to be committed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Pins:
        """What is in the file; nothing if there is none."""
        try:
            with os.fdopen(os.open(self._real, _FLAGS), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise self._refused("is no file", "remove it")
                data = file.read(LARGEST + 1)
        except FileNotFoundError:
            return Pins()
        except OSError as error:
            raise self._error("cannot be read", error, "make it a file that this user may read") from None
        if len(data) > LARGEST:
            raise self._refused(f"is larger than {LARGEST:,} bytes", "bring it back from version control")
        try:
            return read(data.decode())
        except Unreadable as error:
            raise self._refused(str(error), error.fix) from None
        except UnicodeDecodeError:
            raise self._refused("is no UTF-8 text", "bring it back from version control") from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While no other process or thread writes: the folder is locked, since the file itself is replaced."""
        try:
            import fcntl
        except ImportError:  # not on Windows: the last one to write wins, and what it did not know is pinned again
            yield
            return
        try:
            folder = os.open(self._real.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            until = time.monotonic() + PATIENCE
            while not _taken(lambda: fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)):
                if time.monotonic() > until:
                    raise self._refused("is being written by another process", "end that process, and try again")
                time.sleep(0.005)
            yield
        finally:
            os.close(folder)

    def write(self, pins: Pins) -> None:
        """Put these in the file's place, whole or not at all."""
        data = written(pins).encode()
        if len(data) > LARGEST:
            raise self._refused(f"would be larger than {LARGEST:,} bytes", "allow fewer tools")
        real = self._real
        try:
            _sweep(real)
            _fill(temporary := real.with_name(f".{real.name}.{secrets.token_hex(8)}.tmp"), data, like=real)
            os.replace(temporary, real)
        except OSError as error:
            with suppress(OSError):
                _sweep(real)
            raise self._unwritable(error) from None

    @property
    def _real(self) -> Path:
        """The file itself, where the path is a link to it: the link stays.

        A link may come with a repository, and must not lead to files that are no business of it.
        """
        real, folder = Path(os.path.realpath(self.path)), os.path.realpath(self.path.parent)
        if not real.is_relative_to(folder):
            raise self._refused("is a link that leads out of its folder", "name the file that it leads to")
        return real

    def _unwritable(self, error: OSError) -> DefinitionError:
        fix = "let this user write to its folder, or set `frozen`, with which it is only compared"
        return self._error("cannot be written", error, fix)

    def _error(self, problem: str, error: OSError, fix: str) -> DefinitionError:
        return self._refused(f"{problem}: {(error.strerror or type(error).__name__).lower()}", fix)

    def _refused(self, problem: str, fix: str) -> DefinitionError:
        return DefinitionError(f"The lock file {self.path} {problem}.", fix=f"{fix}.")


def _taken(lock: Callable[[], None]) -> bool:
    try:
        lock()
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def _sweep(real: Path) -> None:
    """Take away what a process left that was killed while it wrote: only one writes at a time."""
    for each in real.parent.iterdir():
        if each.name.startswith(f".{real.name}.") and each.name.endswith(".tmp"):
            each.unlink(missing_ok=True)


def _fill(path: Path, data: bytes, *, like: Path) -> None:
    """A new file with the mode of the one whose place it takes; nothing in it is secret."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
        with suppress(FileNotFoundError):
            path.chmod(like.stat().st_mode & 0o777)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
