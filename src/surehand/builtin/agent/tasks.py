"""The factories `tasks` and `sessions`: tools that read the logs of earlier tasks and archived sessions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from surehand.builtin.agent.task_log import (
    INDEX_FILE,
    STATUS_BY_END_EVENT,
    TASKS_FOLDER,
    is_iso_day,
    is_task_id,
    read_json_lines,
    utc_day,
)
from surehand.builtin.limited_field import limited_field
from surehand.builtin.user_folder import user_folder
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import DefinitionError, Denied, InvalidArguments, NotFound, ToolError
from surehand.core.tool import Tool
from surehand.workspace.path import WorkspacePath
from surehand.workspace.workspace import Workspace

_MAX_FILE_BYTES = 16 << 20
"""Largest log or archive that is read."""
_CURRENT_SESSION_FILE = "current.jsonl"
_TOOLSETS = ("all_task_tools", "main_agent_tools")


def tasks(folder: str | PathLike[str], *, now: Callable[[], float] = time.time) -> list[Tool[..., Any]]:
    """Tools that read the task log which a `TaskLog` wrote into a folder: of each user, only their own tasks.

    Args:
        folder: where the log is; models cannot choose another folder.
        now: the clock that decides which day is today.
    """
    log = _TaskLogReader(_open_workspace(folder))

    @tool(category="data", effects={"read"}, visible=False, toolsets=_TOOLSETS)
    def task_list(
        ctx: Context,
        date: Annotated[str | None, Field(description="Day in UTC, YYYY-MM-DD; today if left out.")] = None,
    ) -> list[dict[str, Any]]:
        """List the tasks of a day, what was asked and how they stand."""
        if date is not None and not is_iso_day(date):
            raise InvalidArguments(f"{date[:40]!r} is no day. Write YYYY-MM-DD, for example {utc_day(now())}.")
        return log.tasks_of_day(date or utc_day(now()), ctx.user, lambda: ctx.cancelled)

    @tool(category="data", effects={"read"}, visible=False, toolsets=_TOOLSETS)
    def task_replay(
        task_id: Annotated[
            str, limited_field(alias="taskId", description="Id of the task, from task_list.", max_length=200)
        ],
        ctx: Context,
    ) -> list[Any]:
        """Read all messages of an earlier task, in order, to see how it was done."""
        return log.messages(task_id, ctx.user)

    return [task_list, task_replay]


def sessions(folder: str | PathLike[str]) -> list[Tool[..., Any]]:
    """A tool that reads archived sessions in a folder, but not the current session (`current.jsonl`).

    Files directly in the folder belong to calls without a user; those of a user lie in `user_folder(folder, user)`.

    Args:
        folder: where the files are; `scope(session_dir=...)` sets another folder for the calls of a scope.
    """
    path = Path(folder).expanduser().absolute()
    _open_workspace(path).close()

    @tool(category="system", effects={"read"}, visible=False, toolsets=("main_agent_tools", "session_tools"))
    def session_archive_read(
        file: Annotated[
            str, limited_field(description="File name of the archive, such as 20270331.jsonl.", max_length=200)
        ],
        ctx: Context,
    ) -> str:
        """Read an archived part of this session that is no longer in view."""
        own = user_folder(path, ctx.user) if ctx.session_dir is None else Path(ctx.session_dir)
        if not own.is_dir():
            raise NotFound(f"There is no archive {file[:200]!r} of this session.")
        with closing(Workspace(own, sensitive=(), is_limited=False, writes=False)) as workspace:
            return _read_archive(workspace, file)

    return [session_archive_read]


class _TaskLogReader:
    """Reads the files of a task log."""

    def __init__(self, workspace: Workspace) -> None:
        self._tasks = workspace.resolve(TASKS_FOLDER)

    def tasks_of_day(self, date: str, user: str | None, is_cancelled: Callable[[], bool]) -> list[dict[str, Any]]:
        """List the tasks of a user on a day, the oldest first."""
        found = []
        for log_file in self._log_files(self._tasks / date):
            if is_cancelled():
                break
            task = _read_task(log_file, user)
            if task is not None:
                found.append(task)
        return sorted(found, key=lambda task: (task["createdAt"], task["taskId"]))

    def _log_files(self, folder: WorkspacePath) -> list[WorkspacePath]:
        try:
            return [
                folder / entry.name
                for entry in folder.scan_directory(include_hidden=False)
                if entry.name.endswith(".jsonl")
            ]
        except NotFound:
            return []

    def messages(self, task_id: str, user: str | None) -> list[Any]:
        """All messages of a user's task, in order; a task of another user looks like a missing one."""
        missing = NotFound(f'Task "{task_id[:200]}" not found in index')
        date = self._task_day(task_id)
        if date is None:
            raise missing
        try:
            with _check_size(self._tasks / date / f"{task_id}.jsonl").open_reader() as file:
                entries = [entry for entry in read_json_lines(file) if _has_data(entry)]
        except NotFound:
            raise missing from None
        created = next((entry for entry in entries if entry.get("event") == "TASK_CREATED"), None)
        owner = None if created is None else created["data"].get("user")
        if owner != user:
            raise missing
        batches = [entry["data"].get("newMessages", ()) for entry in entries]
        return [message for batch in batches if isinstance(batch, list) for message in batch]

    def _task_day(self, task_id: str) -> str | None:
        """The day of a task by the last line about it in the index."""
        if not is_task_id(task_id):
            return None
        try:
            with (self._tasks / INDEX_FILE).open_reader() as file:
                entries = read_json_lines(file, containing=task_id.encode())
                days = [entry.get("date") for entry in entries if entry.get("taskId") == task_id]
        except NotFound:
            return None
        return days[-1] if days and is_iso_day(days[-1]) else None


def _read_task(log_file: WorkspacePath, user: str | None) -> dict[str, Any] | None:
    """Summarize a task from its log; None for a log without a first event, and for a task of another user."""
    created = None
    status = "in_progress"
    try:
        with log_file.open_reader() as file:
            for entry in read_json_lines(file, containing=b'"TASK_'):
                status = STATUS_BY_END_EVENT.get(str(entry.get("event")), status)
                if entry.get("event") == "TASK_CREATED" and created is None and _has_data(entry):
                    created = entry
    except (ToolError, OSError):
        return None
    if created is None or not isinstance(created.get("ts"), int) or created["data"].get("user") != user:
        return None
    return {
        "taskId": log_file.name.removesuffix(".jsonl"),
        "inputText": str(created["data"].get("inputText", "")),
        "status": status,
        "createdAt": created["ts"],
    }


def _has_data(entry: dict[str, Any]) -> bool:
    return isinstance(entry.get("data"), dict)


def _check_size(file_path: WorkspacePath) -> WorkspacePath:
    size = file_path.stat().st_size
    if size > _MAX_FILE_BYTES:
        raise ToolError(f"{file_path.name} has {size:,} bytes, and {_MAX_FILE_BYTES:,} are the most.", code="too_large")
    return file_path


def _read_archive(workspace: Workspace, name: str) -> str:
    if not is_task_id(name) or not name.endswith(".jsonl"):
        raise Denied(f"Permission denied: {name[:200]!r} is no archive of this session. Give a file name, no path.")
    archive = workspace.resolve(name)
    current = workspace.resolve(_CURRENT_SESSION_FILE)
    is_current = name.casefold() == _CURRENT_SESSION_FILE or (current.exists() and _is_same_file(archive, current))
    if is_current:
        raise Denied(f"Permission denied: {name!r} is the session that is under way, and is in view already.")
    with _check_size(archive).open_reader() as file:
        return file.read(_MAX_FILE_BYTES).decode(errors="replace")


def _is_same_file(first_path: WorkspacePath, second_path: WorkspacePath) -> bool:
    """Whether two paths are the same file, for example by a hard link to the current session."""
    first = first_path.stat()
    second = second_path.stat()
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _open_workspace(folder: str | PathLike[str]) -> Workspace:
    path = Path(folder).expanduser()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        problem = (error.strerror or type(error).__name__).lower()
        raise DefinitionError(
            f"The folder {path} cannot be created: {problem}.", fix="pass a folder that can be created."
        ) from None
    return Workspace(path, sensitive=(), is_limited=False, writes=False)
