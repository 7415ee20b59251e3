"""RuleBasedModel: a model that answers by rules, for demonstrations and trials without a model's API."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from surehand.agent.models.base import Message, ModelAnswer, ModelCall, ModelChunk, ModelError, ModelRequest, TextChunk

RuleAnswer: TypeAlias = str | Sequence[tuple[str, Mapping[str, Any]]]
"""A text, or calls as (tool, arguments)."""
_CHUNK_CHARS = 16
_PLACEHOLDER = re.compile(r"\$\{(prompt|result)\}")


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """The answers to a user's message that matches, one for each request until the next message."""

    pattern: str
    """A regular expression, without regard to case; empty for any message."""
    answers: Sequence[RuleAnswer]

    def applies_to(self, text: str) -> bool:
        """Whether the pattern is found in a message."""
        return re.search(self.pattern, text, re.IGNORECASE) is not None


class RuleBasedModel:
    """Answers with the first rule that applies to the user's last message.

    It remembers nothing: which answer is next follows from the messages, so a run goes on in another process.
    """

    name = "scripted"

    def __init__(self, rules: Sequence[AnswerRule]) -> None:
        self._rules = rules

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """Give the next answer; the last one of a rule is repeated."""
        prompt, answered = _split_messages(request.messages)
        rule = next((each for each in self._rules if each.applies_to(prompt)), None)
        if rule is None:
            raise ModelError("No rule of the scripted model matches this message.")
        requests_before = sum(message["role"] == "assistant" for message in answered)
        answer = rule.answers[min(requests_before, len(rule.answers) - 1)]
        if not isinstance(answer, str):
            calls = tuple(ModelCall(tool, json.dumps(values), f"call_{at}") for at, (tool, values) in enumerate(answer))
            yield ModelAnswer(calls=calls, stop_reason="tool_calls")
            return
        text = _fill_in(answer, prompt, answered)
        for start in range(0, len(text), _CHUNK_CHARS):
            yield TextChunk(text[start : start + _CHUNK_CHARS])
        yield ModelAnswer(text)


def _split_messages(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """The user's last message, and what came after it."""
    for position in range(len(messages) - 1, -1, -1):
        if messages[position]["role"] == "user":
            return _text_of(messages[position]), messages[position + 1 :]
    return "", messages


def _text_of(message: Message) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def _fill_in(template: str, prompt: str, answered: Sequence[Message]) -> str:
    results = [_text_of(message) for message in answered if message["role"] == "tool"]
    values = {"prompt": prompt, "result": results[-1] if results else ""}
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)
