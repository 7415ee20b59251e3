"""Process: which process something belongs to, and whether that one is gone."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


def current_process_marker() -> str:
    """This process, in words that no other has, now or later."""
    return f"{_boot_id()}:{os.getpid()}:{_process_start_time(os.getpid())}"


def is_current_process(marker: str) -> bool:
    """Whether a marker is of this process."""
    return marker == current_process_marker()


def is_process_gone(marker: str) -> bool:
    """Whether the process of a marker surely runs no more; False where nobody here can tell."""
    machine, number, started = [*marker.split(":"), "", ""][:3]
    if not machine or machine != _boot_id() or not number.isdigit():
        return False
    return _process_start_time(int(number)) != started


@cache
def _boot_id() -> str:
    """This boot of this machine, and of what is on it the part that we can see; empty where nobody can say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}".replace(":", "")
    except OSError:
        return ""


def _process_start_time(pid: int) -> str:
    """When it was started: numbers of processes are used again."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
