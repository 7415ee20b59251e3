"""System: what a sandbox shows of the host beside the folders it is given, and the files it makes up itself."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from toolwright.sandbox.sandbox import HOME, Sandbox

UID = 1000
"""Inside, files of this process's user belong to this one."""
SHOWN = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "ssl/openssl.cnf", "mime.types")
_ETC_NETWORK = (
    "resolv.conf", "services", "protocols", "gai.conf", "host.conf", "ssl/certs", "ssl/cert.pem", "ca-certificates",
    "pki/tls/certs", "pki/ca-trust", "crypto-policies",
)  # fmt: skip
_PROC = (
    "cmdline", "config.gz", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecgroup",
    "kpagecount", "kpageflags", "latency_stats", "modules", "pagetypeinfo", "sched_debug", "slabinfo", "sysrq-trigger",
    "timer_list", "vmallocinfo",
)  # fmt: skip
_PROC_FOLDERS = ("acpi", "asound", "driver", "fs", "scsi")

FILES = {
    "/etc/passwd": f"user:x:{UID}:{UID}::{HOME}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "/etc/group": f"user:x:{UID}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
}
"""Made up: the host's would tell of its users and of its network."""


def mounts(sandbox: Sandbox) -> list[str]:
    """Arguments for the parts that are the same for every command of a sandbox."""
    room = ("--perms", "1777", "--size", str(sandbox.temporary), "--tmpfs")
    certificates = _paths("/etc", _ETC_NETWORK) if sandbox.network else ()
    return [
        *_system(),
        *(word for path in (*_paths("/etc", _ETC), *certificates) for word in ("--ro-bind", path, path)),
        *("--proc", "/proc"),
        *_masks(),
        *FIRST,
        *("--dev", "/dev", *room, "/dev/shm", "--remount-ro", "/dev"),
        *(*room, "/tmp", "--perms", "0700", "--dir", HOME, "--dir", "/var", "--symlink", "../tmp", "/var/tmp"),
    ]


@cache
def _system() -> tuple[str, ...]:
    """Programs and libraries: on most machines all in /usr, with links to them beside it."""
    words: list[str] = []
    for path in SHOWN:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    return tuple(words)


@cache
def _masks() -> tuple[str, ...]:
    """A fresh /proc still tells of the whole machine, and whoever runs as its root may read all of that.

    A device on a mount without devices cannot be opened: so nothing is left to read or to write.
    """
    files = [word for path in _paths("/proc", _PROC) for word in ("--ro-bind", "/dev/null", path)]
    folders = [word for path in _paths("/proc", _PROC_FOLDERS) for word in ("--tmpfs", path, "--remount-ro", path)]
    # Files in /proc/sys look at who writes, not at rights, and the host's root is somebody there.
    return ("--ro-bind", "/proc/sys", "/proc/sys", *files, *folders)


FIRST = ("--tmpfs", "/proc/1", "--remount-ro", "/proc/1")
"""Bubblewrap's own process inside: a command that wrote to its memory could keep it from dying with its parent."""


@cache
def _paths(folder: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for name in names if os.path.exists(path := f"{folder}/{name}"))


def is_shown(path: Path) -> bool:
    """Whether the sandbox shows a path without being asked to."""
    return any(path.is_relative_to(folder) for folder in SHOWN)
