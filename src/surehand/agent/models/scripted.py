"""ScriptedModel: a model that gives prepared replies, for tests and examples."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any, TypeAlias

from surehand.agent.models.base import (
    Message,
    ModelAnswer,
    ModelCall,
    ModelChunk,
    ModelError,
    ModelRequest,
    TextChunk,
    ToolInputChunk,
    Usage,
)
from surehand.core.fast_copy import fast_deepcopy

ScriptedCalls: TypeAlias = Sequence[tuple[str, Any]]
"""Calls as (tool, arguments): arguments are a dictionary, or a text that is sent as it is."""
ScriptedAnswer: TypeAlias = str | ScriptedCalls | ModelAnswer | BaseException | type[BaseException]
ScriptedReply: TypeAlias = ScriptedAnswer | Callable[[list[Message]], ScriptedAnswer | Awaitable[ScriptedAnswer]]
_CHUNK_CHARS = 16


class ScriptedModel:
    """Gives its replies one after another, and records in `requests` what it was shown.

    A reply is a text, a list of (tool, arguments), an exception, a `ModelAnswer`, or a function of the messages that
    gives one of these.
    """

    def __init__(self, *replies: ScriptedReply, name: str = "scripted", cost: float | None = None) -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        """The requests so far; their messages and tools are copies that later steps do not change."""
        self._replies = replies
        self._cost = cost

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """Give the next reply in small chunks; a `ModelError` if none is left."""
        recorded = ModelRequest(
            fast_deepcopy(request.messages),
            fast_deepcopy(list(request.tools)),
            request.hosted,
            fast_deepcopy(request.output_schema),
        )
        self.requests.append(recorded)
        answer = self._build_answer(recorded, await self._next_reply(recorded))
        for start in range(0, len(answer.text), _CHUNK_CHARS):
            yield TextChunk(answer.text[start : start + _CHUNK_CHARS])
        for position, call in enumerate(answer.calls):
            for start in range(0, max(len(call.arguments), 1), _CHUNK_CHARS):
                yield ToolInputChunk(
                    position, call.name, call.arguments[start : start + _CHUNK_CHARS], model_id=call.model_id
                )
        yield answer

    async def _next_reply(self, request: ModelRequest) -> ScriptedAnswer:
        number = len(self.requests)
        if number > len(self._replies):
            raise ModelError(f"The scripted model has {len(self._replies)} replies, and this is request {number}.")
        reply = self._replies[number - 1]
        if isinstance(reply, type) or not callable(reply):
            return reply
        given = reply(fast_deepcopy(request.messages))
        return await given if isawaitable(given) else given

    def _build_answer(self, request: ModelRequest, reply: ScriptedAnswer) -> ModelAnswer:
        if isinstance(reply, BaseException) or (isinstance(reply, type) and issubclass(reply, BaseException)):
            raise reply
        if isinstance(reply, ModelAnswer):
            return reply
        text = reply if isinstance(reply, str) else ""
        calls = () if isinstance(reply, str) else tuple(map(_build_call, range(1, len(reply) + 1), reply))
        characters_out = len(text) + sum(len(call.name) + len(call.arguments) for call in calls)
        usage = Usage(
            _estimate_tokens(_count_characters(request.messages)), _estimate_tokens(characters_out), self._cost
        )
        return ModelAnswer(text, calls, usage, "tool_calls" if calls else "stop")


def _build_call(number: int, scripted: tuple[str, Any]) -> ModelCall:
    name, arguments = scripted
    text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    # Numbered anew in each answer, as some servers do: an agent must not rely on the ids of a model.
    return ModelCall(name, text, f"call_{number}")


def _estimate_tokens(characters: int) -> int:
    return -(-characters // 4)


def _count_characters(messages: list[Message]) -> int:
    return sum(_count_message_characters(message) for message in messages)


def _count_message_characters(message: Message) -> int:
    content = message.get("content") or ""
    calls = message.get("tool_calls") or ()
    written = sum(len(call["function"]["name"]) + len(call["function"]["arguments"]) for call in calls)
    return written + len(content if isinstance(content, str) else json.dumps(content))
