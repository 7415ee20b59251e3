"""Trouble: what the operating system refuses, in words that a model can act on."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from surehand.core.errors import Denied, InvalidArguments, NotFound, ToolError, Unavailable
from surehand.core.names import nearest_names
from surehand.core.sanitize import escape_line

if TYPE_CHECKING:
    from surehand.workspace.path import WorkspacePath

_MAX_NAMES_COMPARED = 2000
"""Names of a folder that are compared with one that is not there."""
_ERRNO_REASONS = {
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "the path is too long",
    errno.EINVAL: "the path cannot be used",
    errno.ENXIO: "it is not a regular file",
    errno.ENOTEMPTY: "the folder is not empty",
    errno.EEXIST: "it exists already",
}


def to_tool_error(workspace_path: WorkspacePath, error: OSError) -> ToolError:
    """The error to raise for one of the system's at a place."""
    path = path_for_message(workspace_path)
    match error.errno:
        case errno.ENOENT:
            return NotFound(f"{path} was not found in the workspace.{_suggest_similar(workspace_path)}")
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


def path_for_message(path: WorkspacePath) -> str:
    """A path as an error names it: not endless."""
    return escape_line(path.display_path, 200)


def refuse_irregular(path: str, file_stat: os.stat_result, prefix: str = "") -> None:
    """Raise for what is no plain file."""
    if stat.S_ISDIR(file_stat.st_mode):
        raise InvalidArguments(f"{prefix}{path} is a folder. List it to see what is in it, or name a file.")
    if not stat.S_ISREG(file_stat.st_mode):
        raise InvalidArguments(f"{prefix}{path} is a {_file_kind_name(file_stat.st_mode)}, not a regular file.")


def _file_kind_name(mode: int) -> str:
    for test, word in ((stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"), (stat.S_ISLNK, "link")):
        if test(mode):
            return word
    return "device"


def _suggest_similar(path: WorkspacePath) -> str:
    """Names close to a missing one, where its folder is there."""
    try:
        known = path.parent.sample_names(_MAX_NAMES_COMPARED) if path.parts else []
        near = [name for name in nearest_names(path.name, known, 3) if name != path.name]
    except (ToolError, OSError):
        return ""
    return f" Did you mean {', '.join(path_for_message(path.parent / name) for name in near)}?" if near else ""
