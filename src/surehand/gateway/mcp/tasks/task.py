"""Task: a call as the tasks extension shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from surehand.core.outcome import Failed, Outcome, Pending
from surehand.gateway.mcp.moment import moment
from surehand.gateway.mcp.progress import LONGEST
from surehand.gateway.mcp.questions import Question
from surehand.gateway.mcp.result import message_of, result_of
from surehand.gateway.mcp.shown import words

if TYPE_CHECKING:
    from surehand.gateway.mcp.served import Offered
    from surehand.runtime.standing import Standing

POLL = 500
"""Milliseconds between two looks of a client."""
OVER = ("completed", "cancelled", "failed")
"""What a task never leaves again."""


def task_of(
    standing: Standing,
    outcome: Outcome | None,
    question: Question | None,
    *,
    ttl: int | None,
    offered: Offered | None,
    said: str | None = None,
) -> dict[str, Any]:
    """All that `tasks/get` says of a call, but for the `resultType`.

    Args:
        said: what the call last reported.
    """
    about = {
        "taskId": standing.call_id,
        "createdAt": moment(standing.created_at),
        "lastUpdatedAt": moment(max(standing.changed_at, standing.created_at)),
        "ttlMs": ttl,
        "pollIntervalMs": POLL,
    }
    match outcome:
        case None:
            return {**about, "status": "working", **({"statusMessage": words(said, LONGEST)} if said else {})}
        case Pending() if question is not None and question.requests:
            asks = {"statusMessage": words(outcome.message), "inputRequests": question.wire}
            return {**about, "status": "input_required", **asks}
        case Pending():
            return {**about, "status": "working", "statusMessage": words(outcome.message)}
        case Failed(code="cancelled"):
            return {**about, "status": "cancelled", "statusMessage": words(outcome.message)}
        case Failed(code="crashed"):  # what broke is no answer of the tool
            return {**about, **_failed(INTERNAL_ERROR, words(message_of(outcome, offered)))}
    try:
        return {**about, "status": "completed", "result": result_of(outcome, offered)}
    except MCPError as error:
        return {**about, **_failed(error.code, error.message)}


def _failed(code: int, message: str) -> dict[str, Any]:
    return {"status": "failed", "statusMessage": message, "error": {"code": code, "message": message}}
