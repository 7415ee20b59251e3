"""Tasks: what earlier tasks were, and what was said in them."""

from __future__ import annotations

import time
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from surehand.builtin.spot import Spot
from surehand.builtin.task_lines import ENDS, INDEX, TASKS, day, is_day, is_id, read
from surehand.builtin.workspace import Workspace
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import DefinitionError, Denied, InvalidArguments, NotFound, ToolError
from surehand.core.tool import Tool

_LARGEST = 16 << 20
"""Bytes of a log or an archive that is read whole."""
_CURRENT = "current.jsonl"
_TOOLSETS = ("all_task_tools", "main_agent_tools")


def tasks(folder: str | PathLike[str], *, now: Callable[[], float] = time.time) -> list[Tool[..., Any]]:
    """Tools that read what a `TaskLog` wrote into a folder.

    Args:
        folder: where the log is; models cannot name another.
        now: the time by which today is known.
    """
    log = _Log(_opened(folder))

    @tool(category="memory", effects={"read"}, visible=False, toolsets=_TOOLSETS, examples=[{"date": "2027-03-31"}])
    def task_list(
        ctx: Context,
        date: Annotated[str | None, Field(description="Day in UTC, YYYY-MM-DD; today if left out.")] = None,
    ) -> list[dict[str, Any]]:
        """List the tasks of a day with what was asked and how they stand: completed, failed or in_progress."""
        if date is not None and not is_day(date):
            raise InvalidArguments(f"{date[:40]!r} is no day. Write YYYY-MM-DD, for example {day(now())}.")
        return log.of_day(date or day(now()), lambda: ctx.cancelled)

    @tool(category="memory", effects={"read"}, visible=False, toolsets=_TOOLSETS)
    def task_replay(
        task_id: Annotated[str, Field(alias="taskId", description="Id of the task, from task_list.", max_length=200)],
    ) -> list[Any]:
        """Read all messages of an earlier task, in order, to see how it was done."""
        return log.messages(task_id)

    return [task_list, task_replay]


def sessions(folder: str | PathLike[str]) -> list[Tool[..., Any]]:
    """A tool that reads archived sessions in a folder; the one that is under way, `current.jsonl`, is nobody's to read.

    Args:
        folder: where the session keeps its files.
    """
    workspace = _opened(folder)

    @tool(category="memory", effects={"read"}, visible=False, toolsets=("main_agent_tools", "session_tools"))
    def session_archive_read(
        file: Annotated[str, Field(description="File name of the archive, such as 20270331.jsonl.", max_length=200)],
    ) -> str:
        """Read an archived part of this session, one JSON message a line, that is no longer in view."""
        return _archived(workspace, file)

    return [session_archive_read]


class _Log:
    """The files of a task log, for reading."""

    def __init__(self, workspace: Workspace) -> None:
        self._tasks = workspace.spot(TASKS)

    def of_day(self, date: str, stop: Callable[[], bool]) -> list[dict[str, Any]]:
        """The tasks of a day, the oldest first."""
        found = []
        for spot in self._files(self._tasks / date):
            if stop():
                break
            if (told := _task(spot)) is not None:
                found.append(told)
        return sorted(found, key=lambda task: (task["createdAt"], task["taskId"]))

    def _files(self, folder: Spot) -> list[Spot]:
        try:
            return [folder / entry.name for entry in folder.scan(hidden=False) if entry.name.endswith(".jsonl")]
        except NotFound:
            return []

    def messages(self, task_id: str) -> list[Any]:
        """All that was said in a task."""
        missing = NotFound(f'Task "{task_id[:200]}" not found in index')
        date = self._date(task_id)
        if date is None:
            raise missing
        try:
            with _small(self._tasks / date / f"{task_id}.jsonl").reader() as file:
                new = [told.get("data", {}).get("newMessages", ()) for told in read(file) if _plain(told)]
        except NotFound:
            raise missing from None
        return [message for messages in new if isinstance(messages, list) for message in messages]

    def _date(self, task_id: str) -> str | None:
        """The day that the index says; the last line about a task counts."""
        if not is_id(task_id):
            return None
        try:
            with (self._tasks / INDEX).reader() as file:
                told = [
                    each.get("date") for each in read(file, holding=task_id.encode()) if each.get("taskId") == task_id
                ]
        except NotFound:
            return None
        return told[-1] if told and is_day(told[-1]) else None


def _task(spot: Spot) -> dict[str, Any] | None:
    """A task in short, from its log; None for a log that says nothing."""
    begun, status = None, "in_progress"
    try:
        with spot.reader() as file:
            for told in read(file, holding=b'"TASK_'):
                status = ENDS.get(str(told.get("event")), status)
                if told.get("event") == "TASK_CREATED" and begun is None and _plain(told):
                    begun = told
    except (ToolError, OSError):
        return None
    if begun is None or not isinstance(begun.get("ts"), int):
        return None
    asked = str(begun["data"].get("inputText", ""))
    return {"taskId": spot.name.removesuffix(".jsonl"), "inputText": asked, "status": status, "createdAt": begun["ts"]}


def _plain(told: dict[str, Any]) -> bool:
    return isinstance(told.get("data"), dict)


def _small(spot: Spot) -> Spot:
    if (size := spot.stat().st_size) > _LARGEST:
        raise ToolError(f"{spot.name} has {size:,} bytes, and {_LARGEST:,} are the most.", code="too_large")
    return spot


def _archived(workspace: Workspace, name: str) -> str:
    if not is_id(name) or not name.endswith(".jsonl"):
        raise Denied(f"Permission denied: {name[:200]!r} is no archive of this session. Give a file name, no path.")
    spot, current = workspace.spot(name), workspace.spot(_CURRENT)
    under_way = name.casefold() == _CURRENT or (current.exists() and _same(spot, current))
    if under_way:
        raise Denied(f"Permission denied: {name!r} is the session that is under way, and is in view already.")
    with _small(spot).reader() as file:
        return file.read(_LARGEST).decode(errors="replace")


def _same(one: Spot, other: Spot) -> bool:
    """Whether two names are one file: a link does not make an archive of what is under way."""
    first, second = one.stat(), other.stat()
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _opened(folder: str | PathLike[str]) -> Workspace:
    path = Path(folder).expanduser()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        problem = (error.strerror or type(error).__name__).lower()
        raise DefinitionError(f"The folder {path} cannot be made: {problem}.", fix="name a folder.") from None
    return Workspace(path, sensitive=(), writes=False)
