"""Memory folder: Markdown files in one folder, and in folders directly in it."""

from __future__ import annotations

import os
import posixpath
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError, Denied, InvalidArguments, NotFound, ToolError, Unavailable
from surehand.core.outcome import Done
from surehand.workspace.path import DirectoryEntry, WorkspacePath
from surehand.workspace.workspace import Workspace

SUMMARY_PREFIX = "> Summary:"
_CODE_FENCE = re.compile(r" {0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")


def find_summary(text: str) -> str | None:
    """What the first such line says; None where there is none."""
    line = next((line for _, line in _prose_lines(text.splitlines()) if line.startswith(SUMMARY_PREFIX)), None)
    return None if line is None else line[len(SUMMARY_PREFIX) :].strip()


def set_summary(text: str, summary: str) -> str:
    """The text with that summary: in place of the old one, else below the first heading, else at the top."""
    lines, told = text.splitlines(keepends=True), f"{SUMMARY_PREFIX} {' '.join(summary.split())}"
    prose = list(_prose_lines(lines))
    for number, line in prose:
        if line.startswith(SUMMARY_PREFIX):
            lines[number] = told + _line_ending(line)
            return "".join(lines)
    heading = next(((number, line) for number, line in prose if _HEADING.match(line)), None)
    if heading is None:
        return f"{told}\n\n{text}" if text else f"{told}\n"
    number, line = heading
    end = _line_ending(line) or "\n"
    lines[number] = f"{line.rstrip()}{end}{end}{told}{end}"
    return "".join(lines)


def _line_ending(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _prose_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without those of code: a comment there looks like a heading."""
    fence = None
    for number, line in enumerate(lines):
        mark = found[1] if (found := _CODE_FENCE.match(line)) else None
        if fence is None and mark is None:
            yield number, line
        elif fence is None:
            fence = mark
        elif mark == fence:
            fence = None


LOCK_TIMEOUT_SECONDS = 5.0
"""Seconds to wait for another change."""

MAX_FILE_BYTES = 1 << 20
"""Bytes of one file."""
_SUMMARY_SEARCH_BYTES = 8_192
"""Bytes in which a summary is looked for."""
_MAX_LISTED_FILES = 2_000
"""Files that are listed."""


class MemoryFolder:
    """Markdown files that models read and write, and nothing else."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._workspace = _open_workspace(folder)

    def list_files(self, is_cancelled: Callable[[], bool]) -> list[dict[str, Any]]:
        """Every file with its summary and size, by path."""
        found: list[dict[str, Any]] = []
        for spot, entry in self._memory_files():
            if is_cancelled() or len(found) >= _MAX_LISTED_FILES:
                break
            found.append({"path": spot.display_path, "summary": _read_summary(spot), "size": entry.size})
        return sorted(found, key=lambda file: file["path"])

    def _memory_files(self) -> Iterator[tuple[WorkspacePath, DirectoryEntry]]:
        root = WorkspacePath(self._workspace, self._workspace.roots[0], ())
        folders = [root]
        for spot, entry in _scan_folder(root):
            if entry.is_directory:
                folders.append(spot)
        for folder in folders:
            yield from ((spot, e) for spot, e in _scan_folder(folder) if e.name.endswith(".md") and not e.is_directory)

    def read(self, path: str) -> str:
        """The text of a file."""
        with _memory_errors(path):
            return _read_text(self.resolve_path(path), path)

    def write(self, path: str, text: str) -> dict[str, Any]:
        """Put a text in place of what was there."""
        with self._exclusive_lock(), _memory_errors(path):
            return _write_text(self.resolve_path(path), path, text)

    def edit(self, path: str, edit_text: Callable[[str | None], str]) -> dict[str, Any]:
        """Replace a file by what a function makes of its text, None if there is none; no other change gets between."""
        with self._exclusive_lock(), _memory_errors(path):
            spot = self.resolve_path(path)
            try:
                old: str | None = _read_text(spot, path)
            except NotFound:
                old = None
            return _write_text(spot, path, edit_text(old))

    def verify_change(self, path: str, was_applied: Callable[[str], bool | None]) -> Done | bool | None:
        """What a process that died while it changed a file left behind, told from the file's text."""
        try:
            text = self.read(path)
        except NotFound:
            return False
        if not (found := was_applied(text)):
            return found
        return Done({"path": self.resolve_path(path).display_path, "size": len(text.encode())})

    def resolve_path(self, path: str) -> WorkspacePath:
        """The place of a memory; nothing is opened yet."""
        inside = posixpath.normpath(path) if path.strip() else ""
        if inside == ".." or inside.startswith(("../", "/")) or "\0" in inside:
            raise _path_escape_error(path)
        parts = inside.split("/")
        hidden = any(part.startswith(".") for part in parts) or not inside.isprintable()
        if len(parts) > 2 or hidden or not inside.endswith(".md"):
            raise InvalidArguments(
                f"{path[:200]!r} is no memory. Name a Markdown file, in one folder at most: 'facts/people.md'."
            )
        return self._workspace.resolve(inside)

    @contextmanager
    def _exclusive_lock(self) -> Iterator[None]:
        """One change at a time, of all threads and processes: each opens the folder anew, and so has its own lock."""
        import fcntl

        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(".", flags, dir_fd=self._workspace.roots[0].descriptor)
        try:
            _acquire_lock(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB))
            yield
        finally:
            os.close(descriptor)


def _acquire_lock(try_lock: Callable[[], None]) -> None:
    """Whoever holds it writes one small file; a lock that is held for longer is somebody's mistake, or worse."""
    until = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            return try_lock()
        except BlockingIOError:
            if time.monotonic() > until:
                raise Unavailable(
                    "Another program keeps the memories locked. Nothing was changed; try later."
                ) from None
            time.sleep(0.01)


def _open_workspace(folder: str | PathLike[str]) -> Workspace:
    path = Path(folder).expanduser()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        problem = (error.strerror or type(error).__name__).lower()
        raise DefinitionError(f"The memory folder {path} cannot be made: {problem}.", fix="name a folder.") from None
    return Workspace(path, sensitive=())  # what a memory is called says nothing about who may read it


def _scan_folder(folder: WorkspacePath) -> list[tuple[WorkspacePath, DirectoryEntry]]:
    try:
        return [(folder / entry.name, entry) for entry in folder.scan_directory(include_hidden=False)]
    except ToolError:
        return []  # gone, or a file by now


def _read_summary(file_path: WorkspacePath) -> str | None:
    try:
        with file_path.open_reader() as file:
            told = find_summary(file.read(_SUMMARY_SEARCH_BYTES).decode(errors="ignore"))
    except (ToolError, OSError):
        return None
    return told[:300] if told else told


def _read_text(file_path: WorkspacePath, name: str) -> str:
    with file_path.open_reader() as file:
        raw = file.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise ToolError(f"{name} is larger than {MAX_FILE_BYTES:,} bytes.", code="too_large")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{name} is no UTF-8 text ({error.reason} at byte {error.start}).") from None


def _write_text(file_path: WorkspacePath, name: str, text: str) -> dict[str, Any]:
    raw = text.encode()
    if len(raw) > MAX_FILE_BYTES:
        problem = f"{name} would have {len(raw):,} bytes, and {MAX_FILE_BYTES:,} are the most. Begin another file."
        raise ToolError(problem, code="too_large")
    file_path.write_atomically(raw)
    return {"path": file_path.display_path, "size": len(raw)}


@contextmanager
def _memory_errors(path: str) -> Iterator[None]:
    """What goes wrong with a memory, in the words of memories."""
    try:
        yield
    except NotFound:
        raise NotFound(f"There is no memory {path[:200]!r}. memory_list shows what there is.") from None
    except Denied as error:
        raise (_path_escape_error(path) if "outside" in str(error) else error) from None


def _path_escape_error(path: str) -> Denied:
    return Denied(f'Path "{path[:200]}" escapes memory directory')
