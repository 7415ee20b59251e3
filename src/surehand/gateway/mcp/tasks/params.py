"""Task parameters: what the methods of the tasks extension take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import RequestParams
from pydantic import Field


class GetTaskParams(RequestParams):
    """Of `tasks/get`."""

    task_id: str = Field(alias="taskId", max_length=200)


class CancelTaskParams(GetTaskParams):
    """Of `tasks/cancel`."""


class UpdateTaskParams(GetTaskParams):
    """Of `tasks/update`."""

    input_responses: dict[str, Any] = Field(default_factory=dict, alias="inputResponses", max_length=100)

    @property
    def answers(self) -> dict[str, Mapping[str, Any]]:
        """Those that have the form of a person's answer."""
        return {key: value for key, value in self.input_responses.items() if _is_answer(value)}


def _is_answer(value: Any) -> bool:
    match value:
        case {"action": "accept" | "decline" | "cancel"}:
            return isinstance(value.get("content"), Mapping | None)
    return False
