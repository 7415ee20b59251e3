"""A child process with asyncio streams, in a sandbox or supervised, and the certain end of every process it starts.

The shell tools and the stdio transport of MCP servers use it. Linux only.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

from surehand.core.errors import NotStarted
from surehand.core.private_paths import PRIVATE_PATHS
from surehand.sandbox import bubblewrap, supervisor
from surehand.sandbox.cgroup import ControlGroup
from surehand.sandbox.command_line import BindMount
from surehand.sandbox.pidfd import ProcessHandle, child_pids
from surehand.sandbox.pipes import CHUNK_BYTES, PipeReader, PipeWriter
from surehand.sandbox.sandbox import Sandbox, Unprotected

log = logging.getLogger("surehand")
STOP_GRACE_SECONDS = 0.5
"""Seconds between asking a command to end and killing it."""
_KILL_TIMEOUT_SECONDS = 10.0
"""Seconds to wait for the kernel to end killed processes."""
_SUPERVISOR_PROCESSES = 2
"""Processes of the supervisor itself, which count against the limit on processes of a command."""
INSPECTION_INTERVAL_SECONDS = 0.2
"""Seconds between two inspections of a running command."""
_PROCESS_COUNT_INTERVAL_SECONDS = 0.05
"""Seconds between two counts of the processes of a command, where no control group limits them."""


class ChildProcess(ABC):
    """A running command with `stdin`, `stdout` and `stderr`.

        async with await ChildProcess.start(["make"], cwd=root.path, folders=[root]) as child:
            output = await child.stdout.read()
            code = await child.wait()

    When the block is left, every process of the command has ended and every descriptor is closed.
    """

    _control_group: ControlGroup | None = None
    _must_end: Callable[[], bool] | None = None
    _inspection_timer: asyncio.TimerHandle | None = None

    def __init__(self, popen: subprocess.Popen[bytes], limit: int) -> None:
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        # First, because it is the step that can fail, when this process has no file descriptors left.
        self._outer_process = ProcessHandle(popen.pid, on_end=self._handle_exit)
        self.stdin = PipeWriter(popen.stdin)
        self._stdout_pipe = PipeReader(popen.stdout, limit)
        self._stderr_pipe = PipeReader(popen.stderr, limit)
        self.stdout = self._stdout_pipe.reader
        self.stderr = self._stderr_pipe.reader
        self._popen = popen
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.exceeded_process_limit = False
        """Whether the command was killed because it had too many processes."""

    @classmethod
    def _spawn(cls, argv: Sequence[str], limit: int, **options: Any) -> Self:
        popen = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # the pipes are read by their descriptors: a buffer of Python's would hide data from them
            start_new_session=True,
            **options,
        )
        try:
            return cls(popen, limit)
        except BaseException:
            bubblewrap.discard_process(popen)
            raise

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str],
        sandbox: Sandbox | Unprotected = bubblewrap.DEFAULT_SANDBOX,
        folders: Sequence[BindMount] = (),
        read: Sequence[str | os.PathLike[str]] = (),
        stdin: bool = False,
        limit: int = CHUNK_BYTES,
        must_end: Callable[[], bool] | None = None,
    ) -> ChildProcess:
        """Start a command.

        Args:
            folders: mounted in the sandbox beside the system's folders; see `build_command_line`.
            read: further paths that are mounted read-only.
            stdin: whether the command can read from `stdin`; otherwise its standard input is empty.
            limit: longest line that `readline` accepts, in bytes; about twice as much is read ahead.
            must_end: called now and then while the command runs, and when it has ended; True kills the command.
        """
        child: ChildProcess
        try:
            if isinstance(sandbox, Unprotected):
                child = _SupervisedChild.launch(argv, cwd=cwd, unprotected=sandbox, stdin=stdin, limit=limit)
            else:
                child = await _SandboxedChild.launch(
                    argv, cwd=cwd, sandbox=sandbox, folders=folders, read=read, stdin=stdin, limit=limit
                )
        except OSError as error:
            raise NotStarted(f"The command cannot be started: {error.strerror}.") from error
        if must_end is not None:
            child.kill_when(must_end)
        return child

    def kill_when(self, must_end: Callable[[], bool]) -> None:
        """Kill the command once `must_end` returns True; it is called while the command runs and when it has ended."""
        self._must_end = must_end
        if self._finished.done():
            must_end()
            return
        if must_end():
            self._kill()
        loop = asyncio.get_running_loop()
        self._inspection_timer = loop.call_later(INSPECTION_INTERVAL_SECONDS, self._inspect_again)

    def _inspect_again(self) -> None:
        if self._must_end is not None and not self._finished.done():
            self.kill_when(self._must_end)

    async def wait(self) -> int:
        """Wait until every process of the command has ended; return the exit code, above 128 for a signal."""
        # Shielded: a cancelled caller would cancel the future, and with it every other waiter.
        await asyncio.shield(self._finished)
        code = self._popen.returncode
        return code if code >= 0 else 128 - code

    async def stop(self, grace: float = STOP_GRACE_SECONDS) -> None:
        """Ask the command to end, kill its remaining processes after `grace` seconds, and wait for their end."""
        cancelled = None
        # Should this coroutine be closed while it waits, the descriptors are still closed when the command ends.
        self._finished.add_done_callback(lambda _: self.close())
        if grace > 0 and not self._finished.done():
            self._terminate()
            cancelled = await self._wait_for_end(grace, stop_when_cancelled=True)
        if not self._finished.done():
            self._kill()
            cancelled = await self._wait_for_end(_KILL_TIMEOUT_SECONDS) or cancelled
        self.close()
        if cancelled is not None:
            raise cancelled

    async def _wait_for_end(
        self, seconds: float, *, stop_when_cancelled: bool = False
    ) -> asyncio.CancelledError | None:
        """Wait for the end of the command, and return a cancellation that arrived meanwhile.

        A cancelled caller keeps waiting, because processes must not be left behind; with `stop_when_cancelled` it
        returns at once, so that the command can be killed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        cancelled = None
        while not self._finished.done() and (remaining := deadline - loop.time()) > 0:
            if stop_when_cancelled and cancelled is not None:
                break
            try:
                await asyncio.wait({self._finished}, timeout=remaining)
            except asyncio.CancelledError as error:
                cancelled = error
        return cancelled

    def close(self) -> None:
        """Close the pipes and descriptors of the command. Closing twice is harmless."""
        self.stdin.close()
        self._stdout_pipe.close()
        self._stderr_pipe.close()
        self._outer_process.close()
        if self._inspection_timer is not None:
            self._inspection_timer.cancel()
        if self._control_group is not None:
            self._control_group.remove()
            self._control_group = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop(0)

    def _handle_exit(self) -> None:
        self._popen.poll()
        self._finish()

    def _finish(self) -> None:
        """Read the last output, which is still in the pipes, and mark the command as finished."""
        self._stdout_pipe.read_remaining()
        self._stderr_pipe.read_remaining()
        self.stdin.close()
        if self._finished.done():
            return
        if self._must_end is not None:
            self._must_end()  # a last time: the command may have done its work since
        self._finished.set_result(None)

    @abstractmethod
    def _terminate(self) -> None:
        """Ask the command to end."""

    @abstractmethod
    def _kill(self) -> None:
        """Kill the command and every process that it started."""


class _SandboxedChild(ChildProcess):
    """A command in a sandbox: bubblewrap is our child, and its child is the first process of a PID namespace.

    The kernel kills every process of the namespace when its first process ends.
    """

    writable_folders: tuple[Path, ...] = ()
    """Folders of the host that the command can write to."""
    end_callbacks: Sequence[Callable[[], None]] = ()
    _init_process: ProcessHandle | None = None
    _process_count_timer: asyncio.TimerHandle | None = None

    @classmethod
    async def launch(
        cls, argv: Sequence[str], *, sandbox: Sandbox, stdin: bool, limit: int, **options: Any
    ) -> _SandboxedChild:
        bubblewrap.check_bubblewrap()
        with bubblewrap.build_command_line(argv, sandbox=sandbox, stdin=stdin, gated=True, **options) as line:
            child = cls._spawn(line.argv, limit, env={}, pass_fds=line.pass_fds)
            child.writable_folders = line.writable_folders
            child.end_callbacks = list(line.end_callbacks)
            line.end_callbacks.clear()
        _sandboxed_children.add(child)
        try:
            await child.open_gate(sandbox, stdin)
        except BaseException:
            await child.abort_start()
            raise
        return child

    async def open_gate(self, sandbox: Sandbox, stdin: bool) -> None:
        """Let the command start once it will die with its parent, its process is known, and its limits are set."""
        if await self.stdout.read(1) != b"\n" or not self._find_init_process():
            raise NotStarted(f"The sandbox did not start: {await self._start_error()}.")
        assert self._init_process is not None
        for _ in range(bubblewrap.PARENT_TIE_TIMEOUT_MILLISECONDS):
            if self._init_process.has_ended or bubblewrap.is_tied_to_parent(self._init_process.pid):
                break
            await asyncio.sleep(0.001)
        self._join_control_group(sandbox)
        self.stdin.write(b"\n")
        if not stdin:
            self.stdin.close_when_drained()

    async def abort_start(self) -> None:
        """End a command that has not passed the gate.

        Closing its input ends the command; killing bubblewrap instead could leave the command behind.
        """
        self.stdin.close()
        while not self._finished.done() and not self._find_init_process():
            with suppress(asyncio.CancelledError):  # the caller re-raises the error that led here
                await asyncio.sleep(0.001)
        with suppress(asyncio.CancelledError):
            await self.stop(0)

    async def _start_error(self) -> str:
        output = (await self.stderr.read(CHUNK_BYTES)).decode(errors="replace").strip()
        return output.rpartition("\n")[2].rstrip(".") or "no reason was given"

    def _find_init_process(self) -> bool:
        """Look for the first process of the namespace, the only child of bubblewrap; return whether it is known."""
        if self._init_process is None and not self._outer_process.has_ended:
            with suppress(OSError):
                for pid in child_pids(self._outer_process.pid):
                    self._init_process = ProcessHandle(pid, on_end=self._finish)
        return self._init_process is not None

    def _join_control_group(self, sandbox: Sandbox) -> None:
        """Limit all processes of the command together, where control groups can be used."""
        assert self._init_process is not None
        self._control_group = ControlGroup.try_create(sandbox.processes)
        try:
            if self._control_group is None:
                raise OSError("no control groups")
            self._control_group.limit_memory(int(sandbox.memory))
            for pid in (self._init_process.pid, *child_pids(self._init_process.pid)):
                self._control_group.add_process(pid)
        except OSError:
            # RLIMIT_NPROC does not apply to root, not even inside a user namespace.
            if os.geteuid() == 0:
                self._check_process_count(sandbox.processes)

    def _check_process_count(self, max_processes: int) -> None:
        """Count the processes of the namespace in its own /proc, and kill the command if there are too many."""
        if self._init_process is None or self._init_process.has_ended:
            return
        with suppress(OSError):
            names = os.listdir(f"/proc/{self._init_process.pid}/root/proc")
            if sum(map(str.isdigit, names)) > max_processes:
                self.exceeded_process_limit = True
                self._kill()
        self._process_count_timer = asyncio.get_running_loop().call_later(
            _PROCESS_COUNT_INTERVAL_SECONDS, self._check_process_count, max_processes
        )

    def _finish(self) -> None:
        if not self._outer_process.has_ended:
            return
        if self._init_process is not None:
            if not self._init_process.has_ended:
                return
            self._init_process.reap()
        super()._finish()

    def end_now(self) -> None:
        """Kill the command and wait, without the event loop, until it is dead."""
        if self._init_process is not None:
            self._kill()
            self._init_process.wait_until_dead(_KILL_TIMEOUT_SECONDS)

    def _terminate(self) -> None:
        if self._init_process is not None:
            self._init_process.signal_group(signal.SIGTERM)

    def _kill(self) -> None:
        """Kill the first process of the namespace; the kernel then kills the others."""
        if self._init_process is not None:
            self._init_process.signal(signal.SIGKILL)

    def close(self) -> None:
        super().close()
        callbacks, self.end_callbacks = self.end_callbacks, ()  # taken away first: closing twice calls each once
        for callback in callbacks:
            callback()
        if self._process_count_timer is not None:
            self._process_count_timer.cancel()
        if self._init_process is not None:
            self._init_process.close()


_sandboxed_children: WeakSet[_SandboxedChild] = WeakSet()


def _end_commands_beside(store: Path) -> None:
    """End commands that started before anything was known of a store in their folders, so that they do not hide it."""
    for child in list(_sandboxed_children):
        if any(folder in store.parents for folder in child.writable_folders):
            log.warning("Ended a command that could write to %s, because the store %s is opened.", store.parent, store)
            child.end_now()


PRIVATE_PATHS.on_new_store.append(_end_commands_beside)


@atexit.register
def _end_all_commands() -> None:
    """End sandboxed commands before the interpreter closes the files that their sandboxes mask."""
    for child in list(_sandboxed_children):
        child.end_now()


class _SupervisedChild(ChildProcess):
    """A command without a sandbox: a supervisor is our child, adopts orphans of the command, and kills them all."""

    @classmethod
    def launch(
        cls, argv: Sequence[str], *, cwd: str | os.PathLike[str], unprotected: Unprotected, stdin: bool, limit: int
    ) -> _SupervisedChild:
        limits = json.dumps(unprotected.rlimits)
        program = [sys.executable, "-I", "-S", str(supervisor.__file__), str(os.getpid()), limits, *argv]
        child = cls._spawn(program, limit, env=unprotected.environment, cwd=cwd)
        if os.geteuid() == 0:
            child.limit_processes(unprotected.processes + _SUPERVISOR_PROCESSES)
        if not stdin:
            child.stdin.close()
        return child

    def limit_processes(self, max_processes: int) -> None:
        """Limit the number of processes, where control groups are available."""
        self._control_group = ControlGroup.try_create(max_processes)
        if self._control_group is not None:
            with suppress(OSError):  # the supervisor has ended already
                self._control_group.add_process(self._outer_process.pid)

    def _terminate(self) -> None:
        self._outer_process.signal(signal.SIGUSR1)

    def _kill(self) -> None:
        self._outer_process.signal(signal.SIGTERM)
        self._outer_process.signal(signal.SIGCONT)  # the command may have suspended the supervisor with SIGSTOP
