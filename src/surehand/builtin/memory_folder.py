"""Memory folder: Markdown files in one folder, and in folders directly in it."""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from surehand.builtin.spot import Entry, Spot
from surehand.builtin.summary import summary_of
from surehand.builtin.workspace import Workspace
from surehand.core.errors import DefinitionError, Denied, InvalidArguments, NotFound, ToolError, Unavailable
from surehand.core.outcome import Done

PATIENCE = 5.0
"""Seconds to wait for another change."""

LARGEST = 1 << 20
"""Bytes of one file."""
_HEAD = 8_192
"""Bytes in which a summary is looked for."""
_MOST = 2_000
"""Files that are listed."""


class MemoryFolder:
    """Markdown files that models read and write, and nothing else."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._workspace = _opened(folder)

    def listed(self, stop: Callable[[], bool]) -> list[dict[str, Any]]:
        """Every file with its summary and size, by path."""
        found: list[dict[str, Any]] = []
        for spot, entry in self._files():
            if stop() or len(found) >= _MOST:
                break
            found.append({"path": spot.shown, "summary": _summary(spot), "size": entry.size})
        return sorted(found, key=lambda file: file["path"])

    def _files(self) -> Iterator[tuple[Spot, Entry]]:
        root = Spot(self._workspace, self._workspace.folders[0], ())
        folders = [root]
        for spot, entry in _seen(root):
            if entry.is_folder:
                folders.append(spot)
        for folder in folders:
            yield from ((spot, e) for spot, e in _seen(folder) if e.name.endswith(".md") and not e.is_folder)

    def read(self, path: str) -> str:
        """The text of a file."""
        with _told(path):
            return _text(self.spot(path), path)

    def write(self, path: str, text: str) -> dict[str, Any]:
        """Put a text in place of what was there."""
        with self._alone(), _told(path):
            return _written(self.spot(path), path, text)

    def change(self, path: str, change: Callable[[str | None], str]) -> dict[str, Any]:
        """Replace a file by what a function makes of its text, None if there is none; no other change gets between."""
        with self._alone(), _told(path):
            spot = self.spot(path)
            try:
                old: str | None = _text(spot, path)
            except NotFound:
                old = None
            return _written(spot, path, change(old))

    def verified(self, path: str, happened: Callable[[str], bool | None]) -> Done | bool | None:
        """What a process that died while it changed a file left behind, told from the file's text."""
        try:
            text = self.read(path)
        except NotFound:
            return False
        if not (found := happened(text)):
            return found
        return Done({"path": self.spot(path).shown, "size": len(text.encode())})

    def spot(self, path: str) -> Spot:
        """The place of a memory; nothing is opened yet."""
        inside = posixpath.normpath(path) if path.strip() else ""
        if inside == ".." or inside.startswith(("../", "/")) or "\0" in inside:
            raise _escapes(path)
        parts = inside.split("/")
        hidden = any(part.startswith(".") for part in parts) or not inside.isprintable()
        if len(parts) > 2 or hidden or not inside.endswith(".md"):
            raise InvalidArguments(
                f"{path[:200]!r} is no memory. Name a Markdown file, in one folder at most: 'facts/people.md'."
            )
        return self._workspace.spot(inside)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One change at a time, of all threads and processes: each opens the folder anew, and so has its own lock."""
        import fcntl

        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(".", flags, dir_fd=self._workspace.folders[0].descriptor)
        try:
            _take(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB))
            yield
        finally:
            os.close(descriptor)


def _take(lock: Callable[[], None]) -> None:
    """Whoever holds it writes one small file; a lock that is held for longer is somebody's mistake, or worse."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return lock()
        except BlockingIOError:
            if time.monotonic() > until:
                raise Unavailable(
                    "Another program keeps the memories locked. Nothing was changed; try later."
                ) from None
            time.sleep(0.01)


def _opened(folder: str | PathLike[str]) -> Workspace:
    path = Path(folder).expanduser()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        problem = (error.strerror or type(error).__name__).lower()
        raise DefinitionError(f"The memory folder {path} cannot be made: {problem}.", fix="name a folder.") from None
    return Workspace(path, sensitive=())  # what a memory is called says nothing about who may read it


def _seen(folder: Spot) -> list[tuple[Spot, Entry]]:
    try:
        return [(folder / entry.name, entry) for entry in folder.scan(hidden=False)]
    except ToolError:
        return []  # gone, or a file by now


def _summary(spot: Spot) -> str | None:
    try:
        with spot.reader() as file:
            told = summary_of(file.read(_HEAD).decode(errors="ignore"))
    except (ToolError, OSError):
        return None
    return told[:300] if told else told


def _text(spot: Spot, path: str) -> str:
    with spot.reader() as file:
        raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise ToolError(f"{path} is larger than {LARGEST:,} bytes.", code="too_large")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is no UTF-8 text ({error.reason} at byte {error.start}).") from None


def _written(spot: Spot, path: str, text: str) -> dict[str, Any]:
    raw = text.encode()
    if len(raw) > LARGEST:
        problem = f"{path} would have {len(raw):,} bytes, and {LARGEST:,} are the most. Begin another file."
        raise ToolError(problem, code="too_large")
    spot.replace(raw)
    return {"path": spot.shown, "size": len(raw)}


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What goes wrong with a memory, in the words of memories."""
    try:
        yield
    except NotFound:
        raise NotFound(f"There is no memory {path[:200]!r}. memory_list shows what there is.") from None
    except Denied as error:
        raise (_escapes(path) if "outside" in str(error) else error) from None


def _escapes(path: str) -> Denied:
    return Denied(f'Path "{path[:200]}" escapes memory directory')
