"""The seccomp filter of a sandbox, as a BPF program: it refuses system calls that sandbox escapes rely on."""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator
from functools import cache

_BPF_LOAD = 0x20
_BPF_JUMP_IF_EQUAL = 0x15
_BPF_JUMP_IF_AT_LEAST = 0x35
_BPF_JUMP_IF_ANY_BIT = 0x45
_BPF_RETURN = 0x06
_SYSCALL_NUMBER_OFFSET = 0
_ARCHITECTURE_OFFSET = 4
_ARGUMENTS_OFFSET = 16
"""Offset in `struct seccomp_data`, like the two above; each argument has eight bytes."""
_SECCOMP_RET_ALLOW, _SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000

ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""AUDIT_ARCH number of each architecture, and the column of the tables below with its system call numbers."""

REFUSED_SYSCALLS: dict[str, tuple[int | None, int | None]] = {
    # mounting, and other roots of the file system
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225),
    # access to other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "move_pages": (279, 239), "migrate_pages": (256, 238),
    # entering or making namespaces
    "setns": (308, 268), "unshare": (272, 97),
    # parts of the kernel with many known vulnerabilities
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "modify_ldt": (154, None), "uselib": (134, None), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42),
    # the machine itself
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "acct": (163, 89), "syslog": (103, 116), "vhangup": (153, 58),
    "iopl": (172, None), "ioperm": (173, None), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
}  # fmt: skip
_CLONE_SYSCALL = (56, 220)
_IOCTL_SYSCALL = (16, 29)
_SOCKET_SYSCALL = (41, 198)
_UNFILTERABLE_SYSCALLS = {"clone3": 435, "openat2": 437}
"""Their arguments are in memory, which a filter cannot read. ENOSYS makes programs fall back to older calls."""
_MODE_SYSCALLS: dict[str, tuple[int | None, int | None, int]] = {
    "chmod": (90, None, 1), "fchmod": (91, 52, 1), "fchmodat": (268, 53, 2), "fchmodat2": (452, 452, 2),
    "creat": (85, None, 1), "mknod": (133, None, 1), "mknodat": (259, 33, 2), "mkdir": (83, None, 1),
    "mkdirat": (258, 34, 2),
}  # fmt: skip
"""Numbers for each architecture, and the position of the argument `mode`."""
_OPEN_SYSCALLS: dict[str, tuple[int | None, int | None, int]] = {"open": (2, None, 1), "openat": (257, 56, 2)}
"""Numbers for each architecture, and the position of `flags`; `mode` follows it and counts only with O_CREAT."""
_FILE_CREATION_FLAGS, _SETID_MODE_BITS = 0o20000100, 0o6000

_NEW_NAMESPACE_FLAGS = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""ioctl requests that insert characters into a terminal as if they had been typed."""
_AF_UNIX = 1
_AF_INET = 2
_AF_INET6 = 10
_AF_NETLINK = 16
_X32_SYSCALL_BIT = 0x40000000
"""Marks system calls of the x32 ABI, which have a table of their own on x86-64."""


@cache
def build_filter(*, unix_sockets: bool = True, machine: str | None = None) -> bytes | None:
    """Build the filter program for the kernel; None for an architecture without a table here.

    Args:
        unix_sockets: False where the host's network is shared: abstract UNIX sockets belong to its namespace.
    """
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        return None
    architecture, column = ARCHITECTURES[machine]
    families = (_AF_INET, _AF_INET6, _AF_NETLINK, *([_AF_UNIX] if unix_sockets else []))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in _instructions(architecture, column, families))


def _instructions(architecture: int, column: int, families: tuple[int, ...]) -> Iterator[tuple[int, int, int, int]]:
    """BPF instructions: operation, jump if true, jump if false, and value."""
    # Jumps count the instructions to skip. The architecture comes first: it says which table a number belongs to.
    yield _BPF_LOAD, 0, 0, _ARCHITECTURE_OFFSET
    yield _BPF_JUMP_IF_EQUAL, 1, 0, architecture
    yield _return_errno(errno.EPERM)  # 32-bit programs use other system call numbers
    yield _BPF_LOAD, 0, 0, _SYSCALL_NUMBER_OFFSET
    if column == 0:
        yield _BPF_JUMP_IF_AT_LEAST, 0, 1, _X32_SYSCALL_BIT
        yield _return_errno(errno.ENOSYS)
    for numbers in REFUSED_SYSCALLS.values():
        if (number := numbers[column]) is not None:
            yield _BPF_JUMP_IF_EQUAL, 0, 1, number
            yield _return_errno(errno.EPERM)
    for number in _UNFILTERABLE_SYSCALLS.values():
        yield _BPF_JUMP_IF_EQUAL, 0, 1, number
        yield _return_errno(errno.ENOSYS)
    yield from _check_argument(
        _CLONE_SYSCALL[column], 0, [(_BPF_JUMP_IF_ANY_BIT, _NEW_NAMESPACE_FLAGS)], errno_if_matched=errno.EPERM
    )
    yield from _check_argument(
        _IOCTL_SYSCALL[column],
        1,
        [(_BPF_JUMP_IF_EQUAL, _TIOCSTI), (_BPF_JUMP_IF_EQUAL, _TIOCLINUX)],
        errno_if_matched=errno.EPERM,
    )
    yield from _check_argument(
        _SOCKET_SYSCALL[column],
        0,
        [(_BPF_JUMP_IF_EQUAL, family) for family in families],
        errno_if_unmatched=errno.EAFNOSUPPORT,
    )
    # Files made in the sandbox belong to the host user: outside, a set-uid program among them has that user's rights.
    for *mode_numbers, argument in _MODE_SYSCALLS.values():
        yield from _check_argument(
            mode_numbers[column], argument, [(_BPF_JUMP_IF_ANY_BIT, _SETID_MODE_BITS)], errno_if_matched=errno.EPERM
        )
    for *mode_numbers, argument in _OPEN_SYSCALLS.values():
        yield from _check_open_mode(mode_numbers[column], argument)
    yield _BPF_RETURN, 0, 0, _SECCOMP_RET_ALLOW


def _check_argument(
    number: int | None,
    argument: int,
    tests: list[tuple[int, int]],
    *,
    errno_if_matched: int = 0,
    errno_if_unmatched: int = 0,
) -> Iterator[tuple[int, int, int, int]]:
    """For one system call, test the lower 32 bits of an argument and return one of two errors (0 allows)."""
    if number is not None:
        yield _BPF_JUMP_IF_EQUAL, 0, len(tests) + 3, number
        yield _load_argument(argument)
        for position, (test, value) in enumerate(tests):
            yield test, len(tests) - position, 0, value
        yield _return_errno(errno_if_unmatched)
        yield _return_errno(errno_if_matched)


def _check_open_mode(number: int | None, flags_argument: int) -> Iterator[tuple[int, int, int, int]]:
    """For one system call that opens files, refuse to create a set-uid or set-gid file."""
    if number is not None:
        yield _BPF_JUMP_IF_EQUAL, 0, 6, number
        yield _load_argument(flags_argument)
        yield _BPF_JUMP_IF_ANY_BIT, 0, 3, _FILE_CREATION_FLAGS
        yield _load_argument(flags_argument + 1)
        yield _BPF_JUMP_IF_ANY_BIT, 0, 1, _SETID_MODE_BITS
        yield _return_errno(errno.EPERM)
        yield _BPF_RETURN, 0, 0, _SECCOMP_RET_ALLOW


def _load_argument(position: int) -> tuple[int, int, int, int]:
    return _BPF_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * position


def _return_errno(error: int) -> tuple[int, int, int, int]:
    action = _SECCOMP_RET_ERRNO | error if error else _SECCOMP_RET_ALLOW
    return _BPF_RETURN, 0, 0, action
