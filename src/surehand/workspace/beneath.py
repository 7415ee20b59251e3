"""Opens paths beneath a directory's descriptor: the kernel, and not a comparison of strings, keeps a path inside.

Also asks the kernel where an open file lies, and renames without replacing. Used by `path.py` and the tools that keep
their own directories.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack

# Python has no function for openat2(2). The number is the same on x86-64 and on ARM.
_OPENAT2_SYSCALL = 437
_RESOLVE_BENEATH = 0x08
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RENAME_NOREPLACE = 1
_MAX_RACE_RETRIES = 16
"""Attempts while `openat2` reports EAGAIN: a directory on the path was renamed during the lookup."""
_MAX_LINKS_FOLLOWED = 40
"""The kernel's own limit for one path."""
# Opening a FIFO must not block, and opening a terminal must not make it our controlling terminal.
_COMMON_OPEN_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_O_PATH = getattr(os, "O_PATH", 0)
_DELETED_SUFFIX = " (deleted)"


class _OpenHow(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_libc = ctypes.CDLL(None, use_errno=True) if hasattr(ctypes, "CDLL") and os.name == "posix" else None
# A list of one item, so that a function can set it; every thread would find out the same.
_has_openat2: list[bool | None] = [None if hasattr(os, "uname") and os.uname().sysname == "Linux" else False]
"""Whether the kernel has `openat2`; None before the first attempt."""


def open_beneath(
    directory: int, parts: Sequence[str], flags: int = os.O_RDONLY, mode: int = 0, *, follow_links: bool = True
) -> int:
    """Open a path below a directory's descriptor; a path that leads outside raises `OSError(EXDEV)`.

    Without `follow_links`, a link on the path raises `OSError(ELOOP)`, wherever it leads.
    """
    if any("\0" in part for part in parts):
        raise OSError(errno.EINVAL, "a path cannot hold a NUL")
    if _has_openat2[0] is None:
        _has_openat2[0] = _probe_openat2(directory)
    open_ = _openat2 if _has_openat2[0] else _open_step_by_step
    return open_(directory, parts, flags | _COMMON_OPEN_FLAGS, mode, follow_links)


def _probe_openat2(directory: int) -> bool:
    """Whether `openat2` works here."""
    try:
        os.close(_openat2(directory, (), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, True))
    except OSError as error:
        # ENOSYS: a kernel before 5.6. EPERM: a container's seccomp filter that does not know the call.
        return error.errno not in (errno.ENOSYS, errno.EPERM)
    return True


def _openat2(directory: int, parts: Sequence[str], flags: int, mode: int, follow_links: bool) -> int:
    assert _libc is not None
    if not flags & os.O_CREAT:
        mode = 0  # openat2 refuses a mode that it would not use
    if flags & _O_PATH:
        flags &= ~(os.O_NONBLOCK | os.O_NOCTTY)  # and these flags together with O_PATH
    # RESOLVE_BENEATH refuses absolute links and `..` above the directory; magic links are those of /proc/PID/fd, which
    # lead anywhere.
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS
    if not follow_links:
        resolve |= _RESOLVE_NO_SYMLINKS
    how = _OpenHow(flags, mode, resolve)
    path = os.fsencode("/".join(parts) or ".")
    for _ in range(_MAX_RACE_RETRIES):
        descriptor: int = _libc.syscall(_OPENAT2_SYSCALL, directory, path, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number))
    raise OSError(errno.EAGAIN, "the folders on this path keep moving")


def _open_step_by_step(directory: int, parts: Sequence[str], flags: int, mode: int, follow_links: bool) -> int:
    """Do the same without `openat2`: open one component at a time, and resolve links here."""
    with ExitStack() as opened:
        trail = [
            directory
        ]  # the directories opened so far: `..` goes back to the one before, not to the kernel's parent
        remaining = _components(parts)
        links_left = _MAX_LINKS_FOLLOWED if follow_links else 0
        while remaining:
            name = remaining.pop(0)
            is_last = not remaining
            if name == "..":
                if len(trail) == 1:
                    raise OSError(errno.EXDEV, "the path leads outside")
                trail.pop()
                continue
            link = None if is_last and flags & os.O_NOFOLLOW else _read_link(trail[-1], name)
            if link is not None:
                if not links_left:
                    raise OSError(errno.ELOOP, "there are too many links")
                if link.startswith("/"):
                    raise OSError(errno.EXDEV, "the link leads outside")
                links_left -= 1
                remaining = _components(link.split("/")) + remaining
                continue
            if is_last:
                return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=trail[-1])
            # O_NOFOLLOW: another process may have put a link there since `_read_link` looked.
            step = os.open(name, _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=trail[-1])
            opened.callback(os.close, step)
            trail.append(step)
        return os.open(".", flags & ~(os.O_CREAT | os.O_EXCL), mode, dir_fd=trail[-1])


def _components(parts: Sequence[str]) -> list[str]:
    return [part for part in parts if part not in ("", ".")]


def _read_link(directory: int, name: str) -> str | None:
    """The target of a link, or None if the entry is no link or does not exist."""
    try:
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            return os.readlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
    return None


def descriptor_path(descriptor: int) -> str | None:
    """The current absolute path of an open file, links resolved; None where the system cannot say."""
    try:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return _path_by_fcntl(descriptor)
    # Linux appends " (deleted)" to a file that was unlinked or replaced; a file may also really have that name.
    if path.endswith(_DELETED_SUFFIX) and not _descriptor_is_at(descriptor, path):
        return path.removesuffix(_DELETED_SUFFIX)
    return path


def _descriptor_is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def _path_by_fcntl(descriptor: int) -> str | None:
    """The path as macOS reports it."""
    import fcntl

    try:
        buffer = fcntl.fcntl(descriptor, getattr(fcntl, "F_GETPATH", -1), bytes(1024))
    except OSError:
        return None
    return os.fsdecode(buffer.rstrip(b"\0"))


def rename_without_replacing(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
    """Rename, and raise `FileExistsError` instead of replacing a file."""
    renameat2 = getattr(_libc, "renameat2", None)
    if renameat2 is not None:
        if renameat2(src_dir_fd, os.fsencode(old), dst_dir_fd, os.fsencode(new), _RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL):  # these two: the kernel or the file system lacks it
            raise OSError(number, os.strerror(number))
    # Without the system call there is a gap between this look and the rename: another process may create `new` in it.
    try:
        os.stat(new, dir_fd=dst_dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
