"""Processes by pidfd, a file descriptor that, unlike a pid, never comes to mean another process."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PIDFD_SIGNAL_PROCESS_GROUP = 4
"""PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9."""


class ProcessHandle:
    """A running process that can be signalled, and whose end calls a function on the event loop."""

    def __init__(self, pid: int, *, on_end: Callable[[], None]) -> None:
        self.pid = pid
        self.has_ended = False
        self._descriptor = os.pidfd_open(pid)
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._handle_end)  # a pidfd is readable once its process has ended

    def signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if not self.has_ended:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def signal_group(self, number: int) -> None:
        """Send a signal to the whole group that the process leads."""
        if self.has_ended:
            return
        with suppress(ProcessLookupError, PermissionError):
            try:
                signal.pidfd_send_signal(self._descriptor, number, None, _PIDFD_SIGNAL_PROCESS_GROUP)
            except OSError as error:
                if isinstance(error, (ProcessLookupError, PermissionError)):
                    raise
                # A kernel before 6.9. The process is not reaped yet, so its pid still belongs to it.
                os.killpg(self.pid, number)

    def wait_until_dead(self, seconds: float) -> None:
        """Block until the process has ended, or the time is over. The event loop is told of the end as usual."""
        if self._descriptor >= 0:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            poll.poll(seconds * 1000)

    def _handle_end(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self.has_ended = True
        self._on_end()

    def reap(self) -> None:
        """Reap the process if it is our child, as orphans become when we are the first process of a container."""
        with suppress(OSError):
            os.waitid(os.P_PIDFD, self._descriptor, os.WEXITED | os.WNOHANG)

    def close(self) -> None:
        """Close the descriptor; the process is not signalled."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self.has_ended = True


def child_pids(pid: int) -> list[int]:
    """The pids of a process's children."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:  # the process has ended, or the kernel lacks CONFIG_PROC_CHILDREN
        return [child for child in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent_pid(child) == pid]


def _parent_pid(pid: int) -> int | None:
    with suppress(OSError):
        # The second field, the name in brackets, may hold spaces and brackets itself: count from the last one.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None
