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

VERSION = 2
LARGEST = 16 << 20
OLDEST = 30 * 86_400.0
"""Seconds after which it has to be asked again."""
_AHEAD = 86_400.0
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
    def from_json(cls, found: Any) -> Manifest:
        """What was kept; ValueError for anything else."""
        if not isinstance(found, dict) or found.keys() != {each.name for each in fields(cls)}:
            raise ValueError("it is no manifest")
        for name, kind in _KINDS.items():
            if not isinstance(found[name], kind):
                raise ValueError(f"its {name} cannot be used")
        lists = {name: tuple(found[name]) for name in ("tools", "prompts")}
        if not all(isinstance(item, dict) for items in lists.values() for item in items):
            raise ValueError("a definition in it is none")
        return cls(**found | lists)


_KINDS: Mapping[str, Any] = {
    "tools": list, "prompts": list, "instructions": str, "server": dict, "protocol": str,
    "listed_at": float | int,
}  # fmt: skip


def cache_folder() -> Path | None:
    """Where things are kept that can be asked for again; None where the user has no home."""
    if named := os.environ.get("SUREHAND_CACHE"):
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "surehand"
    except RuntimeError:
        return None


def place_of(identity: str) -> str:
    """Which server it is on this machine: a command may be another one in another folder, by the same words."""
    if not identity.startswith("stdio:"):
        return identity
    try:
        return f"{identity}\nin {os.getcwd()}"
    except OSError:
        return f"{identity}\nin a folder that is gone"


class Manifests:
    """Manifests in a folder of their own, by the places of their servers. A cache: it never raises, but logs."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        cache = cache_folder() if folder is None else None
        self._folder = Path(folder).expanduser() if folder is not None else cache / "mcp" if cache else None

    def load(self, identity: str) -> Manifest | None:
        """What the server said last; None if that is not known, too old, or cannot be trusted."""
        if (file := self._file(identity)) is None:
            return None
        try:
            manifest = _read(file, place_of(identity))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, RecursionError) as error:
            log.info("The manifest %s is not used: %s", file, _reason(error))
            return None
        age = time.time() - manifest.listed_at
        return manifest if -_AHEAD < age < OLDEST else None

    def save(self, identity: str, manifest: Manifest) -> None:
        """Keep it in place of what was kept before."""
        if (file := self._file(identity)) is None:
            return
        try:
            data = _written(place_of(identity), manifest)
            _make_folder(file.parent)
            _replace(file, data)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            log.warning("The manifest %s cannot be kept: %s", file, _reason(error))

    def forget(self, identity: str) -> None:
        """Keep it no longer."""
        if (file := self._file(identity)) is None:
            return
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            log.warning("The manifest %s cannot be removed: %s", file, _reason(error))

    def _file(self, identity: str) -> Path | None:
        name = sha256(place_of(identity).encode(errors="surrogatepass")).hexdigest()
        return self._folder / f"{name}.json" if self._folder else None


def _read(file: Path, place: str) -> Manifest:
    from pydantic_core import from_json

    _check_folder(file.parent)
    # A pipe would keep us waiting, and a link may lead to what somebody else writes.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(file, flags), "rb") as opened:
        _check_file(os.fstat(opened.fileno()))
        data = opened.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST:,} bytes")
    found = from_json(data)
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise ValueError("it is of another version")
    if found.get("identity") != place:
        raise ValueError("it is that of another server")
    return Manifest.from_json(found.get("manifest"))


def _check_file(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no file")
    _check_owner(found)
    if found.st_size > LARGEST:
        raise ValueError(f"it is larger than {LARGEST:,} bytes")


def _check_folder(folder: Path) -> None:
    """Whoever may write into the folder could put a file of ours in the place of another."""
    _check_owner(folder.stat(), "its folder")


def _check_owner(found: os.stat_result, what: str = "it") -> None:
    if not hasattr(os, "geteuid"):
        return  # Windows: a user's own folders are that user's
    if found.st_uid != os.geteuid():
        raise ValueError(f"{what} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"others may write to {what}")


def _written(place: str, manifest: Manifest) -> bytes:
    from pydantic_core import to_json

    kept = {"version": VERSION, "identity": place, "manifest": manifest.to_json()}
    data = to_json(kept, inf_nan_mode="constants")
    if len(data) > LARGEST:
        raise ValueError(f"it would be larger than {LARGEST:,} bytes")
    return data


def _make_folder(folder: Path) -> None:
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            with suppress(FileExistsError):  # another process was quicker
                each.mkdir(mode=0o700)
    _check_folder(folder)


def _replace(file: Path, data: bytes) -> None:
    """The new one whole, or the old one."""
    temporary = file.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(data)
        os.replace(temporary, file)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _reason(error: Exception) -> str:
    """What went wrong, without the path, which is told already."""
    said = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
    return f"{said or type(error).__name__}."
