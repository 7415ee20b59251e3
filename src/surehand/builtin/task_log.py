"""Task log: writes down what happens to tasks, so that it can be read, and restarts be survived."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from surehand.builtin.beneath import open_beneath
from surehand.builtin.task_lines import ENDS, INDEX, PENDING, TASKS, Event, day, is_day, is_id, line, read, written

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_INTERRUPTED = "The process that worked on the task has ended."


class TaskLog:
    """`async with TaskLog(folder) as log`: the one writer of `tasks/<day>/<id>.jsonl`, `index.jsonl`, `pending.json`.

    Every line is on the disk when the method returns. Tasks that were not ended when the last writer went away are
    marked as failed when the next one comes.
    """

    def __init__(self, folder: str | PathLike[str], *, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = Path(folder).expanduser(), now
        self._lock = threading.Lock()
        self._folder = -1
        self._days: dict[str, str] = {}
        self._pending: dict[str, float] = {}
        self.interrupted: tuple[str, ...] = ()
        """Tasks that were marked as failed at the start."""

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._close)

    @property
    def pending(self) -> tuple[str, ...]:
        """Tasks that have begun and not ended, the oldest first."""
        return tuple(self._pending)

    async def create(self, task_id: str, input_text: str, *, messages: Iterable[Any] = (), **data: Any) -> None:
        """A task begins."""
        if not is_id(task_id):
            raise ValueError(f"{task_id!r} is no id for a task: use letters, digits, `.`, `_` and `-`.")
        await asyncio.to_thread(self._create, task_id, {"inputText": input_text, **data}, list(messages))

    async def append(
        self, task_id: str, event: Event, data: Mapping[str, Any] | None = None, *, messages: Iterable[Any] = ()
    ) -> None:
        """Something happens to a task; `TASK_COMPLETED` and `TASK_FAILED` end it."""
        await asyncio.to_thread(self._append, task_id, event, dict(data or {}), list(messages))

    # In a thread: the disk is slow

    def _open(self) -> None:
        tasks = self._path / TASKS
        tasks.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = os.open(tasks, _FOLDER | os.O_CLOEXEC)
        try:
            self._take_over()
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        with self._lock:  # whoever was cancelled may still write
            os.close(self._folder)  # and with it goes the lock on the folder
            self._folder = -1

    def _check_open(self) -> None:
        if self._folder < 0:
            raise RuntimeError("The task log is not open. Use `async with TaskLog(...) as log:`.")

    def _take_over(self) -> None:
        import fcntl

        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"Another TaskLog writes to {self._path} already. Close it first.") from None
        self._days = self._indexed()
        self._pending = self._noted()
        interrupted = [task_id for task_id in self._pending if not self._ended(task_id)]
        for task_id in interrupted:
            self._index(task_id, self._day(task_id))
            told = line(self._now(), "TASK_FAILED", task_id, {"error": _INTERRUPTED}, ())
            self._write((self._days[task_id], f"{task_id}.jsonl"), told)
        self._note({})
        self.interrupted = tuple(interrupted)

    def _create(self, task_id: str, data: dict[str, Any], messages: list[Any]) -> None:
        with self._lock:
            self._check_open()
            if task_id in self._days:
                raise ValueError(f"There is a task {task_id} already.")
            at = self._now()
            first = line(at, "TASK_CREATED", task_id, data, messages)
            # Noted as begun before anything else: a restart finds it however far this gets.
            self._note({**self._pending, task_id: at})
            self._index(task_id, day(at))
            self._write((day(at), f"{task_id}.jsonl"), first)

    def _append(self, task_id: str, event: Event, data: dict[str, Any], messages: list[Any]) -> None:
        with self._lock:
            self._check_open()
            if task_id not in self._days:
                raise ValueError(f"There is no task {task_id!r}: `create` it first.")
            told = line(self._now(), event, task_id, data, messages)
            self._write((self._days[task_id], f"{task_id}.jsonl"), told)
            if event in ENDS and task_id in self._pending:
                self._note({other: at for other, at in self._pending.items() if other != task_id})

    def _day(self, task_id: str) -> str:
        return self._days.get(task_id) or day(self._pending[task_id])

    def _index(self, task_id: str, on: str) -> None:
        if task_id not in self._days:
            self._write((INDEX,), written({"taskId": task_id, "date": on}))
            self._days[task_id] = on

    def _indexed(self) -> dict[str, str]:
        with suppress(FileNotFoundError), os.fdopen(open_beneath(self._folder, (INDEX,)), "rb") as file:
            known = [(told.get("taskId"), told.get("date")) for told in read(file)]
            return {task_id: on for task_id, on in known if is_id(task_id) and is_day(on)}
        return {}

    def _noted(self) -> dict[str, float]:
        try:
            with os.fdopen(open_beneath(self._folder, (PENDING,)), "rb") as file:
                noted = json.loads(file.read())
            return {each["taskId"]: each["ts"] / 1000 for each in noted if is_id(each["taskId"])}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError):
            # Not ours: what it says cannot be known, and every log that has no end says the same.
            return {task_id: self._now() for task_id in self._days if not self._ended(task_id)}

    def _ended(self, task_id: str) -> bool:
        place = (self._day(task_id), f"{task_id}.jsonl")
        with suppress(FileNotFoundError), os.fdopen(open_beneath(self._folder, place), "rb") as file:
            return any(told.get("event") in ENDS for told in read(file, holding=b'"TASK_'))
        return False

    def _note(self, pending: dict[str, float]) -> None:
        """The new list whole, or the old one."""
        noted = [{"taskId": task_id, "ts": int(at * 1000)} for task_id, at in pending.items()]
        temporary = f".{PENDING}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=self._folder), "wb") as file:
            file.write(written(noted))
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, PENDING, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)
        self._pending = pending

    def _write(self, place: tuple[str, ...], told: bytes) -> None:
        """Add one line, and have it on the disk."""
        if len(place) > 1:
            with suppress(FileExistsError):
                os.mkdir(place[0], 0o700, dir_fd=self._folder)
                os.fsync(self._folder)
        descriptor = open_beneath(self._folder, place, _APPEND, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                told = b"\n" + told  # the last writer died within a line
            _write_all(descriptor, told)
            os.fsync(descriptor)
            if not size:
                self._sync(place[:-1])
        finally:
            os.close(descriptor)

    def _sync(self, folder: tuple[str, ...]) -> None:
        """A new file's name, too, has to be on the disk."""
        descriptor = open_beneath(self._folder, folder, _FOLDER)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, told: bytes) -> None:
    """A full disk takes a part, and then nothing: what it took is taken back."""
    begin = os.fstat(descriptor).st_size
    try:
        while told:
            told = told[os.write(descriptor, told) :]
    except OSError:
        os.ftruncate(descriptor, begin)
        raise
