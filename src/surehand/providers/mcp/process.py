"""Process: which process something belongs to, and whether that one is gone."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


def here() -> str:
    """This process, in words that no other has, now or later."""
    return f"{_machine()}:{os.getpid()}:{_started(os.getpid())}"


def is_here(marker: str) -> bool:
    """Whether a marker is of this process."""
    return marker == here()


def is_gone(marker: str) -> bool:
    """Whether the process of a marker surely runs no more; False where nobody here can tell."""
    machine, number, started = [*marker.split(":"), "", ""][:3]
    if not machine or machine != _machine() or not number.isdigit():
        return False
    return _started(int(number)) != started


@cache
def _machine() -> str:
    """This boot of this machine, and of what is on it the part that we can see; empty where nobody can say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}".replace(":", "")
    except OSError:
        return ""


def _started(process: int) -> str:
    """When it was started: numbers of processes are used again."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
