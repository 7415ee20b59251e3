"""Seccomp: a filter that refuses the system calls which no command needs and which escapes are made of."""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator
from functools import cache

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Where the kernel puts them: the number of the call, the architecture, and the arguments, of eight bytes each."""
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000

ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""The kernel's number of each architecture, and the column of `REFUSED` that holds its system calls."""

REFUSED: dict[str, tuple[int | None, int | None]] = {
    # other file systems, other roots
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "move_pages": (279, 239), "migrate_pages": (256, 238),
    # other namespaces
    "setns": (308, 268), "unshare": (272, 97),
    # parts of the kernel in which most of the known holes were
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
_CLONE, _IOCTL, _SOCKET = (56, 220), (16, 29), (41, 198)
_UNREADABLE = {"clone3": 435, "openat2": 437}
"""What they are asked for lies in memory, where no filter can look; whoever uses them falls back on older calls."""
_WITH_MODE: dict[str, tuple[int | None, int | None, int]] = {
    "chmod": (90, None, 1), "fchmod": (91, 52, 1), "fchmodat": (268, 53, 2), "fchmodat2": (452, 452, 2),
    "creat": (85, None, 1), "mknod": (133, None, 1), "mknodat": (259, 33, 2), "mkdir": (83, None, 1),
    "mkdirat": (258, 34, 2),
}  # fmt: skip
"""The last number says which argument is the mode."""
_OPENING: dict[str, tuple[int | None, int | None, int]] = {"open": (2, None, 1), "openat": (257, 56, 2)}
"""The last number says which argument is the flags; the mode comes next, and counts only if a file may be made."""
_MAKES_A_FILE, _SET_ID = 0o20000100, 0o6000

_NEW_NAMESPACES = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""Put letters into a terminal as if they had been typed."""
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_X32 = 0x40000000
"""The other table of system calls that an x86-64 kernel offers."""


@cache
def program(*, unix_sockets: bool = True, machine: str | None = None) -> bytes | None:
    """The filter as the kernel reads it; None for an architecture whose numbers are not known here.

    Args:
        unix_sockets: False where the host's network is shared, because sockets without a file belong to it too.
    """
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        return None
    architecture, column = ARCHITECTURES[machine]
    families = (_INET, _INET6, _NETLINK, *([_UNIX] if unix_sockets else []))
    return b"".join(struct.pack("=HBBI", *step) for step in _steps(architecture, column, families))


def _steps(architecture: int, column: int, families: tuple[int, ...]) -> Iterator[tuple[int, int, int, int]]:
    """Each step: what to do, how far to jump if so, how far if not, and the value."""
    yield _LOAD, 0, 0, _ARCHITECTURE
    yield _EQUAL, 1, 0, architecture
    yield _refuse(errno.EPERM)  # 32-bit programs have numbers of their own
    yield _LOAD, 0, 0, _NUMBER
    if column == 0:
        yield _AT_LEAST, 0, 1, _X32
        yield _refuse(errno.ENOSYS)
    for numbers in REFUSED.values():
        if (number := numbers[column]) is not None:
            yield _EQUAL, 0, 1, number
            yield _refuse(errno.EPERM)
    for number in _UNREADABLE.values():
        yield _EQUAL, 0, 1, number
        yield _refuse(errno.ENOSYS)
    yield from _if_call(_CLONE[column], 0, [(_ANY_BIT, _NEW_NAMESPACES)], listed=errno.EPERM)
    yield from _if_call(_IOCTL[column], 1, [(_EQUAL, _TIOCSTI), (_EQUAL, _TIOCLINUX)], listed=errno.EPERM)
    yield from _if_call(_SOCKET[column], 0, [(_EQUAL, family) for family in families], other=errno.EAFNOSUPPORT)
    # A program that runs with its owner's rights would keep them outside: files made in here are the host user's own.
    for *known, argument in _WITH_MODE.values():
        yield from _if_call(known[column], argument, [(_ANY_BIT, _SET_ID)], listed=errno.EPERM)
    for *known, argument in _OPENING.values():
        yield from _if_opened(known[column], argument)
    yield _RETURN, 0, 0, _ALLOW


def _if_call(
    number: int | None, argument: int, tests: list[tuple[int, int]], *, listed: int = 0, other: int = 0
) -> Iterator[tuple[int, int, int, int]]:
    """For one call: look at the lower half of one argument, and answer by whether it passes one of the tests."""
    if number is not None:
        yield _EQUAL, 0, len(tests) + 3, number
        yield _argument(argument)
        for position, (test, value) in enumerate(tests):
            yield test, len(tests) - position, 0, value
        yield _refuse(other)
        yield _refuse(listed)


def _if_opened(number: int | None, flags: int) -> Iterator[tuple[int, int, int, int]]:
    if number is not None:
        yield _EQUAL, 0, 6, number
        yield _argument(flags)
        yield _ANY_BIT, 0, 3, _MAKES_A_FILE
        yield _argument(flags + 1)
        yield _ANY_BIT, 0, 1, _SET_ID
        yield _refuse(errno.EPERM)
        yield _RETURN, 0, 0, _ALLOW


def _argument(position: int) -> tuple[int, int, int, int]:
    return _LOAD, 0, 0, _ARGUMENTS + 8 * position


def _refuse(error: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERRNO | error) if error else (_RETURN, 0, 0, _ALLOW)
