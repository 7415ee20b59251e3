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


class _ThreadJob:
    """One function to run, and the future that waits for it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.function = function
        self.context = contextvars.copy_context()
        self.started = self.finished = self.abandoned = False

    def set_result(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        elif isinstance(error, StopIteration):  # a future cannot carry it
            self.future.set_exception(RuntimeError(f"the handler raised {error!r}"))
        else:
            self.future.set_exception(error)


class HandlerThreads:
    """At most `size` threads at work; an abandoned one is replaced, until `most_abandoned` are left behind."""

    def __init__(self, max_threads: int = 32, max_abandoned: int = 64) -> None:
        self._max_threads, self._max_abandoned = max_threads, max_abandoned
        self._jobs: deque[_ThreadJob] = deque()
        self._condition = threading.Condition()
        self._thread_count = self._idle_count = 0
        self._closed = False
        self.abandoned = 0
        "HandlerThreadsds still running a handler whose caller has gone."

    async def run(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread; when the caller is cancelled, the thread is left to itself."""
        if self.abandoned >= self._max_abandoned:
            raise NotStarted(
                f"{self.abandoned} earlier calls still occupy their threads after their time limit. Try again later."
            )
        work = _ThreadJob(function)
        self._submit(work)
        try:
            return await work.future
        except asyncio.CancelledError:
            self._abandon(work)
            raise

    def _submit(self, job: _ThreadJob) -> None:
        with self._condition:
            self._jobs.append(job)
            if self._idle_count >= len(self._jobs) or self._thread_count - self.abandoned >= self._max_threads:
                self._condition.notify()
                return
            self._start_thread()

    def _start_thread(self) -> None:
        """One more thread; it counts as idle until it takes something, so that nobody hires twice for one work."""
        self._thread_count += 1
        self._idle_count += 1
        threading.Thread(target=self._run_jobs, name="surehand", daemon=True).start()

    def _abandon(self, job: _ThreadJob) -> None:
        with self._condition:
            if job in self._jobs:
                self._jobs.remove(job)
            elif job.started and not job.finished:
                job.abandoned = True
                self.abandoned += 1
                if self._jobs and not self._idle_count:  # somebody waits for the thread that will not come back
                    self._start_thread()

    def _run_jobs(self) -> None:
        while work := self._next_job():
            result, error = None, None
            try:
                result = work.context.run(work.function)
            except BaseException as raised:  # noqa: BLE001 - handed to whoever waits for it
                error = raised
            if self._mark_finished(work):
                return
            with suppress(RuntimeError):  # the loop was closed in the meantime: nobody is left to tell
                work.loop.call_soon_threadsafe(work.set_result, result, error)
            del work, result, error

    def _next_job(self) -> _ThreadJob | None:
        with self._condition:
            while not self._jobs and not self._closed:
                self._condition.wait()
            self._idle_count -= 1
            if not self._jobs:
                self._thread_count -= 1
                return None
            work = self._jobs.popleft()
            work.started = True
            return work

    def _mark_finished(self, job: _ThreadJob) -> bool:
        """Whether this thread was abandoned, and so has been replaced."""
        with self._condition:
            job.finished = True
            if not job.abandoned:
                self._idle_count += 1  # before anybody is told: whoever asks next finds this thread free
                return False
            self.abandoned -= 1
            self._thread_count -= 1
            return True

    def close(self) -> None:
        """Let idle threads end. Abandoned ones are daemons and never keep the process alive."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
