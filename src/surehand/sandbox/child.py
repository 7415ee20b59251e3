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
from surehand.sandbox.cgroup import Group
from surehand.sandbox.jail import Folder
from surehand.sandbox.pidfd import Process, children_of
from surehand.sandbox.pipes import CHUNK, Incoming, Outgoing
from surehand.sandbox.sandbox import Sandbox, Unprotected

GRACE = 0.5
"""Seconds that a command has to end by itself when it is asked to."""
_PATIENCE = 10.0
"""Seconds after which the kernel is not waited for any longer."""
_SUPERVISORS = 2
"""Processes that look after a command, and are not its own."""
_LOOK = 0.05
"""Seconds between looks at how many processes there are, where nothing else bounds them."""


class Child(ABC):
    """A running command: `stdin`, `stdout` and `stderr`, and its end.

        async with await Child.start(["make"], cwd=root.path, folders=[root]) as child:
            printed = await child.stdout.read()
            code = await child.wait()

    However the block is left, nothing of the command is left: no process, no descriptor.
    """

    _group: Group | None = None

    def __init__(self, popen: subprocess.Popen[bytes], limit: int) -> None:
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self._outer = Process(popen.pid, ended=self._ended)  # first: it is what may fail, for want of descriptors
        self.stdin = Outgoing(popen.stdin)
        self._out, self._err = Incoming(popen.stdout, limit), Incoming(popen.stderr, limit)
        self.stdout, self.stderr = self._out.reader, self._err.reader
        self._popen = popen
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.overgrown = False
        """Whether it was ended because it had too many processes."""

    @classmethod
    def _begun(cls, argv: Sequence[str], limit: int, **options: Any) -> Self:
        popen = subprocess.Popen(argv, stdin=-1, stdout=-1, stderr=-1, bufsize=0, start_new_session=True, **options)
        try:
            return cls(popen, limit)
        except BaseException:
            bubblewrap.discard(popen)
            raise

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str],
        sandbox: Sandbox | Unprotected = bubblewrap.PLAIN,
        folders: Sequence[Folder] = (),
        read: Sequence[str | os.PathLike[str]] = (),
        stdin: bool = False,
        limit: int = CHUNK,
    ) -> Child:
        """Start a command.

        Args:
            folders: what a sandbox shows beside the system; see `sandboxed`.
            read: further paths that it shows, read-only.
            stdin: whether the command may read what is written to `stdin`; else its input is empty.
            limit: bytes that `readline` and its like take at most, and about half of what is read ahead.
        """
        try:
            if isinstance(sandbox, Unprotected):
                return _Supervised.begin(argv, cwd=cwd, surroundings=sandbox, stdin=stdin, limit=limit)
            return await _Jailed.begin(
                argv, cwd=cwd, sandbox=sandbox, folders=folders, read=read, stdin=stdin, limit=limit
            )
        except OSError as error:
            raise NotStarted(f"The command cannot be started: {error.strerror}.") from error

    async def wait(self) -> int:
        """The exit code, once nothing of the command runs any more; above 128 a signal ended it."""
        await asyncio.shield(self._over)
        code = self._popen.returncode
        return code if code >= 0 else 128 - code

    async def stop(self, grace: float = GRACE) -> None:
        """Ask the command to end, end whatever is left of it after `grace` seconds, and wait until it has ended."""
        again = None
        self._over.add_done_callback(lambda _: self.close())  # should this be ended by force, before that
        if grace > 0 and not self._over.done():
            self._ask()
            again = await self._within(grace, give_up=True)
        if not self._over.done():
            self._kill()
            again = await self._within(_PATIENCE) or again
        self.close()
        if again is not None:
            raise again

    async def _within(self, seconds: float, *, give_up: bool = False) -> asyncio.CancelledError | None:
        """Wait for the end. Whoever is cancelled meanwhile still waits, unless there is something harder to try."""
        loop, again = asyncio.get_running_loop(), None
        until = loop.time() + seconds
        while not self._over.done() and (left := until - loop.time()) > 0 and not (give_up and again):
            try:
                await asyncio.wait({self._over}, timeout=left)
            except asyncio.CancelledError as error:
                again = error
        return again

    def close(self) -> None:
        """Close what leads to the command. It may be called more than once."""
        self.stdin.close()
        self._out.close()
        self._err.close()
        self._outer.close()
        if self._group is not None:
            self._group.remove()
            self._group = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop(0)

    def _ended(self) -> None:
        self._popen.poll()
        self._settle()

    def _settle(self) -> None:
        """Everything is over: what was written last is still in the pipes."""
        self._out.drain()
        self._err.drain()
        self.stdin.close()
        if not self._over.done():
            self._over.set_result(None)

    @abstractmethod
    def _ask(self) -> None:
        """Ask the command to end."""

    @abstractmethod
    def _kill(self) -> None:
        """End it, and all that it started."""


class _Jailed(Child):
    """Bubblewrap is our child; its child is the first process of a namespace, which ends with it."""

    _inner: Process | None = None
    _look: asyncio.TimerHandle | None = None

    @classmethod
    async def begin(cls, argv: Sequence[str], *, sandbox: Sandbox, stdin: bool, limit: int, **shown: Any) -> _Jailed:
        bubblewrap.checked()
        with bubblewrap.sandboxed(argv, sandbox=sandbox, stdin=stdin, gated=True, **shown) as jail:
            child = cls._begun(jail.argv, limit, env={}, pass_fds=jail.pass_fds)
        try:
            await child.pass_gate(sandbox, stdin)
        except BaseException:
            await child.turn_back()
            raise
        return child

    async def pass_gate(self, sandbox: Sandbox, stdin: bool) -> None:
        """Hold the command until it cannot get away: it will die with its parent, we know of it, and it is bounded."""
        if await self.stdout.read(1) != b"\n" or not self._meet():
            raise NotStarted(f"The sandbox did not start: {await self._reason()}.")
        assert self._inner is not None
        for _ in range(bubblewrap.ARMING):
            if self._inner.over or bubblewrap.is_armed(self._inner.pid):
                break
            await asyncio.sleep(0.001)
        if os.geteuid() == 0:  # the limit on processes does not bind this user, not even in there
            self._bound(sandbox.processes)
        self.stdin.write(b"\n")
        if not stdin:
            self.stdin.finish()

    async def turn_back(self) -> None:
        """What waits at the gate ends when nobody can open it any more. Bubblewrap, killed, could leave it behind."""
        self.stdin.close()
        while not self._over.done() and not self._meet():
            with suppress(asyncio.CancelledError):  # whoever is cancelled is about to be told so
                await asyncio.sleep(0.001)
        with suppress(asyncio.CancelledError):
            await self.stop(0)

    async def _reason(self) -> str:
        told = (await self.stderr.read(CHUNK)).decode(errors="replace").strip()
        return told.rpartition("\n")[2].rstrip(".") or "no reason was given"

    def _meet(self) -> bool:
        """Whether the namespace's first process is known. While bubblewrap lives, its only child is that."""
        if self._inner is None and not self._outer.over:
            with suppress(OSError):
                for pid in children_of(self._outer.pid):
                    self._inner = Process(pid, ended=self._settle)
        return self._inner is not None

    def _bound(self, processes: int) -> None:
        assert self._inner is not None
        self._group = Group.make(processes)
        try:
            if self._group is None:
                raise OSError("no control groups")
            for pid in (self._inner.pid, *children_of(self._inner.pid)):
                self._group.take(pid)
        except OSError:
            self._watch(processes)

    def _watch(self, processes: int) -> None:
        """Where nothing bounds them, count them."""
        if self._inner is None or self._inner.over:
            return
        with suppress(OSError):
            if sum(map(str.isdigit, os.listdir(f"/proc/{self._inner.pid}/root/proc"))) > processes:
                self.overgrown = True
                self._kill()
        self._look = asyncio.get_running_loop().call_later(_LOOK, self._watch, processes)

    def _settle(self) -> None:
        if self._outer.over and (self._inner is None or self._inner.over):
            if self._inner is not None:
                self._inner.reap()
            super()._settle()

    def _ask(self) -> None:
        if self._inner is not None:
            self._inner.signal_group(signal.SIGTERM)

    def _kill(self) -> None:
        """The kernel ends a namespace with its first process."""
        if self._inner is not None:
            self._inner.signal(signal.SIGKILL)

    def close(self) -> None:
        super().close()
        if self._look is not None:
            self._look.cancel()
        if self._inner is not None:
            self._inner.close()


class _Supervised(Child):
    """A supervisor is our child: orphans of the command fall to it, and it ends them all."""

    @classmethod
    def begin(
        cls, argv: Sequence[str], *, cwd: str | os.PathLike[str], surroundings: Unprotected, stdin: bool, limit: int
    ) -> _Supervised:
        limits = json.dumps(surroundings.most)
        program = [sys.executable, "-I", "-S", str(supervisor.__file__), str(os.getpid()), limits, *argv]
        child = cls._begun(program, limit, env=surroundings.environment, cwd=cwd)
        if os.geteuid() == 0:
            child.bound(surroundings.processes + _SUPERVISORS)
        if not stdin:
            child.stdin.close()
        return child

    def bound(self, processes: int) -> None:
        """Limit how many processes there are at once, where control groups can do that."""
        self._group = Group.make(processes)
        if self._group is not None:
            with suppress(OSError):  # it has ended
                self._group.take(self._outer.pid)

    def _ask(self) -> None:
        self._outer.signal(signal.SIGUSR1)

    def _kill(self) -> None:
        self._outer.signal(signal.SIGTERM)
        self._outer.signal(signal.SIGCONT)  # a command may have stopped it
