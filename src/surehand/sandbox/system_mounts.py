"""The parts of the host that every sandbox sees: system folders, some of /etc, and a masked /proc."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from surehand.sandbox.sandbox import SANDBOX_HOME, Sandbox

SANDBOX_UID = 1000
"""User id in the sandbox, to which the user of this process is mapped."""
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC_FILES = ("ld.so.cache", "alternatives")
_ETC_NETWORK_FILES = (
    "resolv.conf", "services", "protocols", "gai.conf", "host.conf", "ssl/openssl.cnf", "ssl/certs", "ssl/cert.pem",
    "ca-certificates", "pki/tls/certs", "pki/ca-trust", "crypto-policies",
)  # fmt: skip
_HIDDEN_PROC_FILES = ("cmdline", "keys")
"""Files of /proc with data of the host: the kernel's command line may hold secrets, and keys belong to the user."""
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
"""Written for the sandbox: the files of the host would reveal its users and its network."""


def system_mount_arguments(sandbox: Sandbox) -> list[str]:
    """Arguments for bubblewrap that are the same for every command of a sandbox."""
    time_zone = os.path.realpath("/etc/localtime")
    # What is in it is memory: without a control group, its size is the only limit on it.
    size = min(int(sandbox.temporary), int(sandbox.memory))
    tmpfs = ("--perms", "1777", "--size", str(size), "--tmpfs")
    etc_files = _existing_paths("/etc", _ETC_FILES)
    network_files = _existing_paths("/etc", _ETC_NETWORK_FILES) if sandbox.network else ()
    return [
        *_system_folder_arguments(),
        *(argument for path in (*etc_files, *network_files) for argument in ("--ro-bind", path, path)),
        *(("--symlink", time_zone, "/etc/localtime") if time_zone.startswith("/usr/") else ()),
        *("--proc", "/proc"),
        *_proc_mask_arguments(os.geteuid() == 0),
        *HIDE_FIRST_PROCESS_ARGUMENTS,
        *("--dev", "/dev", *tmpfs, "/dev/shm", "--remount-ro", "/dev"),
        *(*tmpfs, "/tmp", "--perms", "0700", "--dir", SANDBOX_HOME, "--dir", "/var", "--symlink", "../tmp", "/var/tmp"),
    ]


@cache
def _system_folder_arguments() -> tuple[str, ...]:
    """Mounts of programs and libraries: on most systems all are in /usr, and /bin and /lib are links into it."""
    arguments: list[str] = []
    for path in SYSTEM_FOLDERS:
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    return tuple(arguments)


@cache
def _proc_mask_arguments(is_root: bool) -> tuple[str, ...]:
    """Mask files of /proc that concern the whole machine, which root could use inside the sandbox too.

    /dev/null is mounted over them: on a `nodev` mount it cannot be opened, neither to read nor to write.
    """
    names = _HIDDEN_PROC_FILES + _HIDDEN_PROC_FILES_FOR_ROOT if is_root else _HIDDEN_PROC_FILES
    arguments: list[str] = []
    for path in _existing_paths("/proc", names):
        arguments += ["--ro-bind", "/dev/null", path]
    if is_root:
        for path in _existing_paths("/proc", _HIDDEN_PROC_FOLDERS_FOR_ROOT):
            arguments += ["--tmpfs", path, "--remount-ro", path]
        arguments += ["--ro-bind", "/proc/sys", "/proc/sys"]
    return tuple(arguments)


HIDE_FIRST_PROCESS_ARGUMENTS = ("--tmpfs", "/proc/1", "--remount-ro", "/proc/1")
"""Hides /proc/1, bubblewrap's own process: a command that writes to its memory could stop it from ending with us."""


@cache
def _existing_paths(folder: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for name in names if os.path.exists(path := f"{folder}/{name}"))


def is_system_path(path: Path) -> bool:
    """Whether every sandbox mounts this path."""
    return any(path.is_relative_to(folder) for folder in SYSTEM_FOLDERS)
