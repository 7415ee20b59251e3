"""Task log: writes down what happens to tasks, so that it can be read, and restarts be survived."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self, TypeAlias, TypeGuard

from surehand.workspace.beneath import open_beneath

TaskEvent: TypeAlias = Literal[
    "TASK_CREATED",
    "REASON_DONE",
    "TOOL_CALL_COMPLETED",
    "TOOL_CALL_FAILED",
    "NEED_MORE_INFO",
    "TASK_SUSPENDED",
    "TASK_RESUMED",
    "TASK_COMPLETED",
    "TASK_FAILED",
    "REFLECTION_COMPLETE",
]
STATUS_BY_END_EVENT: Mapping[str, str] = {"TASK_COMPLETED": "completed", "TASK_FAILED": "failed"}
"""Events that end a task, and how it then stands."""

TASKS_FOLDER, INDEX_FILE, PENDING_FILE = "tasks", "index.jsonl", "pending.json"
MAX_LINE_BYTES = 16 << 20
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


def is_task_id(task_id: object) -> TypeGuard[str]:
    """Whether something can be the name of a task's file."""
    return isinstance(task_id, str) and bool(_TASK_ID.match(task_id))


def render_event_line(
    timestamp: float, event: str, task_id: str, data: Mapping[str, Any], messages: Iterable[Any]
) -> bytes:
    """One line of a task's log."""
    told = {
        "ts": int(timestamp * 1000),
        "event": event,
        "taskId": task_id,
        "data": {**data, "newMessages": list(messages)},
    }
    return to_json_line(told)


def to_json_line(value: Any) -> bytes:
    """A value as a line; half a character that some model wrote is no reason to lose it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="replace") + b"\n"


def read_json_lines(file: BinaryIO, *, containing: bytes = b"") -> Iterator[dict[str, Any]]:
    """The lines of a file that hold a mark; those that were cut off, or are no objects, are left out."""
    from pydantic_core import from_json

    while raw := file.readline(MAX_LINE_BYTES):
        if containing not in raw:
            continue
        try:
            told = from_json(raw, allow_inf_nan=False)
        except ValueError:
            continue
        if isinstance(told, dict):
            yield told


def utc_day(timestamp: float) -> str:
    """The day of a moment, in UTC."""
    return datetime.fromtimestamp(timestamp, UTC).date().isoformat()


def is_iso_day(text: object) -> TypeGuard[str]:
    """Whether something is a day as folders are named."""
    try:
        return isinstance(text, str) and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


_APPEND_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY
_INTERRUPTED_ERROR = "The process that worked on the task has ended."


class TaskLog:
    """`async with TaskLog(folder) as log`: the one writer of `tasks/<day>/<id>.jsonl`, `index.jsonl`, `pending.json`.

    Every line is on the disk when the method returns. Tasks that were not ended when the last writer went away are
    marked as failed when the next one comes.
    """

    def __init__(self, folder: str | PathLike[str], *, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = Path(folder).expanduser(), now
        self._lock = threading.Lock()
        self._folder_descriptor = -1
        self._day_by_task: dict[str, str] = {}
        self._started_at_by_task: dict[str, float] = {}
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
        return tuple(self._started_at_by_task)

    async def create(self, task_id: str, input_text: str, *, messages: Iterable[Any] = (), **data: Any) -> None:
        """A task begins."""
        if not is_task_id(task_id):
            raise ValueError(f"{task_id!r} is no id for a task: use letters, digits, `.`, `_` and `-`.")
        await asyncio.to_thread(self._create, task_id, {"inputText": input_text, **data}, list(messages))

    async def append(
        self, task_id: str, event: TaskEvent, data: Mapping[str, Any] | None = None, *, messages: Iterable[Any] = ()
    ) -> None:
        """Something happens to a task; `TASK_COMPLETED` and `TASK_FAILED` end it."""
        await asyncio.to_thread(self._append, task_id, event, dict(data or {}), list(messages))

    # In a thread: the disk is slow

    def _open(self) -> None:
        tasks = self._path / TASKS_FOLDER
        tasks.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder_descriptor = os.open(tasks, _FOLDER_FLAGS | os.O_CLOEXEC)
        try:
            self._recover_interrupted_tasks()
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        with self._lock:  # whoever was cancelled may still write
            os.close(self._folder_descriptor)  # and with it goes the lock on the folder
            self._folder_descriptor = -1

    def _check_open(self) -> None:
        if self._folder_descriptor < 0:
            raise RuntimeError("The task log is not open. Use `async with TaskLog(...) as log:`.")

    def _recover_interrupted_tasks(self) -> None:
        import fcntl

        try:
            fcntl.flock(self._folder_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"Another TaskLog writes to {self._path} already. Close it first.") from None
        self._day_by_task = self._read_index()
        self._started_at_by_task = self._read_pending()
        interrupted = [task_id for task_id in self._started_at_by_task if not self._has_ended(task_id)]
        for task_id in interrupted:
            self._add_to_index(task_id, self._task_day(task_id))
            told = render_event_line(self._now(), "TASK_FAILED", task_id, {"error": _INTERRUPTED_ERROR}, ())
            self._append_line((self._day_by_task[task_id], f"{task_id}.jsonl"), told)
        self._write_pending({})
        self.interrupted = tuple(interrupted)

    def _create(self, task_id: str, data: dict[str, Any], messages: list[Any]) -> None:
        with self._lock:
            self._check_open()
            if task_id in self._day_by_task:
                raise ValueError(f"There is a task {task_id} already.")
            at = self._now()
            first = render_event_line(at, "TASK_CREATED", task_id, data, messages)
            # Noted as begun before anything else: a restart finds it however far this gets.
            self._write_pending({**self._started_at_by_task, task_id: at})
            self._add_to_index(task_id, utc_day(at))
            self._append_line((utc_day(at), f"{task_id}.jsonl"), first)

    def _append(self, task_id: str, event: TaskEvent, data: dict[str, Any], messages: list[Any]) -> None:
        with self._lock:
            self._check_open()
            if task_id not in self._day_by_task:
                raise ValueError(f"There is no task {task_id!r}: `create` it first.")
            told = render_event_line(self._now(), event, task_id, data, messages)
            self._append_line((self._day_by_task[task_id], f"{task_id}.jsonl"), told)
            if event in STATUS_BY_END_EVENT and task_id in self._started_at_by_task:
                self._write_pending({other: at for other, at in self._started_at_by_task.items() if other != task_id})

    def _task_day(self, task_id: str) -> str:
        return self._day_by_task.get(task_id) or utc_day(self._started_at_by_task[task_id])

    def _add_to_index(self, task_id: str, day: str) -> None:
        if task_id not in self._day_by_task:
            self._append_line((INDEX_FILE,), to_json_line({"taskId": task_id, "date": day}))
            self._day_by_task[task_id] = day

    def _read_index(self) -> dict[str, str]:
        with suppress(FileNotFoundError), os.fdopen(open_beneath(self._folder_descriptor, (INDEX_FILE,)), "rb") as file:
            known = [(told.get("taskId"), told.get("date")) for told in read_json_lines(file)]
            return {task_id: on for task_id, on in known if is_task_id(task_id) and is_iso_day(on)}
        return {}

    def _read_pending(self) -> dict[str, float]:
        try:
            with os.fdopen(open_beneath(self._folder_descriptor, (PENDING_FILE,)), "rb") as file:
                noted = json.loads(file.read())
            return {each["taskId"]: each["ts"] / 1000 for each in noted if is_task_id(each["taskId"])}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError):
            # Not ours: what it says cannot be known, and every log that has no end says the same.
            return {task_id: self._now() for task_id in self._day_by_task if not self._has_ended(task_id)}

    def _has_ended(self, task_id: str) -> bool:
        place = (self._task_day(task_id), f"{task_id}.jsonl")
        with suppress(FileNotFoundError), os.fdopen(open_beneath(self._folder_descriptor, place), "rb") as file:
            return any(told.get("event") in STATUS_BY_END_EVENT for told in read_json_lines(file, containing=b'"TASK_'))
        return False

    def _write_pending(self, pending: dict[str, float]) -> None:
        """The new list whole, or the old one."""
        noted = [{"taskId": task_id, "ts": int(at * 1000)} for task_id, at in pending.items()]
        temporary = f".{PENDING_FILE}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=self._folder_descriptor), "wb") as file:
            file.write(to_json_line(noted))
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, PENDING_FILE, src_dir_fd=self._folder_descriptor, dst_dir_fd=self._folder_descriptor)
        os.fsync(self._folder_descriptor)
        self._started_at_by_task = pending

    def _append_line(self, path: tuple[str, ...], line: bytes) -> None:
        """Add one line, and have it on the disk."""
        if len(path) > 1:
            with suppress(FileExistsError):
                os.mkdir(path[0], 0o700, dir_fd=self._folder_descriptor)
                os.fsync(self._folder_descriptor)
        descriptor = open_beneath(self._folder_descriptor, path, _APPEND_FLAGS, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # the last writer died within a line
            _write_all(descriptor, line)
            os.fsync(descriptor)
            if not size:
                self._sync_folder(path[:-1])
        finally:
            os.close(descriptor)

    def _sync_folder(self, folder: tuple[str, ...]) -> None:
        """A new file's name, too, has to be on the disk."""
        descriptor = open_beneath(self._folder_descriptor, folder, _FOLDER_FLAGS)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    """A full disk takes a part, and then nothing: what it took is taken back."""
    begin = os.fstat(descriptor).st_size
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        os.ftruncate(descriptor, begin)
        raise
