"""Task parameters: what the methods of the tasks extension take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import RequestParams
from pydantic import Field


class GetTask(RequestParams):
    """Of `tasks/get`."""

    task_id: str = Field(alias="taskId", max_length=200)


class CancelTask(GetTask):
    """Of `tasks/cancel`."""


class UpdateTask(GetTask):
    """Of `tasks/update`."""

    input_responses: dict[str, Any] = Field(default_factory=dict, alias="inputResponses", max_length=100)

    @property
    def answers(self) -> dict[str, Mapping[str, Any]]:
        """Those that have the form of a person's answer."""
        found = {key: value for key, value in self.input_responses.items() if isinstance(value, Mapping)}
        return {key: value for key, value in found.items() if value.get("action") in ("accept", "decline", "cancel")}
