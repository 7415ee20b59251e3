"""Markers of processes: a stored question names the process whose connection waits for its answer.

The provider compares markers to find out whether that process still runs.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

# Keys of the state that is stored with a question of the handshake protocol, whose request stays open meanwhile. Other
# versions of this package read them, so their names are fixed.
REQUEST_ID_KEY = "request"
"""The `resume_id` of the open request. Only state of the handshake protocol has it."""
CALLER_ID_KEY = "talk"
"""The id of the `ToolCaller` that holds the request open."""
PROCESS_KEY = "process"
"""The marker of the process that holds the request open."""


def current_process_marker() -> str:
    """A marker of this process that no other process has, now or later."""
    return f"{_boot_id()}:{os.getpid()}:{_process_start_time(os.getpid())}"


def is_current_process(marker: str) -> bool:
    """Whether a marker is that of this process."""
    return marker == current_process_marker()


def is_process_gone(marker: str) -> bool:
    """Whether the process of a marker has certainly ended; False if that is unknown, for example on another machine."""
    boot_id, pid, start_time = [*marker.split(":"), "", ""][:3]
    if not boot_id or boot_id != _boot_id() or not pid.isdigit():
        return False
    return _process_start_time(int(pid)) != start_time


@cache
def _boot_id() -> str:
    """An id of the current boot and of the PID namespace: a process id means something only within both."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}".replace(":", "")
    except OSError:
        return ""


def _process_start_time(pid: int) -> str:
    """When a process was started, in clock ticks after boot: the kernel reuses process ids."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
