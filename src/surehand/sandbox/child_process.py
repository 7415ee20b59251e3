"""Child: a process with all that it starts, in a sandbox or not, of which nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

from surehand.core.errors import NotStarted
from surehand.sandbox import bubblewrap, supervisor
from surehand.sandbox.cgroup import ControlGroup
from surehand.sandbox.command_line import BindMount
from surehand.sandbox.pidfd import ProcessHandle, child_pids
from surehand.sandbox.pipes import CHUNK_BYTES, PipeReader, PipeWriter
from surehand.sandbox.sandbox import Sandbox, Unprotected

STOP_GRACE_SECONDS = 0.5
"""Seconds that a command has to end by itself when it is asked to."""
_KILL_TIMEOUT_SECONDS = 10.0
"""Seconds after which the kernel is not waited for any longer."""
_SUPERVISOR_PROCESSES = 2
"""Processes that look after a command, and are not its own."""
_PROCESS_COUNT_INTERVAL_SECONDS = 0.05
"""Seconds between looks at how many processes there are, where nothing else bounds them."""


class ChildProcess(ABC):
    """A running command: `stdin`, `stdout` and `stderr`, and its end.

        async with await Child.start(["make"], cwd=root.path, folders=[root]) as child:
            printed = await child.stdout.read()
            code = await child.wait()

    However the block is left, nothing of the command is left: no process, no descriptor.
    """

    _control_group: ControlGroup | None = None

    def __init__(self, popen: subprocess.Popen[bytes], limit: int) -> None:
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self._outer_process = ProcessHandle(
            popen.pid, on_end=self._handle_exit
        )  # first: it is what may fail, for want of descriptors
        self.stdin = PipeWriter(popen.stdin)
        self._stdout_pipe, self._stderr_pipe = PipeReader(popen.stdout, limit), PipeReader(popen.stderr, limit)
        self.stdout, self.stderr = self._stdout_pipe.reader, self._stderr_pipe.reader
        self._popen = popen
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.exceeded_process_limit = False
        """Whether it was ended because it had too many processes."""

    @classmethod
    def _spawn(cls, argv: Sequence[str], limit: int, **options: Any) -> Self:
        popen = subprocess.Popen(argv, stdin=-1, stdout=-1, stderr=-1, bufsize=0, start_new_session=True, **options)
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
    ) -> ChildProcess:
        """Start a command.

        Args:
            folders: what a sandbox shows beside the system; see `sandboxed`.
            read: further paths that it shows, read-only.
            stdin: whether the command may read what is written to `stdin`; else its input is empty.
            limit: bytes that `readline` and its like take at most, and about half of what is read ahead.
        """
        try:
            if isinstance(sandbox, Unprotected):
                return _SupervisedChild.launch(argv, cwd=cwd, surroundings=sandbox, stdin=stdin, limit=limit)
            return await _SandboxedChild.launch(
                argv, cwd=cwd, sandbox=sandbox, folders=folders, read=read, stdin=stdin, limit=limit
            )
        except OSError as error:
            raise NotStarted(f"The command cannot be started: {error.strerror}.") from error

    async def wait(self) -> int:
        """The exit code, once nothing of the command runs any more; above 128 a signal ended it."""
        await asyncio.shield(self._finished)
        code = self._popen.returncode
        return code if code >= 0 else 128 - code

    async def stop(self, grace: float = STOP_GRACE_SECONDS) -> None:
        """Ask the command to end, end whatever is left of it after `grace` seconds, and wait until it has ended."""
        again = None
        self._finished.add_done_callback(lambda _: self.close())  # should this be ended by force, before that
        if grace > 0 and not self._finished.done():
            self._terminate()
            again = await self._wait_for_end(grace, stop_when_cancelled=True)
        if not self._finished.done():
            self._kill()
            again = await self._wait_for_end(_KILL_TIMEOUT_SECONDS) or again
        self.close()
        if again is not None:
            raise again

    async def _wait_for_end(
        self, seconds: float, *, stop_when_cancelled: bool = False
    ) -> asyncio.CancelledError | None:
        """Wait for the end. Whoever is cancelled meanwhile still waits, unless there is something harder to try."""
        loop, again = asyncio.get_running_loop(), None
        until = loop.time() + seconds
        while not self._finished.done() and (left := until - loop.time()) > 0 and not (stop_when_cancelled and again):
            try:
                await asyncio.wait({self._finished}, timeout=left)
            except asyncio.CancelledError as error:
                again = error
        return again

    def close(self) -> None:
        """Close what leads to the command. It may be called more than once."""
        self.stdin.close()
        self._stdout_pipe.close()
        self._stderr_pipe.close()
        self._outer_process.close()
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
        """Everything is over: what was written last is still in the pipes."""
        self._stdout_pipe.read_remaining()
        self._stderr_pipe.read_remaining()
        self.stdin.close()
        if not self._finished.done():
            self._finished.set_result(None)

    @abstractmethod
    def _terminate(self) -> None:
        """Ask the command to end."""

    @abstractmethod
    def _kill(self) -> None:
        """End it, and all that it started."""


class _SandboxedChild(ChildProcess):
    """Bubblewrap is our child; its child is the first process of a namespace, which ends with it."""

    _init_process: ProcessHandle | None = None
    _process_count_timer: asyncio.TimerHandle | None = None

    @classmethod
    async def launch(
        cls, argv: Sequence[str], *, sandbox: Sandbox, stdin: bool, limit: int, **options: Any
    ) -> _SandboxedChild:
        bubblewrap.check_bubblewrap()
        with bubblewrap.build_command_line(argv, sandbox=sandbox, stdin=stdin, gated=True, **options) as jail:
            child = cls._spawn(jail.argv, limit, env={}, pass_fds=jail.pass_fds)
        try:
            await child.open_gate(sandbox, stdin)
        except BaseException:
            await child.abort_start()
            raise
        return child

    async def open_gate(self, sandbox: Sandbox, stdin: bool) -> None:
        """Hold the command until it cannot get away: it will die with its parent, we know of it, and it is bounded."""
        if await self.stdout.read(1) != b"\n" or not self._find_init_process():
            raise NotStarted(f"The sandbox did not start: {await self._start_error()}.")
        assert self._init_process is not None
        for _ in range(bubblewrap.ARMING_TIMEOUT_MILLISECONDS):
            if self._init_process.has_ended or bubblewrap.is_tied_to_parent(self._init_process.pid):
                break
            await asyncio.sleep(0.001)
        if os.geteuid() == 0:  # the limit on processes does not bind this user, not even in there
            self._limit_processes(sandbox.processes)
        self.stdin.write(b"\n")
        if not stdin:
            self.stdin.close_when_drained()

    async def abort_start(self) -> None:
        """What waits at the gate ends when nobody can open it any more. Bubblewrap, killed, could leave it behind."""
        self.stdin.close()
        while not self._finished.done() and not self._find_init_process():
            with suppress(asyncio.CancelledError):  # whoever is cancelled is about to be told so
                await asyncio.sleep(0.001)
        with suppress(asyncio.CancelledError):
            await self.stop(0)

    async def _start_error(self) -> str:
        told = (await self.stderr.read(CHUNK_BYTES)).decode(errors="replace").strip()
        return told.rpartition("\n")[2].rstrip(".") or "no reason was given"

    def _find_init_process(self) -> bool:
        """Whether the namespace's first process is known. While bubblewrap lives, its only child is that."""
        if self._init_process is None and not self._outer_process.has_ended:
            with suppress(OSError):
                for pid in child_pids(self._outer_process.pid):
                    self._init_process = ProcessHandle(pid, on_end=self._finish)
        return self._init_process is not None

    def _limit_processes(self, max_processes: int) -> None:
        assert self._init_process is not None
        self._control_group = ControlGroup.try_create(max_processes)
        try:
            if self._control_group is None:
                raise OSError("no control groups")
            for pid in (self._init_process.pid, *child_pids(self._init_process.pid)):
                self._control_group.add_process(pid)
        except OSError:
            self._check_process_count(max_processes)

    def _check_process_count(self, max_processes: int) -> None:
        """Where nothing bounds them, count them."""
        if self._init_process is None or self._init_process.has_ended:
            return
        with suppress(OSError):
            if sum(map(str.isdigit, os.listdir(f"/proc/{self._init_process.pid}/root/proc"))) > max_processes:
                self.exceeded_process_limit = True
                self._kill()
        self._process_count_timer = asyncio.get_running_loop().call_later(
            _PROCESS_COUNT_INTERVAL_SECONDS, self._check_process_count, max_processes
        )

    def _finish(self) -> None:
        if self._outer_process.has_ended and (self._init_process is None or self._init_process.has_ended):
            if self._init_process is not None:
                self._init_process.reap()
            super()._finish()

    def _terminate(self) -> None:
        if self._init_process is not None:
            self._init_process.signal_group(signal.SIGTERM)

    def _kill(self) -> None:
        """The kernel ends a namespace with its first process."""
        if self._init_process is not None:
            self._init_process.signal(signal.SIGKILL)

    def close(self) -> None:
        super().close()
        if self._process_count_timer is not None:
            self._process_count_timer.cancel()
        if self._init_process is not None:
            self._init_process.close()


class _SupervisedChild(ChildProcess):
    """A supervisor is our child: orphans of the command fall to it, and it ends them all."""

    @classmethod
    def launch(
        cls, argv: Sequence[str], *, cwd: str | os.PathLike[str], surroundings: Unprotected, stdin: bool, limit: int
    ) -> _SupervisedChild:
        limits = json.dumps(surroundings.rlimits)
        program = [sys.executable, "-I", "-S", str(supervisor.__file__), str(os.getpid()), limits, *argv]
        child = cls._spawn(program, limit, env=surroundings.environment, cwd=cwd)
        if os.geteuid() == 0:
            child.limit_processes(surroundings.processes + _SUPERVISOR_PROCESSES)
        if not stdin:
            child.stdin.close()
        return child

    def limit_processes(self, max_processes: int) -> None:
        """Limit how many processes there are at once, where control groups can do that."""
        self._control_group = ControlGroup.try_create(max_processes)
        if self._control_group is not None:
            with suppress(OSError):  # it has ended
                self._control_group.add_process(self._outer_process.pid)

    def _terminate(self) -> None:
        self._outer_process.signal(signal.SIGUSR1)

    def _kill(self) -> None:
        self._outer_process.signal(signal.SIGTERM)
        self._outer_process.signal(signal.SIGCONT)  # a command may have stopped it
