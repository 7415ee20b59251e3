"""The log of an agent's tasks in a folder, one JSON Lines file a task. `TaskLog` writes it and `tasks` reads it."""

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

from pydantic_core import from_json

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
"""Events that end a task, and the status that the task then has."""

TASKS_FOLDER = "tasks"
INDEX_FILE = "index.jsonl"
"""The day of each task."""
PENDING_FILE = "pending.json"
"""Tasks that have started and not ended."""
MAX_LINE_BYTES = 16 << 20
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_APPEND_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY
_INTERRUPTED_ERROR = "The process that worked on the task has ended."


class TaskLog:
    """The only writer of `tasks/<day>/<id>.jsonl`, `index.jsonl` and `pending.json`; use `async with TaskLog(folder)`.

    Every line is on the disk when the method returns. Opening the log marks tasks as failed that the last writer
    left unfinished.
    """

    def __init__(self, folder: str | PathLike[str], *, now: Callable[[], float] = time.time) -> None:
        self._path = Path(folder).expanduser()
        self._now = now
        self._lock = threading.Lock()
        self._folder_descriptor = -1
        self._day_by_task: dict[str, str] = {}
        self._started_at_by_task: dict[str, float] = {}
        self.interrupted: tuple[str, ...] = ()
        """Tasks that were marked as failed when the log was opened."""

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._close)

    @property
    def pending(self) -> tuple[str, ...]:
        """Tasks that have started and not ended, the oldest first."""
        return tuple(self._started_at_by_task)

    async def create(
        self, task_id: str, input_text: str, *, user: str | None = None, messages: Iterable[Any] = (), **data: Any
    ) -> None:
        """Record a new task. Only calls for the same user see it; without `user`, only calls without a user."""
        if not is_task_id(task_id):
            raise ValueError(f"`task_id` must consist of letters, digits, `.`, `_` and `-`, got {task_id!r}.")
        owner = {} if user is None else {"user": user}
        await asyncio.to_thread(self._create, task_id, {"inputText": input_text, **owner, **data}, list(messages))

    async def append(
        self, task_id: str, event: TaskEvent, data: Mapping[str, Any] | None = None, *, messages: Iterable[Any] = ()
    ) -> None:
        """Record an event of a task; `TASK_COMPLETED` and `TASK_FAILED` end the task."""
        await asyncio.to_thread(self._append, task_id, event, dict(data or {}), list(messages))

    # The methods below block on the disk and run in a thread.

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
        with self._lock:  # the thread of a cancelled caller may still be writing
            os.close(self._folder_descriptor)  # this also releases the flock
            self._folder_descriptor = -1

    def _check_open(self) -> None:
        if self._folder_descriptor < 0:
            raise RuntimeError("The task log is not open. Use `async with TaskLog(...) as log:`.")

    def _recover_interrupted_tasks(self) -> None:
        import fcntl  # not available on Windows

        try:
            # Held until the descriptor is closed, so that the kernel releases it however the process ends.
            fcntl.flock(self._folder_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"Another TaskLog is writing to {self._path}. Close it first.") from None
        self._day_by_task = self._read_index()
        self._started_at_by_task = self._read_pending()
        interrupted = [task_id for task_id in self._started_at_by_task if not self._has_ended(task_id)]
        for task_id in interrupted:
            self._add_to_index(task_id, self._task_day(task_id))
            line = render_event_line(self._now(), "TASK_FAILED", task_id, {"error": _INTERRUPTED_ERROR}, ())
            self._append_line((self._day_by_task[task_id], f"{task_id}.jsonl"), line)
        self._write_pending({})
        self.interrupted = tuple(interrupted)

    def _create(self, task_id: str, data: dict[str, Any], messages: list[Any]) -> None:
        with self._lock:
            self._check_open()
            if task_id in self._day_by_task:
                raise ValueError(f"The task {task_id!r} exists already.")
            now = self._now()
            day = utc_day(now)
            line = render_event_line(now, "TASK_CREATED", task_id, data, messages)
            # Recorded as pending first: after a crash at any later step, the next start finds the task.
            self._write_pending({**self._started_at_by_task, task_id: now})
            self._add_to_index(task_id, day)
            self._append_line((day, f"{task_id}.jsonl"), line)

    def _append(self, task_id: str, event: TaskEvent, data: dict[str, Any], messages: list[Any]) -> None:
        with self._lock:
            self._check_open()
            if task_id not in self._day_by_task:
                raise ValueError(f"The task {task_id!r} does not exist. Call `create` first.")
            line = render_event_line(self._now(), event, task_id, data, messages)
            self._append_line((self._day_by_task[task_id], f"{task_id}.jsonl"), line)
            if event in STATUS_BY_END_EVENT and task_id in self._started_at_by_task:
                remaining = {other: at for other, at in self._started_at_by_task.items() if other != task_id}
                self._write_pending(remaining)

    def _task_day(self, task_id: str) -> str:
        return self._day_by_task.get(task_id) or utc_day(self._started_at_by_task[task_id])

    def _add_to_index(self, task_id: str, day: str) -> None:
        if task_id not in self._day_by_task:
            self._append_line((INDEX_FILE,), to_json_line({"taskId": task_id, "date": day}))
            self._day_by_task[task_id] = day

    def _read_index(self) -> dict[str, str]:
        with suppress(FileNotFoundError), os.fdopen(open_beneath(self._folder_descriptor, (INDEX_FILE,)), "rb") as file:
            entries = [(entry.get("taskId"), entry.get("date")) for entry in read_json_lines(file)]
            return {task_id: day for task_id, day in entries if is_task_id(task_id) and is_iso_day(day)}
        return {}

    def _read_pending(self) -> dict[str, float]:
        try:
            with os.fdopen(open_beneath(self._folder_descriptor, (PENDING_FILE,)), "rb") as file:
                entries = json.loads(file.read())
            return {entry["taskId"]: entry["ts"] / 1000 for entry in entries if is_task_id(entry["taskId"])}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError):
            # Not a file that we wrote. The logs hold the same information: a task is pending until an end event.
            return {task_id: self._now() for task_id in self._day_by_task if not self._has_ended(task_id)}

    def _has_ended(self, task_id: str) -> bool:
        path = (self._task_day(task_id), f"{task_id}.jsonl")
        with suppress(FileNotFoundError), os.fdopen(open_beneath(self._folder_descriptor, path), "rb") as file:
            entries = read_json_lines(file, containing=b'"TASK_')
            return any(entry.get("event") in STATUS_BY_END_EVENT for entry in entries)
        return False

    def _write_pending(self, pending: dict[str, float]) -> None:
        """Replace the list of pending tasks atomically: after a crash, the file holds the new list or the old one."""
        entries = [{"taskId": task_id, "ts": int(at * 1000)} for task_id, at in pending.items()]
        temporary = f".{PENDING_FILE}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=self._folder_descriptor), "wb") as file:
            file.write(to_json_line(entries))
            file.flush()
            os.fsync(file.fileno())
        # First the content, then the name: a rename that reached the disk before its content would leave an empty file.
        os.rename(temporary, PENDING_FILE, src_dir_fd=self._folder_descriptor, dst_dir_fd=self._folder_descriptor)
        os.fsync(self._folder_descriptor)
        self._started_at_by_task = pending

    def _append_line(self, path: tuple[str, ...], line: bytes) -> None:
        """Append one line and flush it to the disk."""
        if len(path) > 1:
            with suppress(FileExistsError):
                os.mkdir(path[0], 0o700, dir_fd=self._folder_descriptor)
                os.fsync(self._folder_descriptor)
        descriptor = open_beneath(self._folder_descriptor, path, _APPEND_FLAGS, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # the last writer died in the middle of a line
            _write_all(descriptor, line)
            os.fsync(descriptor)
            if not size:
                self._sync_folder(path[:-1])
        finally:
            os.close(descriptor)

    def _sync_folder(self, folder: tuple[str, ...]) -> None:
        """Flush a folder to the disk: `fsync` of a new file does not store its name."""
        descriptor = open_beneath(self._folder_descriptor, folder, _FOLDER_FLAGS)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, or none: a full disk may accept a part of them before it fails, and that part is removed."""
    size_before = os.fstat(descriptor).st_size
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        os.ftruncate(descriptor, size_before)
        raise


def is_task_id(task_id: object) -> TypeGuard[str]:
    """Whether a value is a valid task id, which is also the name of the task's file."""
    return isinstance(task_id, str) and bool(_TASK_ID.match(task_id))


def render_event_line(
    timestamp: float, event: str, task_id: str, data: Mapping[str, Any], messages: Iterable[Any]
) -> bytes:
    """Build one line of a task's log."""
    entry = {
        "ts": int(timestamp * 1000),
        "event": event,
        "taskId": task_id,
        "data": {**data, "newMessages": list(messages)},
    }
    return to_json_line(entry)


def to_json_line(value: Any) -> bytes:
    """Write a value as one line of JSON; lone surrogates, which models sometimes produce, become `?`."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="replace") + b"\n"


def read_json_lines(file: BinaryIO, *, containing: bytes = b"") -> Iterator[dict[str, Any]]:
    """Parse the lines of a file that contain some bytes, skipping lines that are cut off or not objects."""
    while raw := file.readline(MAX_LINE_BYTES):
        if containing not in raw:
            continue
        try:
            entry = from_json(raw, allow_inf_nan=False)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def utc_day(timestamp: float) -> str:
    """The UTC date of a timestamp, as folders are named."""
    return datetime.fromtimestamp(timestamp, UTC).date().isoformat()


def is_iso_day(text: object) -> TypeGuard[str]:
    """Whether a value is a date in the form YYYY-MM-DD."""
    try:
        return isinstance(text, str) and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
