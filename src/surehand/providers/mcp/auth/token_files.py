"""Tokens: who is signed in to which server, kept in files that only their owner can read."""

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
from surehand.providers.mcp.auth.token_store import LOCK_POLL_SECONDS, LockPurpose, TokenRecord

MAX_TOKEN_FILE_BYTES = 1 << 20

log = logging.getLogger("surehand")


class UnsafeTokenFile(Denied):
    """Others could read, or could have written, what is kept."""

    executed = False


class TokenFolder:
    """Sign-ins in a folder, one file for each server and user; nobody is ever given another's."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(folder).expanduser() if folder is not None else state_folder() / "tokens"

    def file_for(self, server_url: str, user: str | None) -> TokenFile:
        """The sign-in of a user to the server at a URL; the user None is the person at this machine."""
        return TokenFile(self.path, server_url, user)

    def __repr__(self) -> str:
        return f"Tokens({str(self.path)!r})"


def state_folder() -> Path:
    """Where things are kept that cannot be had again without a person."""
    if named := os.environ.get("SUREHAND_STATE"):
        return Path(named).expanduser()
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "surehand"


def canonical_url(url: str) -> str:
    """A server's URL in the same words each time, without what could be a secret of its own."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    usual = {"http": 80, "https": 443}.get(parts.scheme.lower())
    port = "" if parts.port in (None, usual) else f":{parts.port}"
    return f"{parts.scheme.lower()}://{host}{port}{parts.path or '/'}"


class TokenFile:
    """One sign-in in a file of its own. What is in the file is read again when it has changed."""

    def __init__(self, folder: Path, server_url: str, user: str | None) -> None:
        self._folder, self._server_url, self._user = folder, canonical_url(server_url), user
        whose = json.dumps([self._server_url, urlsplit(server_url).query, user])
        self._file_stem = sha256(whose.encode()).hexdigest()[:40]
        self._cached: tuple[object, TokenRecord] = (None, TokenRecord())
        self._last_warning: object = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._folder / f"{self._file_stem}.json"

    def read(self) -> TokenRecord:
        """What is kept; nothing where there is no file, or none that can be read."""
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
                state = os.fstat(file.fileno())
                self._check_owner_and_mode(self.path, state, "600")
                seen = (state.st_ino, state.st_mtime_ns, state.st_size)
                return (
                    self._cached[1]
                    if self._cached[0] == seen
                    else self._parse_and_cache(seen, file.read(MAX_TOKEN_FILE_BYTES))
                )

    def write(self, record: TokenRecord) -> None:
        """Keep it, whole or not at all. Where that cannot be, it is good for as long as this process runs."""
        try:
            seen = self._replace_file(
                json.dumps({"server": self._server_url, "user": self._user, **asdict(record)}).encode()
            )
        except OSError as error:
            log.warning("The sign-in to %s cannot be kept in %s: %s.", self._server_url, self._folder, error.strerror)
            seen = self._cached[0]
        self._cached = (seen, record)

    async def delete(self) -> bool:
        """Forget it; whether there was one."""
        async with self.lock("renew", 60.0):
            self._cached = (None, TokenRecord())
            for unfinished in self._folder.glob(f".{self._file_stem}.*.new"):
                _delete_if_present(unfinished)
            return _delete_if_present(self.path)

    @asynccontextmanager
    async def lock(self, purpose: LockPurpose, timeout: float) -> AsyncIterator[None]:
        """Alone among all tasks and processes: each opens the file anew, and so has a lock of its own."""
        import fcntl

        descriptor = self._open_lock_file(purpose)
        try:
            until = time.monotonic() + timeout
            while not _try_lock(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)):
                if time.monotonic() > until:
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
            log.warning("Sign-ins cannot be kept in %s: %s.", self._folder, error.strerror)
            raise Unavailable(f"A sign-in to {self._server_url} cannot be kept here. The log says why.") from None

    @contextmanager
    def _open_folder(self, *, create: bool = False) -> Iterator[int | None]:
        """The folder, which has to be its owner's alone; None where there is none."""
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
                    os.fchmod(file.fileno(), 0o600)
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                    state = os.fstat(file.fileno())
                os.replace(unfinished, f"{self._file_stem}.json", src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(unfinished, dir_fd=folder)
                raise
            return (state.st_ino, state.st_mtime_ns, state.st_size)

    def _parse_and_cache(self, file_state: object, data: bytes | None = None) -> TokenRecord:
        """What is in the file; what was only in memory counts until there is another file."""
        if data is None and self._cached[0] is None:
            return self._cached[1]
        sign_in = TokenRecord()
        if data is not None:
            try:
                sign_in = TokenRecord.from_json(json.loads(data))
            except ValueError:
                log.warning("The sign-in in %s is damaged, and counts as none.", self.path)
        self._cached = (file_state, sign_in)
        return sign_in

    def _check_owner_and_mode(self, path: Path, status: os.stat_result, mode: str) -> None:
        if status.st_uid != os.geteuid():
            raise self._unsafe_file_error(
                path, "it belongs to somebody else", f"remove it, or: chown {os.geteuid()} {path}"
            )
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise self._unsafe_file_error(path, "it is no file")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise self._unsafe_file_error(path, "others may read or change it", f"chmod {mode} {path}")

    def _unsafe_file_error(
        self, path: Path, reason: str, remedy: str = "remove it, and sign in again"
    ) -> UnsafeTokenFile:
        """The model is told that it cannot be used, and the log where it is and how to mend it: once."""
        if self._last_warning != (path, reason):
            log.warning("%s is not used: %s. Mend it: %s", path, reason, remedy)
            self._last_warning = (path, reason)
        return UnsafeTokenFile(
            f"The sign-in that is kept for {self._server_url} is not used: {reason}. The log says how to mend that."
        )

    def __repr__(self) -> str:
        return f"KeptFile({self._server_url!r}, user={self._user!r})"


_SAFE_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def _try_lock(lock: Any) -> bool:
    try:
        lock()
    except BlockingIOError:
        return False
    return True


def _delete_if_present(path: Path) -> bool:
    with suppress(FileNotFoundError):
        path.unlink()
        return True
    return False
