"""ReadVersions: which version of a file each session has read. `write` and `edit` refuse a file that changed since.

The versions are kept in memory, for the tools of one `files(...)`. A session's own changes count as read.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from surehand.core.context import Context
from surehand.core.errors import NotFound, ToolError
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import WorkspacePath

MAX_VERSIONS = 10_000
"""Files of all sessions together whose versions are known; the ones read longest ago are forgotten."""
MAX_COMPARED_BYTES = 1 << 20
"""Larger files are compared by their status instead of their content."""

_NO_STATUS = (0, 0, 0)
_VersionKey: TypeAlias = tuple[str | None, str | None, str, tuple[str, ...]]
"""User, session, root folder, and path below it."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The content of a file at one moment, as far as it can be told apart from another."""

    digest: bytes | None
    """None for a large file."""
    status: tuple[int, int, int]
    """When it was changed, its size and its inode."""

    @classmethod
    def of_descriptor(cls, descriptor: int) -> FileVersion:
        """The version of an open file."""
        status = os.fstat(descriptor)
        digest: bytes | None = None
        if status.st_size <= MAX_COMPARED_BYTES:
            digest = _digest(os.pread(descriptor, MAX_COMPARED_BYTES, 0))
        return cls(digest, (status.st_mtime_ns, status.st_size, status.st_ino))

    def has_same_content(self, other: FileVersion) -> bool:
        """Whether both are the same content."""
        if self.digest is not None and other.digest is not None:
            return self.digest == other.digest
        return self.status == other.status


class ReadVersions:
    """The versions that sessions have read. Calls without a user or a session share theirs."""

    def __init__(self) -> None:
        self._versions: OrderedDict[_VersionKey, FileVersion] = OrderedDict()
        self._lock = threading.Lock()  # handlers run in threads

    def remember(self, path: WorkspacePath, version: FileVersion, ctx: Context) -> None:
        """Note that the caller's session has read a version of a file."""
        key = _version_key(path, ctx)
        with self._lock:
            self._versions[key] = version
            self._versions.move_to_end(key)
            if len(self._versions) > MAX_VERSIONS:
                self._versions.popitem(last=False)

    def refuse_if_changed(self, path: WorkspacePath, ctx: Context) -> None:
        """Raise `conflict` if the caller's session has read another version of the file than is there now."""
        read_version = self._versions.get(_version_key(path, ctx))  # one look-up is atomic under the GIL: no lock
        if read_version is None:
            return
        try:
            with path.open_reader() as file:
                current_version = FileVersion.of_descriptor(file.fileno())
        except NotFound:
            return  # it was deleted since: there is nothing that a new file could overwrite
        if not read_version.has_same_content(current_version):
            problem = f"{path_for_message(path)} has changed since it was read. Nothing was changed now."
            raise ToolError(f"{problem} Read it again, and then decide what to change.", code="conflict")

    def remember_own_change(self, path: WorkspacePath, data: bytes, ctx: Context) -> None:
        """Note the content that the caller's session has just written, if it had read the file."""
        if _version_key(path, ctx) not in self._versions:
            return
        version = FileVersion(_digest(data), _NO_STATUS)
        if len(data) > MAX_COMPARED_BYTES:
            with path.open_reader() as file:
                version = FileVersion.of_descriptor(file.fileno())
        self.remember(path, version, ctx)

    def forget(self, path: WorkspacePath, ctx: Context) -> None:
        """Forget a file that the caller's session has moved, or replaced by moving another file there."""
        with self._lock:
            self._versions.pop(_version_key(path, ctx), None)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _version_key(path: WorkspacePath, ctx: Context) -> _VersionKey:
    real_path = path.resolve_links()
    return ctx.user, ctx.session, str(real_path.root.path), real_path.parts
