"""Compaction: shortens old parts of a conversation before the context of the model is full.

First the results of old steps keep only their head and tail, then old steps become one line for each call, and only if
the results of the last answers alone are too large, these are cut as well. Recent steps, messages of people and calls
that wait stay as they are. Every shortened text is made from the original, once: how much is shortened only grows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from surehand.agent.conversation import answer_message, result_message, user_message
from surehand.agent.models.base import Message
from surehand.agent.steps import Compaction, Step, StepCall, waiting_calls
from surehand.core.outcome import Pending

DEFAULT_CONTEXT_WINDOW = 131_072
CHARS_PER_TOKEN = 4
"""An estimate: the tokens of a model cannot be counted without its tokenizer."""
RESERVED_TOKENS = 256 + 4096
"""Tokens of the window that are left for the answer, and as a margin of the estimate."""
RECENT_STEPS = 4
"""How many of the last steps are shortened only if nothing else helps."""
SHORTENED_RESULT_CHARS = 2_000
MIN_RESULT_CHARS = 200
SUMMARY_TEXT_CHARS = 400
SUMMARY_ARGUMENT_CHARS = 200
MEDIA_CHARS = 6_000
"""What an image, a recording or a file counts for: models do not read its base64 as text."""


@dataclass(frozen=True, slots=True)
class Compactor:
    """Decides how much of a conversation to shorten for a model with this context window."""

    context_window: int = DEFAULT_CONTEXT_WINDOW

    def compact(
        self, prompt: Sequence[Message], steps: Sequence[Step], current: Compaction, other_chars: int
    ) -> tuple[Compaction, list[Message]]:
        """The messages of a request, shortened as far as necessary, and how much that is.

        Args:
            other_chars: characters of the request beside the conversation: instructions, tools and new messages.
        """
        available_tokens = max(self.context_window - RESERVED_TOKENS, self.context_window // 2)
        limit = available_tokens * CHARS_PER_TOKEN - other_chars
        messages = build_messages(prompt, steps, current)
        if count_characters(messages) <= limit:
            return current, messages
        old_steps = max(len(steps) - RECENT_STEPS, 0)
        shorter = replace(current, shortened_steps=max(old_steps, current.shortened_steps))
        messages = build_messages(prompt, steps, shorter)
        # Leave room: a conversation that just fits would be shortened again at the next step.
        while count_characters(messages) > limit * 3 // 4 and shorter.summarized_steps < old_steps:
            shorter = replace(shorter, summarized_steps=shorter.summarized_steps + 1)
            messages = build_messages(prompt, steps, shorter)
        result_chars = shorter.result_chars or limit
        while count_characters(messages) > limit and result_chars > MIN_RESULT_CHARS:
            result_chars = max(result_chars // 2, MIN_RESULT_CHARS)
            shorter = replace(shorter, result_chars=result_chars)
            messages = build_messages(prompt, steps, shorter)
        return shorter, messages


def build_messages(prompt: Sequence[Message], steps: Sequence[Step], compaction: Compaction) -> list[Message]:
    """The conversation of a run with its old parts shortened."""
    messages = list(prompt)
    open_calls = {id(call) for call in waiting_calls(steps)} if compaction.summarized_steps else set()
    summary: list[str] = []
    for step in steps:
        is_summarized = step.index < compaction.summarized_steps and not any(
            id(call) in open_calls for call in step.calls
        )
        if summary and (step.before or not is_summarized):
            messages.append(_summary_message(summary))
            summary = []
        messages += step.before
        if is_summarized:
            summary += _summarize(step)
            continue
        messages.append(answer_message(step))
        max_chars = _max_result_chars(step, compaction)
        messages += [_shortened_result(call, max_chars) for call in step.calls]
    return [*messages, _summary_message(summary)] if summary else messages


def _max_result_chars(step: Step, compaction: Compaction) -> int | None:
    if step.index >= compaction.shortened_steps:
        return compaction.result_chars
    return min(SHORTENED_RESULT_CHARS, compaction.result_chars or SHORTENED_RESULT_CHARS)


def _shortened_result(call: StepCall, max_chars: int | None) -> Message:
    message = result_message(call)
    if max_chars is None or isinstance(call.shown_outcome, Pending) or count_characters([message]) <= max_chars:
        return message
    text = "" if call.shown_outcome is None else call.shown_outcome.text
    return result_message(call, head_and_tail(text, max_chars))


def head_and_tail(text: str, max_chars: int) -> str:
    """The text, or its beginning and its end with a note of how much is left out between them."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _summarize(step: Step) -> list[str]:
    lines = []
    if step.answer.text:
        lines.append(f"- You wrote: {head_and_tail(step.answer.text, SUMMARY_TEXT_CHARS)}")
    for call in step.calls:
        arguments = head_and_tail(call.arguments, SUMMARY_ARGUMENT_CHARS)
        result = "" if call.shown_outcome is None else head_and_tail(call.shown_outcome.text, SUMMARY_TEXT_CHARS)
        lines.append(f"- You called {call.name}({arguments}): {result}")
    return lines


def _summary_message(lines: Sequence[str]) -> Message:
    return user_message("\n".join(["[Earlier steps of this conversation, shortened]", *lines]))


def count_characters(messages: Sequence[Message]) -> int:
    """The characters of messages that a model reads."""
    return sum(map(_count_message, messages))


def _count_message(message: Message) -> int:
    content = message.get("content")
    count = len(content) if isinstance(content, str) else sum(map(_count_block, content or ()))
    for call in message.get("tool_calls", ()):
        count += len(call["function"]["name"]) + len(call["function"]["arguments"])
    if items := message.get("provider_items"):
        count += len(json.dumps(items))
    return count


def _count_block(block: dict[str, Any]) -> int:
    if block.get("type") in ("image", "audio", "file"):
        return MEDIA_CHARS
    return len(block["text"]) if isinstance(block.get("text"), str) else len(json.dumps(block, default=str))
