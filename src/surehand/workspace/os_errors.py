"""Translates errors of the operating system at a workspace path into `ToolError`s that a model can act on."""

from __future__ import annotations

import errno
import os
import stat
from typing import Protocol, Self

from surehand.core.errors import Denied, InvalidArguments, NotFound, ToolError, Unavailable
from surehand.core.names import nearest_names
from surehand.core.sanitize import escape_line

_MAX_NAMES_COMPARED = 2000
"""Names of a directory that are compared with a missing one."""
_MAX_PATH_LENGTH = 200
"""Characters of a path in an error message."""
_ERRNO_REASONS = {
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "the path is too long",
    errno.EINVAL: "the path cannot be used",
    errno.ENXIO: "it is not a regular file",
    errno.ENOTEMPTY: "the folder is not empty",
    errno.EEXIST: "it exists already",
}


class DisplayablePath(Protocol):
    """A path that messages can name; `WorkspacePath` is one."""

    @property
    def display_path(self) -> str: ...


class SearchablePath(DisplayablePath, Protocol):
    """A path whose directory can be searched for similar names; `WorkspacePath` is one."""

    @property
    def parts(self) -> tuple[str, ...]: ...
    @property
    def name(self) -> str: ...
    @property
    def parent(self) -> Self: ...
    def sample_names(self, limit: int) -> list[str]: ...
    def __truediv__(self, name: str) -> Self: ...


def to_tool_error(failed_path: SearchablePath, error: OSError) -> ToolError:
    """Return the error to raise for an `OSError` at a path."""
    path = path_for_message(failed_path)
    match error.errno:
        case errno.ENOENT:
            return NotFound(f"{path} was not found in the workspace.{_suggest_similar(failed_path)}")
        case errno.EXDEV:
            return Denied(f"Permission denied: {path} goes through a link that leads outside the workspace.")
        case errno.ELOOP:
            return Denied(f"Permission denied: {path} goes through links that lead in a circle, or to too many others.")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return Denied(f"Permission denied: the operating system does not allow that for {path}.")
        case errno.EEXIST | errno.ENOTEMPTY:
            return ToolError(f"{path}: {_ERRNO_REASONS[error.errno]}.", code="conflict")
        case errno.EAGAIN:
            return Unavailable(f"{path} is being moved about. Try again.")
        case errno.EMFILE | errno.ENFILE:
            return Unavailable(f"{path} cannot be opened: too many files are open. Try again.")
        case errno.ENOTDIR | errno.EISDIR | errno.ENAMETOOLONG | errno.EINVAL | errno.ENXIO:
            return InvalidArguments(f"{path}: {_ERRNO_REASONS[error.errno]}.")
        case errno.ENOSPC | errno.EDQUOT:
            return ToolError(f"There is no room left on the disk for {path}. Nothing was changed.")
    return ToolError(f"{path}: {error.strerror or type(error).__name__}.")


def path_for_message(path: DisplayablePath) -> str:
    """The path for an error message, cut to a bounded length."""
    return escape_line(path.display_path, _MAX_PATH_LENGTH)


def refuse_irregular(path: str, file_stat: os.stat_result, prefix: str = "") -> None:
    """Raise `InvalidArguments` unless the status is that of a regular file."""
    if stat.S_ISDIR(file_stat.st_mode):
        raise InvalidArguments(f"{prefix}{path} is a folder. List it to see what is in it, or name a file.")
    if not stat.S_ISREG(file_stat.st_mode):
        raise InvalidArguments(f"{prefix}{path} is a {_file_kind_name(file_stat.st_mode)}, not a regular file.")


def _file_kind_name(mode: int) -> str:
    for test, word in ((stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"), (stat.S_ISLNK, "link")):
        if test(mode):
            return word
    return "device"


def _suggest_similar(missing: SearchablePath) -> str:
    """A sentence with names of the same directory that resemble the missing one; empty without any."""
    try:
        names = missing.parent.sample_names(_MAX_NAMES_COMPARED) if missing.parts else []
        similar = [name for name in nearest_names(missing.name, names, 3) if name != missing.name]
    except (ToolError, OSError):
        return ""
    if not similar:
        return ""
    paths = ", ".join(path_for_message(missing.parent / name) for name in similar)
    return f" Did you mean {paths}?"
