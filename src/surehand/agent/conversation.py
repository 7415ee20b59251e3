"""The conversation of a run: the messages that a model is shown, built from the prompt and the steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from surehand.agent.models.base import Message
from surehand.agent.steps import Step, StepCall
from surehand.core.content import BLOCK_TYPES, Audio, File, Image, block_fields
from surehand.core.outcome import Done, Failed, Outcome

Prompt: TypeAlias = str | Sequence[Any]
"""A text, content blocks, or messages of a conversation that the run continues."""

NOT_RUN_TEXT = "(not run)"


def prompt_messages(prompt: Prompt) -> list[Message]:
    """The messages that a run starts with: one of the user, or those that were given."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    items = list(prompt)
    if items and all(isinstance(item, dict) and "role" in item for item in items):
        return [dict(item) for item in items if item["role"] != "system"]
    if not items or not all(isinstance(item, (dict, str, *BLOCK_TYPES)) for item in items):
        raise TypeError("A prompt is a text, a list of content blocks, or a list of messages with a `role`.")
    return [{"role": "user", "content": [_block_to_json(item) for item in items]}]


def _block_to_json(item: Any) -> dict[str, Any]:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    return dict(item) if isinstance(item, dict) else block_fields(item)


def answer_message(step: Step) -> Message:
    """The model's own message of a step."""
    message: Message = {"role": "assistant", "content": step.answer.text or None}
    if step.calls:
        message["tool_calls"] = [
            {"id": call.message_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in step.calls
        ]
    if step.answer.provider_items:
        message["provider_items"] = step.answer.provider_items
    return message


def result_message(call: StepCall, text: str | None = None) -> Message:
    """The message with the outcome of a call, or with a shorter text in its place."""
    outcome = call.shown_outcome or call.pending
    if outcome is None:
        return _tool_message(call, NOT_RUN_TEXT)
    message = _tool_message(call, outcome_content(outcome) if text is None else text)
    if isinstance(outcome, Failed):
        message["is_error"] = True
    return message


def _tool_message(call: StepCall, content: Any) -> Message:
    return {"role": "tool", "tool_call_id": call.message_id, "name": call.name, "content": content}


def outcome_content(outcome: Outcome) -> str | list[dict[str, Any]]:
    """What a model is shown of an outcome: its text, and its images, recordings and files beside it."""
    if not _may_have_media(outcome):
        return outcome.text
    media = [block for block in outcome.content if isinstance(block, (Image, Audio, File))]
    if not media:
        return outcome.text
    return [{"type": "text", "text": outcome.text}, *map(block_fields, media)]


def _may_have_media(outcome: Outcome) -> bool:
    return isinstance(outcome, Done) and (outcome.has_own_content or bool(outcome.attachments))


LATE_RESULT_PATTERN = re.compile(r"\[Tool Result: [^\]\n]*\] \(callId: (?P<call_id>[^)\s]*)\) ")
"""The beginning of what `late_result_message` writes, by which it is found in an earlier conversation."""


def late_result_message(call: StepCall, outcome: Outcome) -> Message:
    """The message that brings the result of a call which the model knows to be waiting."""
    start = f"[Tool Result: {call.name}] (callId: {call.call_id}) "
    content = outcome_content(outcome)
    if isinstance(content, str):
        return {"role": "user", "content": start + content}
    return {"role": "user", "content": [{"type": "text", "text": start + outcome.text}, *content[1:]]}


def user_message(text: Any) -> Message:
    """A message of a person or of the agent itself to the model."""
    return {"role": "user", "content": text}


def whole_conversation(prompt: Sequence[Message], steps: Sequence[Step]) -> list[Message]:
    """All messages of a run, nothing shortened."""
    messages = list(prompt)
    for step in steps:
        messages += step.before
        messages.append(answer_message(step))
        messages += map(result_message, step.calls)
    return messages
