"""System: what a sandbox shows of the host beside the folders it is given, and the files it makes up itself."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from surehand.sandbox.sandbox import SANDBOX_HOME, Sandbox

SANDBOX_UID = 1000
"""Inside, files of this process's user belong to this one."""
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC_FILES = ("ld.so.cache", "alternatives")
_ETC_NETWORK_FILES = (
    "resolv.conf", "services", "protocols", "gai.conf", "host.conf", "ssl/openssl.cnf", "ssl/certs", "ssl/cert.pem",
    "ca-certificates", "pki/tls/certs", "pki/ca-trust", "crypto-policies",
)  # fmt: skip
_HIDDEN_PROC_FILES = ("cmdline", "keys")
"""What of /proc tells of the host: there may be anything in the kernel's arguments, and keys are the user's own."""
_HIDDEN_PROC_FILES_FOR_ROOT = (
    "kcore", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "sched_debug", "sysrq-trigger",
    "timer_list", "vmallocinfo",
)  # fmt: skip
_HIDDEN_PROC_FOLDERS_FOR_ROOT = ("acpi", "asound", "fs", "scsi")

SYNTHETIC_FILES = {
    "/etc/passwd": f"user:x:{SANDBOX_UID}:{SANDBOX_UID}::{SANDBOX_HOME}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "/etc/group": f"user:x:{SANDBOX_UID}:\nnogroup:x:65534:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
}
"""Made up: the host's would tell of its users and of its network."""


def system_mount_arguments(sandbox: Sandbox) -> list[str]:
    """Arguments for the parts that are the same for every command of a sandbox."""
    zone = os.path.realpath("/etc/localtime")
    room = ("--perms", "1777", "--size", str(sandbox.temporary), "--tmpfs")
    certificates = _existing_paths("/etc", _ETC_NETWORK_FILES) if sandbox.network else ()
    return [
        *_system_folder_arguments(),
        *(word for path in (*_existing_paths("/etc", _ETC_FILES), *certificates) for word in ("--ro-bind", path, path)),
        *(("--symlink", zone, "/etc/localtime") if zone.startswith("/usr/") else ()),
        *("--proc", "/proc"),
        *_proc_mask_arguments(os.geteuid() == 0),
        *HIDE_FIRST_PROCESS_ARGUMENTS,
        *("--dev", "/dev", *room, "/dev/shm", "--remount-ro", "/dev"),
        *(*room, "/tmp", "--perms", "0700", "--dir", SANDBOX_HOME, "--dir", "/var", "--symlink", "../tmp", "/var/tmp"),
    ]


@cache
def _system_folder_arguments() -> tuple[str, ...]:
    """Programs and libraries: on most machines all in /usr, with links to them beside it."""
    words: list[str] = []
    for path in SYSTEM_FOLDERS:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    return tuple(words)


@cache
def _proc_mask_arguments(is_root: bool) -> tuple[str, ...]:
    """A fresh /proc still has files of the whole machine, and whoever is root on the host may use them in here too.

    A device on a mount without devices cannot be opened: so nothing is left to read or to write.
    """
    hidden = _existing_paths(
        "/proc", _HIDDEN_PROC_FILES + _HIDDEN_PROC_FILES_FOR_ROOT if is_root else _HIDDEN_PROC_FILES
    )
    words = [word for path in hidden for word in ("--ro-bind", "/dev/null", path)]
    if is_root:
        words += [
            word
            for path in _existing_paths("/proc", _HIDDEN_PROC_FOLDERS_FOR_ROOT)
            for word in ("--tmpfs", path, "--remount-ro", path)
        ]
        words += ["--ro-bind", "/proc/sys", "/proc/sys"]
    return tuple(words)


HIDE_FIRST_PROCESS_ARGUMENTS = ("--tmpfs", "/proc/1", "--remount-ro", "/proc/1")
"""Bubblewrap's own process inside: a command that wrote to its memory could keep it from dying with its parent."""


@cache
def _existing_paths(folder: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for name in names if os.path.exists(path := f"{folder}/{name}"))


def is_system_path(path: Path) -> bool:
    """Whether the sandbox shows a path without being asked to."""
    return any(path.is_relative_to(folder) for folder in SYSTEM_FOLDERS)
