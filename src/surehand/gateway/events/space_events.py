"""Events of the stream of a space as our own events of calls, from which the families are formatted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surehand.core.errors import NotFound
from surehand.store.tables.streams import StreamEvent

if TYPE_CHECKING:
    from surehand.store.store import Store

MESSAGE_EVENTS = ("message", "message.amended")
"""The events of messages. The family of spaces has them as they are, and no other family has any."""
_PROGRESS_FIELDS = ("fraction", "title")


async def call_event_fields(store: Store, event: StreamEvent) -> dict[str, Any] | None:
    """The event of a call as `event_to_json` writes it; None for an event that is about none."""
    content = event.data.get("content")
    match event.kind:
        case "tool-result":
            return _progress_fields(event)
        case "tool-call.start":
            return {**_call_fields(event), "type": "CallStarted", "arguments": content["args"]}
        case "tool-call.complete":
            data = content["result"] if content.get("data") is None else content["data"]
            return {**_call_fields(event), "type": "CallEnded", "outcome": {"status": "done", "data": data}}
        case "tool-call.error":
            outcome = {"status": "failed", "message": content["result"], "data": content.get("data")}
            return {**_call_fields(event), "type": "CallEnded", "outcome": outcome}
        case "message.amended" if await _is_question_of_call(store, event):
            question = {"waiting_for": content["waitingFor"], "message": content["message"] or ""}
            arguments = {"arguments": content["args"], "request": None}
            return {**_call_fields(event), **question, **arguments, "type": "CallPending"}
    return None


async def _is_question_of_call(store: Store, event: StreamEvent) -> bool:
    """Whether a message was amended because the call that it shows waits.

    The stored message knows its call: the content alone proves nothing, because members write any JSON.
    """
    content = event.data["content"]
    if not isinstance(content, dict) or content.get("status") != "requires_action":
        return False
    try:
        message = await store.spaces.message(event.data["messageId"])
    except NotFound:  # deleted since then
        return False
    return message.call_id is not None


def _call_fields(event: StreamEvent) -> dict[str, Any]:
    content = event.data["content"]
    return {
        "spaceId": event.data["spaceId"],
        "space": event.data["spaceId"],
        "call_id": content["toolCallId"],
        "tool": content["toolName"],
        "display": content.get("display"),
        "agent": content.get("senderId"),
        "turn": content.get("runId"),
        "at": event.at,
    }


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
