"""The folder behind the `memory` tools: Markdown files in it and in its direct subfolders, and their summary lines."""

from __future__ import annotations

import os
import posixpath
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

from surehand.builtin.user_folder import user_folder
from surehand.core.context import Context
from surehand.core.errors import DefinitionError, Denied, InvalidArguments, NotFound, ToolError, Unavailable
from surehand.core.outcome import Done
from surehand.workspace.path import DirectoryEntry, WorkspacePath
from surehand.workspace.workspace import Workspace

SUMMARY_PREFIX = "> Summary:"
_CODE_FENCE = re.compile(r" {0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")

LOCK_TIMEOUT_SECONDS = 5.0
"""How long a change waits for another one to finish."""
MAX_FILE_BYTES = 1 << 20
_SUMMARY_SEARCH_BYTES = 8_192
"""Bytes at the start of a file in which its summary is looked for."""
_MAX_SUMMARY_LENGTH = 300
_MAX_LISTED_FILES = 2_000
_MAX_OPEN_FOLDERS = 64


class MemoryFolders:
    """The folders of all users: the shared folder for calls without a user, and one subfolder for each user."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._path = Path(folder).expanduser().absolute()
        # An open folder is a file descriptor, so only those used last stay open; a folder that drops out is closed
        # as soon as no call uses it.
        self._open = lru_cache(maxsize=_MAX_OPEN_FOLDERS)(MemoryFolder)
        self._open(self._path)

    def of_call(self, ctx: Context) -> MemoryFolder:
        """The files of the user that a call is made for, in the folder that its scope sets."""
        shared = self._path if ctx.memory_dir is None else Path(ctx.memory_dir)
        try:
            return self._open(user_folder(shared, ctx.user))
        except DefinitionError as error:
            raise Unavailable(f"{error.problem} Nothing was read or changed.") from error


class MemoryFolder:
    """Reads and writes Markdown files in one folder. Changes of several threads and processes exclude each other."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._workspace = _open_workspace(folder)

    def list_files(self, is_cancelled: Callable[[], bool]) -> list[dict[str, Any]]:
        """List the files with summary and size, sorted by path."""
        files: list[dict[str, Any]] = []
        for path, entry in self._memory_files():
            if is_cancelled() or len(files) >= _MAX_LISTED_FILES:
                break
            files.append({"path": path.display_path, "summary": _read_summary(path), "size": entry.size})
        return sorted(files, key=lambda file: file["path"])

    def _memory_files(self) -> Iterator[tuple[WorkspacePath, DirectoryEntry]]:
        root = WorkspacePath(self._workspace, self._workspace.roots[0], ())
        subfolders = [path for path, entry in _scan_folder(root) if entry.is_directory]
        for folder in [root, *subfolders]:
            for path, entry in _scan_folder(folder):
                if entry.name.endswith(".md") and not entry.is_directory:
                    yield path, entry

    def read(self, path: str) -> str:
        """Read the text of a file."""
        with _memory_errors(path):
            return _read_text(self.resolve_path(path), path)

    def write(self, path: str, text: str) -> dict[str, Any]:
        """Write a file, replacing its old text."""
        with self._exclusive_lock(), _memory_errors(path):
            return _write_text(self.resolve_path(path), path, text)

    def edit(self, path: str, edit_text: Callable[[str | None], str]) -> dict[str, Any]:
        """Replace the text of a file by a function of it (None for a missing file), with no other change in between."""
        with self._exclusive_lock(), _memory_errors(path):
            file_path = self.resolve_path(path)
            try:
                old_text: str | None = _read_text(file_path, path)
            except NotFound:
                old_text = None
            return _write_text(file_path, path, edit_text(old_text))

    def verify_change(self, path: str, was_applied: Callable[[str], bool | None]) -> Done | bool | None:
        """Decide from the text of a file whether a process that died had made its change; None if unknown."""
        try:
            text = self.read(path)
        except NotFound:
            return False
        applied = was_applied(text)
        if not applied:
            return applied
        return Done({"path": self.resolve_path(path).display_path, "size": len(text.encode())})

    def resolve_path(self, path: str) -> WorkspacePath:
        """Validate the path of a memory file, without opening it."""
        normalized = posixpath.normpath(path) if path.strip() else ""
        if normalized == ".." or normalized.startswith(("../", "/")) or "\0" in normalized:
            raise _path_escape_error(path)
        parts = normalized.split("/")
        is_hidden = any(part.startswith(".") for part in parts) or not normalized.isprintable()
        if len(parts) > 2 or is_hidden or not normalized.endswith(".md"):
            raise InvalidArguments(
                f"{path[:200]!r} is no memory. Name a Markdown file, in one folder at most: 'facts/people.md'."
            )
        return self._workspace.resolve(normalized)

    @contextmanager
    def _exclusive_lock(self) -> Iterator[None]:
        """Allow one change at a time, over all threads and processes.

        A `flock` belongs to an open file description, so each change opens the folder anew: two threads that shared
        one descriptor would not exclude each other.
        """
        import fcntl  # not available on Windows, where these tools can still be defined

        # The lock is on the folder itself: a lock file could be deleted, or shown as a memory.
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(".", flags, dir_fd=self._workspace.roots[0].descriptor)
        try:
            _acquire_lock(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB))
            yield
        finally:
            os.close(descriptor)


def _acquire_lock(try_lock: Callable[[], None]) -> None:
    """Retry until the lock is free. Its holder writes one small file, so a long wait means that something is wrong."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            return try_lock()
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Unavailable(
                    "Another program keeps the memories locked. Nothing was changed; try later."
                ) from None
            time.sleep(0.01)  # blocks: handlers of memory tools run in a thread


def _open_workspace(folder: str | PathLike[str]) -> Workspace:
    path = Path(folder).expanduser()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        problem = (error.strerror or type(error).__name__).lower()
        raise DefinitionError(
            f"The memory folder {path} cannot be created: {problem}.", fix="pass a folder that can be created."
        ) from None
    # A memory called `secrets.md` is no credential file: the names that a workspace treats as sensitive do not apply.
    return Workspace(path, sensitive=(), is_limited=False)


def _scan_folder(folder: WorkspacePath) -> list[tuple[WorkspacePath, DirectoryEntry]]:
    try:
        return [(folder / entry.name, entry) for entry in folder.scan_directory(include_hidden=False)]
    except ToolError:
        return []  # deleted or replaced by a file since it was listed


def _read_summary(file_path: WorkspacePath) -> str | None:
    try:
        with file_path.open_reader() as file:
            summary = find_summary(file.read(_SUMMARY_SEARCH_BYTES).decode(errors="ignore"))
    except (ToolError, OSError):
        return None
    return summary[:_MAX_SUMMARY_LENGTH] if summary else summary


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
    """Replace errors of the workspace by errors that speak of memories."""
    try:
        yield
    except NotFound:
        raise NotFound(f"There is no memory {path[:200]!r}. memory_list shows what there is.") from None
    except Denied as error:
        raise (_path_escape_error(path) if "outside" in str(error) else error) from None


def _path_escape_error(path: str) -> Denied:
    return Denied(f'Path "{path[:200]}" escapes memory directory')


def find_summary(text: str) -> str | None:
    """The text of the first summary line, or None."""
    for _, line in _prose_lines(text.splitlines()):
        if line.startswith(SUMMARY_PREFIX):
            return line[len(SUMMARY_PREFIX) :].strip()
    return None


def set_summary(text: str, summary: str) -> str:
    """Replace the summary line of a text, or insert one below the first heading, or else at the top."""
    lines = text.splitlines(keepends=True)
    summary_line = f"{SUMMARY_PREFIX} {' '.join(summary.split())}"
    prose = list(_prose_lines(lines))
    for number, line in prose:
        if line.startswith(SUMMARY_PREFIX):
            lines[number] = summary_line + _line_ending(line)
            return "".join(lines)
    heading = next(((number, line) for number, line in prose if _HEADING.match(line)), None)
    if heading is None:
        return f"{summary_line}\n\n{text}" if text else f"{summary_line}\n"
    number, line = heading
    newline = _line_ending(line) or "\n"
    lines[number] = f"{line.rstrip()}{newline}{newline}{summary_line}{newline}"
    return "".join(lines)


def _line_ending(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _prose_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines outside fenced code, with their numbers: in code, a comment would look like a heading."""
    open_fence = None
    for number, line in enumerate(lines):
        match = _CODE_FENCE.match(line)
        fence = match[1] if match else None
        if open_fence is None and fence is None:
            yield number, line
        elif open_fence is None:
            open_fence = fence
        elif fence == open_fence:
            open_fence = None
