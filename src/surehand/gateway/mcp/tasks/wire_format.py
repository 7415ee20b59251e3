"""Task: a call as the tasks extension shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, RequestParams
from pydantic import Field

from surehand.core.outcome import Failed, Outcome, Pending
from surehand.gateway.mcp.display_text import render_message
from surehand.gateway.mcp.elicitation import ElicitationQuestion
from surehand.gateway.mcp.progress import MAX_REPORT_LENGTH
from surehand.gateway.mcp.timestamps import format_timestamp
from surehand.gateway.mcp.tool_result import failure_message, render_result

if TYPE_CHECKING:
    from surehand.gateway.mcp.served_runtime import ServedTool
    from surehand.runtime.pending.status import CallStatus


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


POLL_INTERVAL_MILLISECONDS = 500
"""Milliseconds between two looks of a client."""
FINAL_STATUSES = ("completed", "cancelled", "failed")
"""What a task never leaves again."""


def render_task(
    status: CallStatus,
    outcome: Outcome | None,
    question: ElicitationQuestion | None,
    *,
    ttl_milliseconds: int | None,
    served_tool: ServedTool | None,
    last_report: str | None = None,
) -> dict[str, Any]:
    """All that `tasks/get` says of a call, but for the `resultType`.

    Args:
        said: what the call last reported.
    """
    about = {
        "taskId": status.call_id,
        "createdAt": format_timestamp(status.created_at),
        "lastUpdatedAt": format_timestamp(max(status.changed_at, status.created_at)),
        "ttlMs": ttl_milliseconds,
        "pollIntervalMs": POLL_INTERVAL_MILLISECONDS,
    }
    match outcome:
        case None:
            return {
                **about,
                "status": "working",
                **({"statusMessage": render_message(last_report, MAX_REPORT_LENGTH)} if last_report else {}),
            }
        case Pending() if question is not None and question.requests:
            asks = {"statusMessage": render_message(outcome.message), "inputRequests": question.input_requests}
            return {**about, "status": "input_required", **asks}
        case Pending():
            return {**about, "status": "working", "statusMessage": render_message(outcome.message)}
        case Failed(code="cancelled"):
            return {**about, "status": "cancelled", "statusMessage": render_message(outcome.message)}
        case Failed(code="crashed"):  # what broke is no answer of the tool
            return {**about, **_failed_fields(INTERNAL_ERROR, render_message(failure_message(outcome, served_tool)))}
    try:
        return {**about, "status": "completed", "result": render_result(outcome, served_tool)}
    except MCPError as error:
        return {**about, **_failed_fields(error.code, error.message)}


def _failed_fields(code: int, message: str) -> dict[str, Any]:
    return {"status": "failed", "statusMessage": message, "error": {"code": code, "message": message}}
