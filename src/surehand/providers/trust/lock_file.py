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
from surehand.providers.trust.pins import Pins, UnreadablePins, parse_pins, render_pins

MAX_LOCK_FILE_BYTES = 64 << 20
WRITE_LOCK_TIMEOUT_SECONDS = 10.0
"""Seconds to wait for another process; it writes one small file."""
# A pipe would keep us waiting for whoever writes into it.
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class PinStorage(Protocol):
    """Somewhere to keep pins."""

    def read(self) -> Pins:
        """What is kept now."""

    def exclusive(self) -> AbstractContextManager[None]:
        """While nobody else writes."""

    def write(self, pins: Pins) -> None:
        """Keep these, whole or not at all."""


class MemoryPinStorage:
    """Pins for as long as the program runs."""

    def __init__(self) -> None:
        self._pins, self._lock = Pins(), threading.Lock()

    def read(self) -> Pins:
        """What is kept now."""
        return self._pins

    @contextmanager
    def exclusive(self) -> Iterator[None]:
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
            with os.fdopen(os.open(self._real_path, _READ_FLAGS), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise self._lock_file_error("is no file", "remove it")
                data = file.read(MAX_LOCK_FILE_BYTES + 1)
        except FileNotFoundError:
            return Pins()
        except OSError as error:
            raise self._os_error("cannot be read", error, "make it a file that this user may read") from None
        if len(data) > MAX_LOCK_FILE_BYTES:
            raise self._lock_file_error(
                f"is larger than {MAX_LOCK_FILE_BYTES:,} bytes", "bring it back from version control"
            )
        try:
            return parse_pins(data.decode())
        except UnreadablePins as error:
            raise self._lock_file_error(str(error), error.fix) from None
        except UnicodeDecodeError:
            raise self._lock_file_error("is no UTF-8 text", "bring it back from version control") from None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """While no other process or thread writes: the folder is locked, since the file itself is replaced."""
        try:
            import fcntl
        except ImportError:  # not on Windows: the last one to write wins, and what it did not know is pinned again
            yield
            return
        try:
            folder = os.open(self._real_path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._write_error(error) from None
        try:
            until = time.monotonic() + WRITE_LOCK_TIMEOUT_SECONDS
            while not _try_lock(lambda: fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)):
                if time.monotonic() > until:
                    raise self._lock_file_error(
                        "is being written by another process", "end that process, and try again"
                    )
                time.sleep(0.005)
            yield
        finally:
            os.close(folder)

    def write(self, pins: Pins) -> None:
        """Put these in the file's place, whole or not at all."""
        data = render_pins(pins).encode()
        if len(data) > MAX_LOCK_FILE_BYTES:
            raise self._lock_file_error(f"would be larger than {MAX_LOCK_FILE_BYTES:,} bytes", "allow fewer tools")
        real = self._real_path
        try:
            _remove_temporary_files(real)
            _write_new_file(
                temporary := real.with_name(f".{real.name}.{secrets.token_hex(8)}.tmp"), data, mode_from=real
            )
            os.replace(temporary, real)
        except OSError as error:
            with suppress(OSError):
                _remove_temporary_files(real)
            raise self._write_error(error) from None

    @property
    def _real_path(self) -> Path:
        """The file itself, where the path is a link to it: the link stays.

        A link may come with a repository, and must not lead to files that are no business of it.
        """
        real, folder = Path(os.path.realpath(self.path)), os.path.realpath(self.path.parent)
        if not real.is_relative_to(folder):
            raise self._lock_file_error("is a link that leads out of its folder", "name the file that it leads to")
        return real

    def _write_error(self, error: OSError) -> DefinitionError:
        fix = "let this user write to its folder, or set `frozen`, with which it is only compared"
        return self._os_error("cannot be written", error, fix)

    def _os_error(self, problem: str, error: OSError, fix: str) -> DefinitionError:
        return self._lock_file_error(f"{problem}: {(error.strerror or type(error).__name__).lower()}", fix)

    def _lock_file_error(self, problem: str, fix: str) -> DefinitionError:
        return DefinitionError(f"The lock file {self.path} {problem}.", fix=f"{fix}.")


def _try_lock(lock: Callable[[], None]) -> bool:
    try:
        lock()
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def _remove_temporary_files(lock_path: Path) -> None:
    """Take away what a process left that was killed while it wrote: only one writes at a time."""
    for each in lock_path.parent.iterdir():
        if each.name.startswith(f".{lock_path.name}.") and each.name.endswith(".tmp"):
            each.unlink(missing_ok=True)


def _write_new_file(path: Path, data: bytes, *, mode_from: Path) -> None:
    """A new file with the mode of the one whose place it takes; nothing in it is secret."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
        with suppress(FileNotFoundError):
            path.chmod(mode_from.stat().st_mode & 0o777)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
