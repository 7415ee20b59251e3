"""Task: a call as the tasks extension shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from surehand.core.outcome import Failed, Outcome, Pending
from surehand.gateway.mcp.moment import format_timestamp
from surehand.gateway.mcp.progress import MAX_REPORT_LENGTH
from surehand.gateway.mcp.questions import ElicitationQuestion
from surehand.gateway.mcp.result import failure_message, render_result
from surehand.gateway.mcp.shown import render_message

if TYPE_CHECKING:
    from surehand.gateway.mcp.served import ServedTool
    from surehand.runtime.standing import CallStatus

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
