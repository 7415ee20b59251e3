"""`LockFile` stores pins in a JSON file that processes share and people commit; `MemoryPinStorage` in memory."""

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
"""Time to wait for another process that writes the file."""
# O_NONBLOCK: opening a named pipe for reading would block until another process opens it for writing.
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class PinStorage(Protocol):
    """Stores the pins of a lock."""

    def read(self) -> Pins:
        """The stored pins."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the write lock."""

    def write(self, pins: Pins) -> None:
        """Replace the stored pins atomically."""


class MemoryPinStorage:
    """Stores pins until the process ends."""

    def __init__(self) -> None:
        self._pins = Pins()
        self._lock = threading.Lock()

    def read(self) -> Pins:
        """The stored pins."""
        return self._pins

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the write lock among the threads of this process."""
        with self._lock:
            yield

    def write(self, pins: Pins) -> None:
        """Replace the stored pins."""
        self._pins = pins


class LockFile:
    """Pins in a JSON file, which is meant to be committed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Pins:
        """Parse the file; no pins if it does not exist. Raises `DefinitionError` for a file that is malformed."""
        try:
            with os.fdopen(os.open(self._real_path, _READ_FLAGS), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise self._lock_file_error("is not a regular file", "remove it")
                data = file.read(MAX_LOCK_FILE_BYTES + 1)
        except FileNotFoundError:
            return Pins()
        except OSError as error:
            raise self._os_error("cannot be read", error, "make it a file that this user can read") from None
        if len(data) > MAX_LOCK_FILE_BYTES:
            raise self._lock_file_error(
                f"is larger than {MAX_LOCK_FILE_BYTES:,} bytes", "restore it from version control"
            )
        try:
            return parse_pins(data.decode())
        except UnreadablePins as error:
            raise self._lock_file_error(str(error), error.fix) from None
        except UnicodeDecodeError:
            raise self._lock_file_error("is not UTF-8 text", "restore it from version control") from None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the write lock among all processes and threads."""
        try:
            import fcntl
        except ImportError:  # Windows: the last writer wins, and pins that it did not read are pinned again
            yield
            return
        # The folder is locked, not the file: the file is replaced, and a lock on the old inode would exclude no one.
        try:
            folder = os.open(self._real_path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._write_error(error) from None
        try:
            deadline = time.monotonic() + WRITE_LOCK_TIMEOUT_SECONDS
            while not _try_lock(lambda: fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)):
                if time.monotonic() > deadline:
                    raise self._lock_file_error(
                        "is being written by another process", "stop that process, and try again"
                    )
                time.sleep(0.005)
            yield
        finally:
            os.close(folder)

    def write(self, pins: Pins) -> None:
        """Replace the file atomically; call it inside `exclusive`."""
        data = render_pins(pins).encode()
        if len(data) > MAX_LOCK_FILE_BYTES:
            raise self._lock_file_error(f"would be larger than {MAX_LOCK_FILE_BYTES:,} bytes", "allow fewer tools")
        real = self._real_path
        temporary = real.with_name(f".{real.name}.{secrets.token_hex(8)}.tmp")
        try:
            _remove_temporary_files(real)
            _write_new_file(temporary, data, mode_from=real)
            os.replace(temporary, real)  # atomic: a reader sees the old file or the new one, never a part
        except OSError as error:
            with suppress(OSError):
                _remove_temporary_files(real)
            raise self._write_error(error) from None

    @property
    def _real_path(self) -> Path:
        """The file that a symbolic link points to, so that writing keeps the link.

        A link that leaves its folder is refused: it may come with a repository and point to any file of the user.
        """
        real = Path(os.path.realpath(self.path))
        folder = os.path.realpath(self.path.parent)
        if not real.is_relative_to(folder):
            raise self._lock_file_error("is a link that leads out of its folder", "give the path that it leads to")
        return real

    def _write_error(self, error: OSError) -> DefinitionError:
        fix = "give this user write access to its folder, or set `frozen`, with which the file is only read"
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
        return True  # the file system has no locks: go on without
    return True


def _remove_temporary_files(lock_path: Path) -> None:
    """Remove temporary files of processes that were killed; no other process writes while we hold the lock."""
    for path in lock_path.parent.iterdir():
        if path.name.startswith(f".{lock_path.name}.") and path.name.endswith(".tmp"):
            path.unlink(missing_ok=True)


def _write_new_file(path: Path, data: bytes, *, mode_from: Path) -> None:
    """Write a new file with the mode of the one that it will replace; the file holds no secrets."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
        with suppress(FileNotFoundError):
            path.chmod(mode_from.stat().st_mode & 0o777)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
