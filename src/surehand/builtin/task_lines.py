"""Task lines: how what happened to a task is written down, one JSON object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, BinaryIO, Literal, TypeAlias, TypeGuard

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
