"""Supervisor: runs one command without a sandbox, and ends only when nothing of it is left.

A program of its own, started by path: it imports nothing of ours, so that it starts quickly.
SIGUSR1 asks the command to end; SIGTERM, which also comes when whoever started this dies, ends everything at once.
It is two processes, of which the second runs the command: if one is killed, what it would have ended the other ends.
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
"""Turns without a pause; what is left then ends by itself, or not at all."""
_HANDLED_SIGNALS = {signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD}


def main(parent_pid: int, limits: Mapping[str, int], argv: list[str]) -> int:
    """Run the command; gives its exit code, or 128 and the signal that ended it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED_SIGNALS)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where our parent ignores it, nobody would be told of an end
    if not _become_subreaper(parent_pid):
        return 125
    first = os.getpid()
    if (second := os.fork()) == 0:
        os._exit(_run_second_supervisor(first, limits, argv))
    return _supervise(second, lambda: os.kill(second, signal.SIGUSR1))


def _run_second_supervisor(first_pid: int, limits: Mapping[str, int], argv: list[str]) -> int:
    os.setsid()  # whoever ends the group of the first does not end both
    if not _become_subreaper(first_pid):
        return 125
    own = os.getpid()
    if (command := os.fork()) == 0:
        _exec_command(own, limits, argv)
    return _supervise(command, lambda: os.killpg(command, signal.SIGTERM))


def _become_subreaper(parent_pid: int) -> bool:
    """Have orphans fall to us, and end everything when the parent dies; whether it still lives."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return os.getppid() == parent_pid


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _exec_command(parent_pid: int, limits: Mapping[str, int], argv: list[str]) -> None:
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # it died before it could be told
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
    """Wait for a child, and leave nothing."""
    _release_standard_streams()
    code = _wait_for_exit(child_pid, terminate)
    _kill_descendants()
    return 128 + signal.SIGKILL if code is None else code


def _release_standard_streams() -> None:
    """What the command closes is closed: nobody else holds its pipes."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _wait_for_exit(child_pid: int, terminate: Callable[[], None]) -> int | None:
    """The exit code, or None when told to end it."""
    while (number := signal.sigwait(_HANDLED_SIGNALS)) != signal.SIGTERM:
        if number == signal.SIGUSR1:
            with suppress(ProcessLookupError):
                terminate()
        elif (code := _reap_children(child_pid)) is not None:
            return code
    return None


def _reap_children(child_pid: int) -> int | None:
    """The child's exit code if it was among those that ended."""
    code = None
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return code
        if pid == child_pid:
            ended = os.waitstatus_to_exitcode(status)
            return ended if ended >= 0 else 128 - ended


def _kill_descendants() -> None:
    """Whatever loses its parent falls to us: ending our children again and again ends all that they started.

    A process that forks and ends faster than anybody can look is caught only by not pausing in between.
    """
    for turn in itertools.count():
        for pid in _child_pids():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if turn > _KILL_ROUNDS_WITHOUT_PAUSE:
            time.sleep(0.001)


def _child_pids() -> list[int]:
    own = os.getpid()
    with suppress(FileNotFoundError), open(f"/proc/{own}/task/{own}/children", "rb") as file:
        return [int(pid) for pid in file.read().split()]
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent_pid(name) == own]


def _parent_pid(pid: str) -> int | None:
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])
    return None


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]))
