"""What becomes of an event of an inbox: the run that waits for it, or the prompt and space of a run that it starts."""

from __future__ import annotations

from typing import Any

from surehand.store.serialization import dump_json
from surehand.store.tables.inbox import WaitingEvent


def origin_run(event: WaitingEvent) -> str | None:
    """The run whose call an event brings the result of."""
    if event.type != "tool_result" or not isinstance(event.data, dict):
        return None
    run_id = event.data.get("originRunId")
    return run_id if isinstance(run_id, str) else None


def origin_space(event: WaitingEvent) -> str | None:
    """The space whose message an event brings."""
    if event.type != "space_message" or not isinstance(event.data, dict):
        return None
    space = event.data.get("spaceId")
    return space if isinstance(space, str) else None


def event_prompt(event: WaitingEvent) -> list[dict[str, Any]]:
    """What the model of an agent reads of an event, as the messages of a prompt."""
    data = event.data
    if event.type == "service" or not isinstance(data, dict):
        text = _to_text(data)
    elif event.type == "tool_result":
        text = (
            f"[Tool Result: {data.get('toolName')}] (callId: {data.get('toolCallId')}) {dump_json(data.get('result'))}"
        )
    elif event.type == "space_message":
        sender = data.get("senderName") or data.get("senderId")
        where = f"(spaceId: {data.get('spaceId')}, messageId: {data.get('messageId')})"
        text = f"[Message: {sender}] {where} {_to_text(data.get('content'))}"
    else:
        text = f"[Plan: {data.get('name')}] (planId: {data.get('planId')}) {data.get('instruction') or ''}".rstrip()
    return [{"role": "user", "content": text}]


def _to_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else dump_json(value)
