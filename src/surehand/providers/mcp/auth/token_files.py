"""Token files: the OAuth tokens of each user and server, in a folder that only its owner can read.

Processes share the folder: files are replaced atomically, and refreshes are serialized with `flock`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from surehand.core.errors import Denied, Unavailable
from surehand.core.private_paths import PRIVATE_PATHS, state_folder
from surehand.providers.mcp.auth.token_store import LOCK_POLL_SECONDS, LockPurpose, TokenRecord

MAX_TOKEN_FILE_BYTES = 1 << 20

log = logging.getLogger("surehand")


class UnsafeTokenFile(Denied):
    """A token file or its folder belongs to, or can be accessed by, other users of the machine."""

    executed = False


class TokenFolder:
    """A folder of token files, one for each server and user."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(folder).expanduser() if folder is not None else state_folder() / "tokens"
        PRIVATE_PATHS.add_folder(self.path)

    def file_for(self, server_url: str, user: str | None) -> TokenFile:
        """The token file of a user at a server; the user None is the person at this machine."""
        return TokenFile(self.path, server_url, user)

    def __repr__(self) -> str:
        return f"TokenFolder({str(self.path)!r})"


def canonical_url(url: str) -> str:
    """A server's URL in normal form, without credentials, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    default_port = {"http": 80, "https": 443}.get(parts.scheme.lower())
    port = "" if parts.port in (None, default_port) else f":{parts.port}"
    return f"{parts.scheme.lower()}://{host}{port}{parts.path or '/'}"


class TokenFile:
    """A `TokenStore` in a file of its own, which is read again after another process has changed it."""

    def __init__(self, folder: Path, server_url: str, user: str | None) -> None:
        self._folder = folder
        self._server_url = canonical_url(server_url)
        self._user = user
        key = json.dumps([self._server_url, urlsplit(server_url).query, user])
        self._file_stem = sha256(key.encode()).hexdigest()[:40]
        self._cached: tuple[object, TokenRecord] = (None, TokenRecord())
        """The last record, and inode, time and size of the file it was read from; None if it is in memory only."""
        self._last_warning: object = None

    @property
    def path(self) -> Path:
        """The path of the JSON file."""
        return self._folder / f"{self._file_stem}.json"

    def read(self) -> TokenRecord:
        """The stored record, empty if there is no file; raises `UnsafeTokenFile` if others can access it."""
        with self._open_folder() as folder:
            if folder is None:
                return self._cached[1] if self._cached[0] is None else TokenRecord()
            try:
                descriptor = os.open(f"{self._file_stem}.json", os.O_RDONLY | _SAFE_OPEN_FLAGS, dir_fd=folder)
            except FileNotFoundError:
                return self._parse_and_cache(None)
            except OSError as error:
                raise self._unsafe_file_error(self.path, f"it cannot be opened ({error.strerror})") from None
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                self._check_owner_and_mode(self.path, status, "600")
                file_state = (status.st_ino, status.st_mtime_ns, status.st_size)
                if self._cached[0] == file_state:
                    return self._cached[1]
                return self._parse_and_cache(file_state, file.read(MAX_TOKEN_FILE_BYTES))

    def write(self, record: TokenRecord) -> None:
        """Replace the file atomically. If it cannot be written, the record is used until the process ends."""
        text = json.dumps({"server": self._server_url, "user": self._user, **asdict(record)})
        try:
            file_state = self._replace_file(text.encode())
        except OSError as error:
            log.warning(
                "Cannot write the tokens for %s to %s: %s. They are lost when this process ends.",
                self._server_url,
                self._folder,
                error.strerror,
            )
            file_state = self._cached[0]
        self._cached = (file_state, record)

    async def delete(self) -> bool:
        """Delete the file, and say whether there was one."""
        async with self.lock("renew", 60.0):
            self._cached = (None, TokenRecord())
            for unfinished in self._folder.glob(f".{self._file_stem}.*.new"):
                _delete_if_present(unfinished)
            return _delete_if_present(self.path)

    @asynccontextmanager
    async def lock(self, purpose: LockPurpose, timeout: float) -> AsyncIterator[None]:
        """Hold an exclusive lock among all tasks and processes."""
        import fcntl  # not on Windows

        # `flock` locks the open file description, so each task opens the file itself: descriptors of one description
        # would not exclude each other. The kernel releases the lock when the process dies.
        descriptor = self._open_lock_file(purpose)
        try:
            deadline = time.monotonic() + timeout
            while not _try_lock(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)):
                if time.monotonic() > deadline:
                    raise Unavailable(f"Another program has been signing in to {self._server_url} for long. Try later.")
                await asyncio.sleep(LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _open_lock_file(self, purpose: LockPurpose) -> int:
        try:
            with self._open_folder(create=True) as folder:
                return os.open(
                    f"{self._file_stem}.{purpose}", os.O_RDWR | os.O_CREAT | _SAFE_OPEN_FLAGS, 0o600, dir_fd=folder
                )
        except OSError as error:
            log.warning("Cannot open a lock file in the token folder %s: %s.", self._folder, error.strerror)
            raise Unavailable(f"A sign-in to {self._server_url} cannot be kept here. The log says why.") from None

    @contextmanager
    def _open_folder(self, *, create: bool = False) -> Iterator[int | None]:
        """Open the folder and check that only its owner can access it; None if it does not exist."""
        if create:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | _SAFE_OPEN_FLAGS)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise self._unsafe_file_error(self._folder, f"it cannot be opened ({error.strerror})") from None
        try:
            self._check_owner_and_mode(self._folder, os.fstat(descriptor), "700")
            yield descriptor
        finally:
            os.close(descriptor)

    def _replace_file(self, data: bytes) -> object:
        with self._open_folder(create=True) as folder:
            unfinished = f".{self._file_stem}.{secrets.token_hex(8)}.new"
            descriptor = os.open(
                unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE_OPEN_FLAGS, 0o600, dir_fd=folder
            )
            try:
                with os.fdopen(descriptor, "wb") as file:
                    os.fchmod(file.fileno(), 0o600)  # whatever the umask is
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())  # before the rename, which could otherwise survive a crash without data
                    status = os.fstat(file.fileno())
                os.replace(unfinished, f"{self._file_stem}.json", src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(unfinished, dir_fd=folder)
                raise
            return (status.st_ino, status.st_mtime_ns, status.st_size)

    def _parse_and_cache(self, file_state: object, data: bytes | None = None) -> TokenRecord:
        """Parse the file's content; a record that could not be written is used as long as there is no file."""
        if data is None and self._cached[0] is None:
            return self._cached[1]
        record = TokenRecord()
        if data is not None:
            try:
                record = TokenRecord.from_json(json.loads(data))
            except ValueError:
                log.warning("The token file %s is damaged and is ignored. Sign in again.", self.path)
        self._cached = (file_state, record)
        return record

    def _check_owner_and_mode(self, path: Path, status: os.stat_result, mode: str) -> None:
        if status.st_uid != os.geteuid():
            raise self._unsafe_file_error(
                path, "it belongs to another user", f"remove it, or: chown {os.geteuid()} {path}"
            )
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise self._unsafe_file_error(path, "it is not a file")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise self._unsafe_file_error(path, "others may read or change it", f"chmod {mode} {path}")

    def _unsafe_file_error(
        self, path: Path, reason: str, remedy: str = "remove it, and sign in again"
    ) -> UnsafeTokenFile:
        """The error for a model, which does not name the path; path and remedy are logged, once."""
        if self._last_warning != (path, reason):
            log.warning("Token file %s is not used: %s. To fix this: %s", path, reason, remedy)
            self._last_warning = (path, reason)
        return UnsafeTokenFile(
            f"The sign-in that is kept for {self._server_url} is not used: {reason}. The log says how to mend that."
        )

    def __repr__(self) -> str:
        return f"TokenFile({self._server_url!r}, user={self._user!r})"


# A symbolic link could lead to a file that another user controls.
_SAFE_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def _try_lock(lock: Any) -> bool:
    try:
        lock()
    except BlockingIOError:  # EWOULDBLOCK, from LOCK_NB: another description of the file holds the lock
        return False
    return True


def _delete_if_present(path: Path) -> bool:
    with suppress(FileNotFoundError):
        path.unlink()
        return True
    return False
