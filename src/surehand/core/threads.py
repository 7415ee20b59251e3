"""Daemon threads for sync handlers: a thread that will not end can be left behind without harm."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from surehand.core.errors import NotStarted


class _Work:
    """One function to run, and the future that waits for it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.run = function
        self.context = contextvars.copy_context()
        self.started = self.finished = self.abandoned = False

    def settle(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        elif isinstance(error, StopIteration):  # a future cannot carry it
            self.future.set_exception(RuntimeError(f"the handler raised {error!r}"))
        else:
            self.future.set_exception(error)


class Threads:
    """At most `size` threads at work; an abandoned one is replaced, until `most_abandoned` are left behind."""

    def __init__(self, size: int = 32, most_abandoned: int = 64) -> None:
        self._size, self._most_abandoned = size, most_abandoned
        self._work: deque[_Work] = deque()
        self._ready = threading.Condition()
        self._alive = self._idle = 0
        self._closed = False
        self.abandoned = 0
        """Threads still running a handler whose caller has gone."""

    async def run(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread; when the caller is cancelled, the thread is left to itself."""
        if self.abandoned >= self._most_abandoned:
            raise NotStarted(
                f"{self.abandoned} earlier calls still occupy their threads after their time limit. Try again later."
            )
        work = _Work(function)
        self._submit(work)
        try:
            return await work.future
        except asyncio.CancelledError:
            self._abandon(work)
            raise

    def _submit(self, work: _Work) -> None:
        with self._ready:
            self._work.append(work)
            if self._idle >= len(self._work) or self._alive - self.abandoned >= self._size:
                self._ready.notify()
                return
            self._hire()

    def _hire(self) -> None:
        """One more thread; it counts as idle until it takes something, so that nobody hires twice for one work."""
        self._alive += 1
        self._idle += 1
        threading.Thread(target=self._serve, name="surehand", daemon=True).start()

    def _abandon(self, work: _Work) -> None:
        with self._ready:
            if work in self._work:
                self._work.remove(work)
            elif work.started and not work.finished:
                work.abandoned = True
                self.abandoned += 1
                if self._work and not self._idle:  # somebody waits for the thread that will not come back
                    self._hire()

    def _serve(self) -> None:
        while work := self._next():
            result, error = None, None
            try:
                result = work.context.run(work.run)
            except BaseException as raised:  # noqa: BLE001 - handed to whoever waits for it
                error = raised
            if self._finished(work):
                return
            with suppress(RuntimeError):  # the loop was closed in the meantime: nobody is left to tell
                work.loop.call_soon_threadsafe(work.settle, result, error)
            del work, result, error

    def _next(self) -> _Work | None:
        with self._ready:
            while not self._work and not self._closed:
                self._ready.wait()
            self._idle -= 1
            if not self._work:
                self._alive -= 1
                return None
            work = self._work.popleft()
            work.started = True
            return work

    def _finished(self, work: _Work) -> bool:
        """Whether this thread was abandoned, and so has been replaced."""
        with self._ready:
            work.finished = True
            if not work.abandoned:
                self._idle += 1  # before anybody is told: whoever asks next finds this thread free
                return False
            self.abandoned -= 1
            self._alive -= 1
            return True

    def close(self) -> None:
        """Let idle threads end. Abandoned ones are daemons and never keep the process alive."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
