"""Manifest: what a server said when it was last listed, so that nothing has to be started to know its tools."""

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
"""Seconds after which it has to be asked again."""
_MAX_CLOCK_SKEW_SECONDS = 86_400.0
"""A manifest from the future would never grow old; clocks differ by less than a day."""

log = logging.getLogger("surehand")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a server said; two are equal if it said the same, whenever that was."""

    tools: tuple[Mapping[str, Any], ...] = ()
    """Definitions as on the wire."""
    prompts: tuple[Mapping[str, Any], ...] = ()
    instructions: str = ""
    server: Mapping[str, Any] = field(default_factory=dict)
    """Its name and version, as it says."""
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
        """The manifest of what was listed just now."""
        return cls(tuple(tools), tuple(prompts), instructions or "", server or {}, protocol or "", time.time())

    def to_json(self) -> dict[str, Any]:
        """As it is kept."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_json(cls, data: Any) -> Manifest:
        """What was kept; ValueError for anything else."""
        if not isinstance(data, dict) or data.keys() != {each.name for each in fields(cls)}:
            raise ValueError("it is no manifest")
        for name, kind in _FIELD_TYPES.items():
            if not isinstance(data[name], kind):
                raise ValueError(f"its {name} cannot be used")
        lists = {name: tuple(data[name]) for name in ("tools", "prompts")}
        if not all(isinstance(item, dict) for items in lists.values() for item in items):
            raise ValueError("a definition in it is none")
        return cls(**data | lists)


_FIELD_TYPES: Mapping[str, Any] = {
    "tools": list, "prompts": list, "instructions": str, "server": dict, "protocol": str,
    "listed_at": float | int,
}  # fmt: skip


def cache_directory() -> Path | None:
    """Where things are kept that can be asked for again; None where the user has no home."""
    if named := os.environ.get("SUREHAND_CACHE"):
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "surehand"
    except RuntimeError:
        return None


def identity_on_this_machine(identity: str) -> str:
    """Which server it is on this machine: a command may be another one in another folder, by the same words."""
    if not identity.startswith("stdio:"):
        return identity
    try:
        return f"{identity}\nin {os.getcwd()}"
    except OSError:
        return f"{identity}\nin a folder that is gone"


class ManifestCache:
    """Manifests in a folder of their own, by the places of their servers. A cache: it never raises, but logs."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        cache = cache_directory() if directory is None else None
        self._directory = Path(directory).expanduser() if directory is not None else cache / "mcp" if cache else None

    def load(self, identity: str) -> Manifest | None:
        """What the server said last; None if that is not known, too old, or cannot be trusted."""
        if (file := self._manifest_path(identity)) is None:
            return None
        try:
            manifest = _read_manifest(file, identity_on_this_machine(identity))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, RecursionError) as error:
            log.info("The manifest %s is not used: %s", file, _error_reason(error))
            return None
        age = time.time() - manifest.listed_at
        return manifest if -_MAX_CLOCK_SKEW_SECONDS < age < MAX_MANIFEST_AGE_SECONDS else None

    def save(self, identity: str, manifest: Manifest) -> None:
        """Keep it in place of what was kept before."""
        if (file := self._manifest_path(identity)) is None:
            return
        try:
            data = _serialize_manifest(identity_on_this_machine(identity), manifest)
            _create_directory(file.parent)
            _replace_file(file, data)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            log.warning("The manifest %s cannot be kept: %s", file, _error_reason(error))

    def delete(self, identity: str) -> None:
        """Keep it no longer."""
        if (file := self._manifest_path(identity)) is None:
            return
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            log.warning("The manifest %s cannot be removed: %s", file, _error_reason(error))

    def _manifest_path(self, identity: str) -> Path | None:
        name = sha256(identity_on_this_machine(identity).encode(errors="surrogatepass")).hexdigest()
        return self._directory / f"{name}.json" if self._directory else None


def _read_manifest(path: Path, machine_identity: str) -> Manifest:
    from pydantic_core import from_json

    _check_directory(path.parent)
    # A pipe would keep us waiting, and a link may lead to what somebody else writes.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(path, flags), "rb") as opened:
        _check_is_own_file(os.fstat(opened.fileno()))
        data = opened.read(MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise ValueError(f"it is larger than {MAX_MANIFEST_BYTES:,} bytes")
    found = from_json(data)
    if not isinstance(found, dict) or found.get("version") != MANIFEST_VERSION:
        raise ValueError("it is of another version")
    if found.get("identity") != machine_identity:
        raise ValueError("it is that of another server")
    return Manifest.from_json(found.get("manifest"))


def _check_is_own_file(file_status: os.stat_result) -> None:
    if not stat.S_ISREG(file_status.st_mode):
        raise ValueError("it is no file")
    _check_owner(file_status)
    if file_status.st_size > MAX_MANIFEST_BYTES:
        raise ValueError(f"it is larger than {MAX_MANIFEST_BYTES:,} bytes")


def _check_directory(directory: Path) -> None:
    """Whoever may write into the folder could put a file of ours in the place of another."""
    _check_owner(directory.stat(), "its folder")


def _check_owner(file_status: os.stat_result, subject: str = "it") -> None:
    if not hasattr(os, "geteuid"):
        return  # Windows: a user's own folders are that user's
    if file_status.st_uid != os.geteuid():
        raise ValueError(f"{subject} belongs to another user")
    if file_status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"others may write to {subject}")


def _serialize_manifest(machine_identity: str, manifest: Manifest) -> bytes:
    from pydantic_core import to_json

    kept = {"version": MANIFEST_VERSION, "identity": machine_identity, "manifest": manifest.to_json()}
    data = to_json(kept, inf_nan_mode="constants")
    if len(data) > MAX_MANIFEST_BYTES:
        raise ValueError(f"it would be larger than {MAX_MANIFEST_BYTES:,} bytes")
    return data


def _create_directory(directory: Path) -> None:
    for each in (*reversed(directory.parents), directory):
        if not each.exists():
            with suppress(FileExistsError):  # another process was quicker
                each.mkdir(mode=0o700)
    _check_directory(directory)


def _replace_file(path: Path, data: bytes) -> None:
    """The new one whole, or the old one."""
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
    """What went wrong, without the path, which is told already."""
    said = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
    return f"{said or type(error).__name__}."
