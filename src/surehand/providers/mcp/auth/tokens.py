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
from surehand.providers.mcp.auth.kept import LOOK, SignIn, Turn

LARGEST = 1 << 20

log = logging.getLogger("surehand")


class Exposed(Denied):
    """Others could read, or could have written, what is kept."""

    executed = False


class Tokens:
    """Sign-ins in a folder, one file for each server and user; nobody is ever given another's."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(folder).expanduser() if folder is not None else state_folder() / "tokens"

    def of(self, server: str, user: str | None) -> KeptFile:
        """The sign-in of a user to the server at a URL; the user None is the person at this machine."""
        return KeptFile(self.folder, server, user)

    def __repr__(self) -> str:
        return f"Tokens({str(self.folder)!r})"


def state_folder() -> Path:
    """Where things are kept that cannot be had again without a person."""
    if named := os.environ.get("SUREHAND_STATE"):
        return Path(named).expanduser()
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "surehand"


def address(url: str) -> str:
    """A server's URL in the same words each time, without what could be a secret of its own."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    usual = {"http": 80, "https": 443}.get(parts.scheme.lower())
    port = "" if parts.port in (None, usual) else f":{parts.port}"
    return f"{parts.scheme.lower()}://{host}{port}{parts.path or '/'}"


class KeptFile:
    """One sign-in in a file of its own. What is in the file is read again when it has changed."""

    def __init__(self, folder: Path, server: str, user: str | None) -> None:
        self._folder, self._server, self._user = folder, address(server), user
        whose = json.dumps([self._server, urlsplit(server).query, user])
        self._name = sha256(whose.encode()).hexdigest()[:40]
        self._seen: tuple[object, SignIn] = (None, SignIn())
        self._told: object = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._folder / f"{self._name}.json"

    def read(self) -> SignIn:
        """What is kept; nothing where there is no file, or none that can be read."""
        with self._opened() as folder:
            if folder is None:
                return self._seen[1] if self._seen[0] is None else SignIn()
            try:
                descriptor = os.open(f"{self._name}.json", os.O_RDONLY | _SAFELY, dir_fd=folder)
            except FileNotFoundError:
                return self._as_seen(None)
            except OSError as error:
                raise self._exposed(self.path, f"it cannot be opened ({error.strerror})") from None
            with os.fdopen(descriptor, "rb") as file:
                state = os.fstat(file.fileno())
                self._check(self.path, state, "600")
                seen = (state.st_ino, state.st_mtime_ns, state.st_size)
                return self._seen[1] if self._seen[0] == seen else self._as_seen(seen, file.read(LARGEST))

    def write(self, sign_in: SignIn) -> None:
        """Keep it, whole or not at all. Where that cannot be, it is good for as long as this process runs."""
        try:
            seen = self._replace(json.dumps({"server": self._server, "user": self._user, **asdict(sign_in)}).encode())
        except OSError as error:
            log.warning("The sign-in to %s cannot be kept in %s: %s.", self._server, self._folder, error.strerror)
            seen = self._seen[0]
        self._seen = (seen, sign_in)

    async def forget(self) -> bool:
        """Forget it; whether there was one."""
        async with self.turn("renew", 60.0):
            self._seen = (None, SignIn())
            for unfinished in self._folder.glob(f".{self._name}.*.new"):
                _unlinked(unfinished)
            return _unlinked(self.path)

    @asynccontextmanager
    async def turn(self, what: Turn, patience: float) -> AsyncIterator[None]:
        """Alone among all tasks and processes: each opens the file anew, and so has a lock of its own."""
        import fcntl

        descriptor = self._lock_file(what)
        try:
            until = time.monotonic() + patience
            while not _taken(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)):
                if time.monotonic() > until:
                    raise Unavailable(f"Another program has been signing in to {self._server} for long. Try later.")
                await asyncio.sleep(LOOK)
            yield
        finally:
            os.close(descriptor)

    def _lock_file(self, what: Turn) -> int:
        try:
            with self._opened(make=True) as folder:
                return os.open(f"{self._name}.{what}", os.O_RDWR | os.O_CREAT | _SAFELY, 0o600, dir_fd=folder)
        except OSError as error:
            log.warning("Sign-ins cannot be kept in %s: %s.", self._folder, error.strerror)
            raise Unavailable(f"A sign-in to {self._server} cannot be kept here. The log says why.") from None

    @contextmanager
    def _opened(self, *, make: bool = False) -> Iterator[int | None]:
        """The folder, which has to be its owner's alone; None where there is none."""
        if make:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | _SAFELY)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise self._exposed(self._folder, f"it cannot be opened ({error.strerror})") from None
        try:
            self._check(self._folder, os.fstat(descriptor), "700")
            yield descriptor
        finally:
            os.close(descriptor)

    def _replace(self, text: bytes) -> object:
        with self._opened(make=True) as folder:
            unfinished = f".{self._name}.{secrets.token_hex(8)}.new"
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, 0o600, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    os.fchmod(file.fileno(), 0o600)
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                    state = os.fstat(file.fileno())
                os.replace(unfinished, f"{self._name}.json", src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(unfinished, dir_fd=folder)
                raise
            return (state.st_ino, state.st_mtime_ns, state.st_size)

    def _as_seen(self, seen: object, text: bytes | None = None) -> SignIn:
        """What is in the file; what was only in memory counts until there is another file."""
        if text is None and self._seen[0] is None:
            return self._seen[1]
        sign_in = SignIn()
        if text is not None:
            try:
                sign_in = SignIn.from_json(json.loads(text))
            except ValueError:
                log.warning("The sign-in in %s is damaged, and counts as none.", self.path)
        self._seen = (seen, sign_in)
        return sign_in

    def _check(self, path: Path, state: os.stat_result, mode: str) -> None:
        if state.st_uid != os.geteuid():
            raise self._exposed(path, "it belongs to somebody else", f"remove it, or: chown {os.geteuid()} {path}")
        if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
            raise self._exposed(path, "it is no file")
        if stat.S_IMODE(state.st_mode) & 0o077:
            raise self._exposed(path, "others may read or change it", f"chmod {mode} {path}")

    def _exposed(self, path: Path, why: str, mend: str = "remove it, and sign in again") -> Exposed:
        """The model is told that it cannot be used, and the log where it is and how to mend it: once."""
        if self._told != (path, why):
            log.warning("%s is not used: %s. Mend it: %s", path, why, mend)
            self._told = (path, why)
        return Exposed(
            f"The sign-in that is kept for {self._server} is not used: {why}. The log says how to mend that."
        )

    def __repr__(self) -> str:
        return f"KeptFile({self._server!r}, user={self._user!r})"


_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def _taken(lock: Any) -> bool:
    try:
        lock()
    except BlockingIOError:
        return False
    return True


def _unlinked(path: Path) -> bool:
    with suppress(FileNotFoundError):
        path.unlink()
        return True
    return False
