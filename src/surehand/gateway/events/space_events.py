"""Events of the stream of a space as our own events of calls, from which the families are formatted."""

from __future__ import annotations

from typing import Any

from surehand.store.tables.streams import StreamEvent

MESSAGE_EVENTS = ("message", "message.amended")
"""The events of messages. The family of spaces has them as they are, and no other family has any."""
_PROGRESS_FIELDS = ("fraction", "title")


def call_event_fields(event: StreamEvent) -> dict[str, Any] | None:
    """The event of a call as `event_to_json` writes it; None for an event that is about none."""
    content = event.data.get("content")
    if event.kind == "tool-result":
        return _progress_fields(event)
    if not isinstance(content, dict) or content.get("type") != "tool_call":
        return None
    fields: dict[str, Any] = {
        "spaceId": event.data["spaceId"],
        "space": event.data["spaceId"],
        "call_id": content["toolCallId"],
        "tool": content["toolName"],
        "display": content.get("display"),
        "agent": content.get("senderId"),
        "turn": content.get("runId"),
        "at": event.at,
    }
    match event.kind:
        case "tool-call.start":
            return {**fields, "type": "CallStarted", "arguments": content["args"]}
        case "tool-call.complete":
            data = content["result"] if content.get("data") is None else content["data"]
            return {**fields, "type": "CallEnded", "outcome": {"status": "done", "data": data}}
        case "tool-call.error":
            outcome = {"status": "failed", "message": content["result"], "data": content.get("data")}
            return {**fields, "type": "CallEnded", "outcome": outcome}
        case "message.amended" if content["status"] == "requires_action":
            question = {"waiting_for": content["waitingFor"], "message": content["message"] or ""}
            return {**fields, **question, "type": "CallPending", "arguments": content["args"], "request": None}
    return None


def _progress_fields(event: StreamEvent) -> dict[str, Any]:
    output = dict(event.data["output"])
    reported = {name: output.pop(name) for name in _PROGRESS_FIELDS if name in output}
    return {
        "type": "CallProgress",
        "spaceId": event.data["spaceId"],
        "call_id": event.data["toolCallId"],
        "tool": event.data["toolName"],
        "at": event.at,
        "message": output.pop("text", None),
        **reported,
        "data": output,
    }
