"""A program that runs one command without a sandbox, and ends only when no process of the command is left.

`child_process` starts it by path. It imports no other module of this package, so that it starts quickly.
SIGUSR1 asks the command to end. SIGTERM, which the kernel also sends when the parent dies, kills everything at once.
It consists of two processes, of which the second runs the command: if one is killed, the other kills what is left.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_KILL_ROUNDS_WITHOUT_PAUSE = 10_000
"""Kill rounds without a pause; after them, remaining processes cannot be outrun any more."""
_HANDLED_SIGNALS = {signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD}


def main(parent_pid: int, limits: Mapping[str, int], argv: list[str]) -> int:
    """Run the command and return its exit code, or 128 plus the signal that ended it."""
    # Blocked, so that `sigwait` receives them: a signal that arrives earlier waits instead of being lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED_SIGNALS)
    # An ignored SIGCHLD is inherited, and then no child would be reported.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if not _become_subreaper(parent_pid):
        return 125
    first = os.getpid()
    if (second := os.fork()) == 0:
        os._exit(_run_second_supervisor(first, limits, argv))
    return _supervise(second, lambda: os.kill(second, signal.SIGUSR1))


def _run_second_supervisor(first_pid: int, limits: Mapping[str, int], argv: list[str]) -> int:
    os.setsid()  # a signal to the process group of the first supervisor must not reach both
    if not _become_subreaper(first_pid):
        return 125
    own = os.getpid()
    if (command := os.fork()) == 0:
        _exec_command(own, limits, argv)
    return _supervise(command, lambda: os.killpg(command, signal.SIGTERM))


def _become_subreaper(parent_pid: int) -> bool:
    """Adopt orphaned descendants, and get SIGTERM when the parent dies; return whether the parent still lives."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # A parent that died before the call above sends no signal: we then have another parent already.
    return os.getppid() == parent_pid


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _exec_command(parent_pid: int, limits: Mapping[str, int], argv: list[str]) -> None:
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # the parent died before the signal was set
            os._exit(125)
        for name, limit in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _supervise(child_pid: int, terminate: Callable[[], None]) -> int:
    """Wait for a child, then kill all descendants that are left; return the exit code."""
    _release_standard_streams()
    code = _wait_for_exit(child_pid, terminate)
    _kill_descendants()
    return 128 + signal.SIGKILL if code is None else code


def _release_standard_streams() -> None:
    """Close the pipes of the command here: readers must see their end when the command closes them."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _wait_for_exit(child_pid: int, terminate: Callable[[], None]) -> int | None:
    """Wait for the child and return its exit code, or None once SIGTERM arrives."""
    while (number := signal.sigwait(_HANDLED_SIGNALS)) != signal.SIGTERM:
        if number == signal.SIGUSR1:
            with suppress(ProcessLookupError):
                terminate()
        elif (code := _reap_children(child_pid)) is not None:
            return code
    return None


def _reap_children(child_pid: int) -> int | None:
    """Reap ended processes; return the exit code of the child if it was one of them."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return None
        if pid == child_pid:
            exit_code = os.waitstatus_to_exitcode(status)
            return exit_code if exit_code >= 0 else 128 - exit_code


def _kill_descendants() -> None:
    """Kill our children again and again: as their orphans become our children, this reaches every descendant.

    A process that forks and exits faster than it can be listed is caught only without a pause between the rounds.
    """
    for kill_round in itertools.count():
        for pid in _child_pids():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if kill_round > _KILL_ROUNDS_WITHOUT_PAUSE:
            time.sleep(0.001)


def _child_pids() -> list[int]:
    own = os.getpid()
    with suppress(FileNotFoundError), open(f"/proc/{own}/task/{own}/children", "rb") as file:
        return [int(pid) for pid in file.read().split()]
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent_pid(name) == own]


def _parent_pid(pid: str) -> int | None:
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        # The second field, the name in brackets, may hold spaces and brackets itself: count from the last one.
        return int(file.read().rpartition(b")")[2].split()[1])
    return None


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]))
