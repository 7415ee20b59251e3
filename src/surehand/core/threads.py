"""The threads that sync handlers run in.

A thread cannot be stopped from outside. When a call is cancelled or times out, its thread is abandoned: it is replaced,
and its slot is free again. All threads are daemons, so that an abandoned one does not keep the process alive. This is
why `concurrent.futures` is not used: it joins its threads at exit.
"""

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
    """A function to run in a thread, and the future of the caller that waits for it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.function = function
        # A new thread has an empty context: without a copy, `Context.get` would find no call in it.
        self.context = contextvars.copy_context()
        # Changed under the condition's lock only: the event loop and the thread both decide by them.
        self.is_started = False
        self.is_finished = False
        self.is_abandoned = False

    def set_result(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        elif isinstance(error, StopIteration):  # `Future.set_exception` refuses it
            self.future.set_exception(RuntimeError(f"the handler raised {error!r}"))
        else:
            self.future.set_exception(error)


class HandlerThreads:
    """Runs functions in at most `max_threads` threads. Abandoned ones are replaced, up to `max_abandoned` of them."""

    def __init__(self, max_threads: int = 32, max_abandoned: int = 64) -> None:
        self._max_threads = max_threads
        self._max_abandoned = max_abandoned
        self._jobs: deque[_ThreadJob] = deque()
        self._condition = threading.Condition()
        self._thread_count = 0
        self._idle_count = 0
        self._closed = False
        self.abandoned_count = 0
        """Threads that still run a handler whose call has been cancelled."""

    async def run(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread; if the caller is cancelled, the thread is abandoned."""
        if self.abandoned_count >= self._max_abandoned:
            problem = f"{self.abandoned_count} earlier calls still occupy their threads after their time limit."
            raise NotStarted(f"{problem} Try again later.")
        job = _ThreadJob(function)
        self._submit(job)
        try:
            return await job.future
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def _submit(self, job: _ThreadJob) -> None:
        with self._condition:
            self._jobs.append(job)
            has_idle_thread = self._idle_count >= len(self._jobs)
            active_count = self._thread_count - self.abandoned_count
            if has_idle_thread or active_count >= self._max_threads:
                self._condition.notify()
                return
            self._start_thread()

    def _start_thread(self) -> None:
        """Start one more thread. It counts as idle at once, so that the next job does not start another for itself."""
        self._thread_count += 1
        self._idle_count += 1
        threading.Thread(target=self._run_jobs, name="surehand", daemon=True).start()

    def _abandon(self, job: _ThreadJob) -> None:
        with self._condition:
            if job in self._jobs:
                self._jobs.remove(job)
            elif job.is_started and not job.is_finished:
                job.is_abandoned = True
                self.abandoned_count += 1
                if self._jobs and not self._idle_count:  # a job waits for the thread that is now lost
                    self._start_thread()

    def _run_jobs(self) -> None:
        while job := self._next_job():
            result = None
            error = None
            try:
                result = job.context.run(job.function)
            except BaseException as raised:  # noqa: BLE001 - raised again in the task that waits for the job
                error = raised
            if self._mark_finished(job):
                return
            # A future belongs to its event loop: only that loop's thread may complete it.
            with suppress(RuntimeError):  # the event loop has been closed, and no task waits any more
                job.loop.call_soon_threadsafe(job.set_result, result, error)
            del job, result, error  # while the thread waits for its next job, it must not keep these alive

    def _next_job(self) -> _ThreadJob | None:
        with self._condition:
            while not self._jobs and not self._closed:
                self._condition.wait()
            self._idle_count -= 1
            if not self._jobs:
                self._thread_count -= 1
                return None
            job = self._jobs.popleft()
            job.is_started = True
            return job

    def _mark_finished(self, job: _ThreadJob) -> bool:
        """Note that a job has ended; return whether this thread was abandoned, and so has been replaced."""
        with self._condition:
            job.is_finished = True
            if not job.is_abandoned:
                # Before the caller gets its result: its next job then finds this thread idle.
                self._idle_count += 1
                return False
            self.abandoned_count -= 1
            self._thread_count -= 1
            return True

    def close(self) -> None:
        """End idle threads. Abandoned ones are daemons and do not keep the process alive."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
