"""Opening beneath a folder: the kernel, and not a comparison of strings, keeps a path inside."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack

_OPENAT2_SYSCALL = 437
_RESOLVE_BENEATH, _RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = 0x08, 0x02, 0x04
_MAX_RACE_RETRIES = 16
"""How often the kernel may say "something moved while I looked" before we say so too."""
_MAX_LINKS_FOLLOWED = 40
"""As many as the kernel itself follows for one path."""
_COMMON_OPEN_FLAGS = (
    os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
)  # a FIFO must not make us wait, nor a terminal become ours
_O_PATH = getattr(os, "O_PATH", 0)
_DELETED_SUFFIX = " (deleted)"


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_libc = ctypes.CDLL(None, use_errno=True) if hasattr(ctypes, "CDLL") and os.name == "posix" else None
_has_openat2: list[bool | None] = [None if hasattr(os, "uname") and os.uname().sysname == "Linux" else False]
"""Whether the kernel has `openat2`; None until it was tried."""


def open_beneath(
    directory: int, parts: Sequence[str], flags: int = os.O_RDONLY, mode: int = 0, *, follow_links: bool = True
) -> int:
    """Open a path below a folder's descriptor; whatever leads outside raises `OSError(EXDEV)`.

    Without `links`, a link on the path raises `OSError(ELOOP)`, wherever it leads.
    """
    if any("\0" in part for part in parts):
        raise OSError(errno.EINVAL, "a path cannot hold a NUL")
    if _has_openat2[0] is None:
        _has_openat2[0] = _probe_openat2(directory)
    open_ = _openat2 if _has_openat2[0] else _open_step_by_step
    return open_(directory, parts, flags | _COMMON_OPEN_FLAGS, mode, follow_links)


def _probe_openat2(directory: int) -> bool:
    """Old kernels do not know the call, and some containers forbid what they do not know."""
    try:
        os.close(_openat2(directory, (), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, True))
    except OSError as error:
        return error.errno not in (errno.ENOSYS, errno.EPERM)
    return True


def _openat2(directory: int, parts: Sequence[str], flags: int, mode: int, follow_links: bool) -> int:
    assert _libc is not None
    if not flags & os.O_CREAT:
        mode = 0  # the kernel refuses a mode that it would not use
    if flags & _O_PATH:
        flags &= ~(os.O_NONBLOCK | os.O_NOCTTY)
    how = _OpenHow(
        flags, mode, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | (0 if follow_links else _RESOLVE_NO_SYMLINKS)
    )
    name = os.fsencode("/".join(parts) or ".")
    for _ in range(_MAX_RACE_RETRIES):
        opened: int = _libc.syscall(_OPENAT2_SYSCALL, directory, name, ctypes.byref(how), ctypes.sizeof(how))
        if opened >= 0:
            return opened
        if (number := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number))
    raise OSError(errno.EAGAIN, "the folders on this path keep moving")


def _open_step_by_step(directory: int, parts: Sequence[str], flags: int, mode: int, follow_links: bool) -> int:
    """The same for kernels without `openat2`: one component at a time, and links by hand."""
    with ExitStack() as opened:
        trail = [directory]
        ahead = [part for part in parts if part not in ("", ".")]
        left = _MAX_LINKS_FOLLOWED if follow_links else 0
        while ahead:
            name, last = ahead.pop(0), not ahead
            if name == "..":
                if len(trail) == 1:
                    raise OSError(errno.EXDEV, "the path leads outside")
                trail.pop()
                continue
            link = None if last and flags & os.O_NOFOLLOW else _read_link(trail[-1], name)
            if link is not None:
                if not left:
                    raise OSError(errno.ELOOP, "there are too many links")
                if link.startswith("/"):
                    raise OSError(errno.EXDEV, "the link leads outside")
                left -= 1
                ahead = [part for part in link.split("/") if part not in ("", ".")] + ahead
                continue
            if last:
                return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=trail[-1])
            # O_NOFOLLOW again: what was no link a moment ago may be one now.
            step = os.open(name, _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=trail[-1])
            opened.callback(os.close, step)
            trail.append(step)
        return os.open(".", flags & ~(os.O_CREAT | os.O_EXCL), mode, dir_fd=trail[-1])


def _read_link(directory: int, name: str) -> str | None:
    """Where a link points, or None for what is none."""
    try:
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            return os.readlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
    return None


def descriptor_path(descriptor: int) -> str | None:
    """Where an open file lies now, links resolved; None where the system does not say."""
    try:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return _path_by_fcntl(descriptor)
    if path.endswith(_DELETED_SUFFIX) and not _descriptor_is_at(descriptor, path):
        return path.removesuffix(_DELETED_SUFFIX)  # where it lay, until somebody put another in its place
    return path


def _descriptor_is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def _path_by_fcntl(descriptor: int) -> str | None:
    import fcntl

    try:
        told = fcntl.fcntl(descriptor, getattr(fcntl, "F_GETPATH", -1), bytes(1024))
    except OSError:
        return None
    return os.fsdecode(told.rstrip(b"\0"))


def rename_without_replacing(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
    """Rename, and raise `FileExistsError` rather than replace anything."""
    exclusive = getattr(_libc, "renameat2", None)
    if exclusive is not None:
        if exclusive(src_dir_fd, os.fsencode(old), dst_dir_fd, os.fsencode(new), 1) == 0:
            return
        if (number := ctypes.get_errno()) not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(number, os.strerror(number))
    try:
        os.stat(new, dir_fd=dst_dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
