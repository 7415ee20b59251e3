"""The manifest of a server (tools, prompts, instructions), and the cache of manifests on disk.

With a cached manifest a runtime knows the tools of a server without starting it. The cache reads only files that no
other user can write.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

MANIFEST_VERSION = 2
MAX_MANIFEST_BYTES = 16 << 20
MAX_MANIFEST_AGE_SECONDS = 30 * 86_400.0
"""Age at which a cached manifest is ignored, and the server is asked again."""
_MAX_CLOCK_SKEW_SECONDS = 86_400.0
"""How far in the future a manifest may be dated. Without this limit one with a wrong date would never expire."""

log = logging.getLogger("surehand")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a server listed. Two manifests are equal if their content is, whenever they were listed."""

    tools: tuple[Mapping[str, Any], ...] = ()
    """Definitions as on the wire."""
    prompts: tuple[Mapping[str, Any], ...] = ()
    instructions: str = ""
    server: Mapping[str, Any] = field(default_factory=dict)
    """The `serverInfo` that it sent: name and version."""
    protocol: str = ""
    listed_at: float = field(default=0.0, compare=False)

    @classmethod
    def from_listing(
        cls,
        tools: Iterable[Mapping[str, Any]],
        prompts: Iterable[Mapping[str, Any]] = (),
        *,
        instructions: str | None = None,
        server: Mapping[str, Any] | None = None,
        protocol: str | None = None,
    ) -> Manifest:
        """Build a manifest that is listed now."""
        return cls(tuple(tools), tuple(prompts), instructions or "", server or {}, protocol or "", time.time())

    def to_json(self) -> dict[str, Any]:
        """The stored form; the names of the fields are part of it."""
        return {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}

    @classmethod
    def from_json(cls, data: Any) -> Manifest:
        """Parse the stored form. Raises `ValueError`."""
        if not isinstance(data, dict) or data.keys() != {attribute.name for attribute in fields(cls)}:
            raise ValueError("it is not a manifest")
        for name, kind in _FIELD_TYPES.items():
            if not isinstance(data[name], kind):
                raise ValueError(f"its {name} has the wrong type")
        lists = {name: tuple(data[name]) for name in ("tools", "prompts")}
        if not all(isinstance(item, dict) for items in lists.values() for item in items):
            raise ValueError("it contains a malformed definition")
        return cls(**data | lists)


_FIELD_TYPES: Mapping[str, Any] = {
    "tools": list, "prompts": list, "instructions": str, "server": dict, "protocol": str,
    "listed_at": float | int,
}  # fmt: skip


def cache_directory() -> Path | None:
    """The cache directory of this package; None if the user has no home directory."""
    if directory := os.environ.get("SUREHAND_CACHE"):
        return Path(directory).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "surehand"
    except RuntimeError:
        return None


def identity_on_this_machine(identity: str) -> str:
    """A server's identity on this machine: a relative command is another program in another working directory."""
    if not identity.startswith("stdio:"):
        return identity
    try:
        return f"{identity}\nin {os.getcwd()}"
    except OSError:
        return f"{identity}\nin a folder that is gone"


class ManifestCache:
    """A directory with one file per server. It is a cache: failures are logged and not raised."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._directory: Path | None = None
        if directory is not None:
            self._directory = Path(directory).expanduser()
        elif (cache := cache_directory()) is not None:
            self._directory = cache / "mcp"

    def load(self, identity: str) -> Manifest | None:
        """The last manifest of a server; None if it is missing, too old, or cannot be trusted."""
        path = self._manifest_path(identity)
        if path is None:
            return None
        try:
            manifest = _read_manifest(path, identity_on_this_machine(identity))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, RecursionError) as error:
            log.info("Ignored the cached manifest %s: %s", path, _error_reason(error))
            return None
        age = time.time() - manifest.listed_at
        return manifest if -_MAX_CLOCK_SKEW_SECONDS < age < MAX_MANIFEST_AGE_SECONDS else None

    def save(self, identity: str, manifest: Manifest) -> None:
        """Store a manifest in place of the earlier one."""
        path = self._manifest_path(identity)
        if path is None:
            return
        try:
            data = _serialize_manifest(identity_on_this_machine(identity), manifest)
            _create_directory(path.parent)
            _replace_file(path, data)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            log.warning("The manifest %s cannot be stored: %s", path, _error_reason(error))

    def delete(self, identity: str) -> None:
        """Remove the manifest of a server."""
        path = self._manifest_path(identity)
        if path is None:
            return
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("The manifest %s cannot be removed: %s", path, _error_reason(error))

    def _manifest_path(self, identity: str) -> Path | None:
        name = sha256(identity_on_this_machine(identity).encode(errors="surrogatepass")).hexdigest()
        return self._directory / f"{name}.json" if self._directory else None


def _read_manifest(path: Path, machine_identity: str) -> Manifest:
    from pydantic_core import from_json

    _check_directory(path.parent)
    # O_NONBLOCK: opening a named pipe would block. O_NOFOLLOW: a link may lead to a file of another user.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(path, flags), "rb") as opened:
        _check_is_own_file(os.fstat(opened.fileno()))
        data = opened.read(MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise ValueError(f"it is larger than {MAX_MANIFEST_BYTES:,} bytes")
    stored = from_json(data)
    if not isinstance(stored, dict) or stored.get("version") != MANIFEST_VERSION:
        raise ValueError("it has another version")
    if stored.get("identity") != machine_identity:
        raise ValueError("it belongs to another server")
    return Manifest.from_json(stored.get("manifest"))


def _check_is_own_file(file_status: os.stat_result) -> None:
    if not stat.S_ISREG(file_status.st_mode):
        raise ValueError("it is not a regular file")
    _check_owner(file_status)
    if file_status.st_size > MAX_MANIFEST_BYTES:
        raise ValueError(f"it is larger than {MAX_MANIFEST_BYTES:,} bytes")


def _check_directory(directory: Path) -> None:
    """A user who can write to the directory could replace the file."""
    _check_owner(directory.stat(), "its folder")


def _check_owner(file_status: os.stat_result, subject: str = "it") -> None:
    if not hasattr(os, "geteuid"):
        return  # Windows: only the user can write to the directories of its profile
    if file_status.st_uid != os.geteuid():
        raise ValueError(f"{subject} belongs to another user")
    if file_status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"others may write to {subject}")


def _serialize_manifest(machine_identity: str, manifest: Manifest) -> bytes:
    from pydantic_core import to_json

    stored = {"version": MANIFEST_VERSION, "identity": machine_identity, "manifest": manifest.to_json()}
    data = to_json(stored, inf_nan_mode="constants")
    if len(data) > MAX_MANIFEST_BYTES:
        raise ValueError(f"it would be larger than {MAX_MANIFEST_BYTES:,} bytes")
    return data


def _create_directory(directory: Path) -> None:
    for path in (*reversed(directory.parents), directory):
        if not path.exists():
            with suppress(FileExistsError):  # another process has created it in the meantime
                path.mkdir(mode=0o700)
    _check_directory(directory)


def _replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically: readers see the old content or the new."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _error_reason(error: Exception) -> str:
    """The message of an error without its path, which the log line has already."""
    message = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
    return f"{message or type(error).__name__}."
