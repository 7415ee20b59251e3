"""The wire format of the tasks extension: the parameters of its methods, and task objects."""

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

POLL_INTERVAL_MILLISECONDS = 500
"""Milliseconds that a client should leave between two `tasks/get` requests."""
FINAL_STATUSES = ("completed", "cancelled", "failed")
"""Statuses after which a task does not change any more."""


class GetTaskParams(RequestParams):
    """Parameters of `tasks/get`."""

    task_id: str = Field(alias="taskId", max_length=200)


class CancelTaskParams(GetTaskParams):
    """Parameters of `tasks/cancel`."""


class UpdateTaskParams(GetTaskParams):
    """Parameters of `tasks/update`."""

    input_responses: dict[str, Any] = Field(default_factory=dict, alias="inputResponses", max_length=100)

    @property
    def answers(self) -> dict[str, Mapping[str, Any]]:
        """The responses that are well-formed results of elicitations."""
        return {key: value for key, value in self.input_responses.items() if _is_answer(value)}


def _is_answer(value: Any) -> bool:
    match value:
        case {"action": "accept" | "decline" | "cancel"}:
            return isinstance(value.get("content"), Mapping | None)
    return False


def render_task(
    status: CallStatus,
    outcome: Outcome | None,
    question: ElicitationQuestion | None,
    *,
    ttl_milliseconds: int | None,
    served_tool: ServedTool | None,
    last_report: str | None = None,
) -> dict[str, Any]:
    """Render a call as the task object of `tasks/get`, without the `resultType`.

    Args:
        outcome: None while the call runs; it may differ from the stored outcome of the status.
        last_report: the last progress report of the call.
    """
    task = {
        "taskId": status.call_id,
        "createdAt": format_timestamp(status.created_at),
        "lastUpdatedAt": format_timestamp(max(status.changed_at, status.created_at)),
        "ttlMs": ttl_milliseconds,
        "pollIntervalMs": POLL_INTERVAL_MILLISECONDS,
    }
    match outcome:
        case None if last_report:
            return {**task, "status": "working", "statusMessage": render_message(last_report, MAX_REPORT_LENGTH)}
        case None:
            return {**task, "status": "working"}
        case Pending() if question is not None and question.requests:
            fields = {"statusMessage": render_message(outcome.message), "inputRequests": question.input_requests}
            return {**task, "status": "input_required", **fields}
        case Pending():
            return {**task, "status": "working", "statusMessage": render_message(outcome.message)}
        case Failed(code="cancelled"):
            return {**task, "status": "cancelled", "statusMessage": render_message(outcome.message)}
        case Failed(code="crashed"):  # an unexpected exception is an error of the task, not a result of the tool
            return {**task, **_failed_fields(INTERNAL_ERROR, render_message(failure_message(outcome, served_tool)))}
    try:
        return {**task, "status": "completed", "result": render_result(outcome, served_tool)}
    except MCPError as error:
        return {**task, **_failed_fields(error.code, error.message)}


def _failed_fields(code: int, message: str) -> dict[str, Any]:
    return {"status": "failed", "statusMessage": message, "error": {"code": code, "message": message}}
