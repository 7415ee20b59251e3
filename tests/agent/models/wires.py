"""The three wires for tests that hold for all of them: models, requests, and the bytes of answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from surehand.agent.models.anthropic_messages import AnthropicModel
from surehand.agent.models.base import Model, ModelAnswer, ModelChunk, ModelError, ModelRequest
from surehand.agent.models.chat_completions import ChatCompletionsModel
from surehand.agent.models.responses_api import ResponsesModel
from surehand.agent.models.sdk_model import ModelSettings, SdkModel
from surehand.core.clock import Clock

WIRES = ("openai", "responses", "anthropic")
_CLASSES: dict[str, type[SdkModel]] = {
    "openai": ChatCompletionsModel,
    "responses": ResponsesModel,
    "anthropic": AnthropicModel,
}
KEY = "sk-a-key-that-nobody-may-see"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather in a city.", "parameters": PARAMETERS},
}


class HastyClock(Clock):
    """Waits a fifth of the time."""

    async def sleep(self, delay: float) -> None:
        await super().sleep(delay / 5)


def build_model(wire: str, base_url: str, **settings: Any) -> SdkModel:
    """A model of this wire without retries."""
    return _CLASSES[wire]("m1", ModelSettings(base_url=base_url, api_key=KEY, **settings))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def request(*messages: dict[str, Any], tools: Sequence[dict[str, Any]] = (WEATHER,)) -> ModelRequest:
    return ModelRequest(list(messages) or [user("What is the weather in Paris?")], list(tools))


async def collect(model: Model, asked: ModelRequest | None = None) -> tuple[list[ModelChunk], ModelAnswer]:
    """The chunks of a request and its answer, which must be the last item and the only one."""
    *chunks, answer = [chunk async for chunk in model.stream(asked or request())]
    assert isinstance(answer, ModelAnswer)
    assert not any(isinstance(chunk, ModelAnswer) for chunk in chunks)
    return chunks, answer


async def fail(model: Model, asked: ModelRequest | None = None) -> ModelError:
    """The error of a request, which must give no answer."""
    items: list[ModelChunk] = []
    try:
        async for chunk in model.stream(asked or request()):
            items.append(chunk)  # noqa: PERF401 - what came before the error counts, too
    except ModelError as error:
        assert not any(isinstance(item, ModelAnswer) for item in items)
        return error
    raise AssertionError(f"The request did not fail: {items}")


def sse(data: Any, event: str | None = None) -> bytes:
    """One event of a stream."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def answer_events(wire: str, text: str = "Let me look.", calls: Sequence[tuple[str, str, str]] = ()) -> list[bytes]:
    """The events of an answer with a text and calls, each (id, name, arguments)."""
    return {"openai": _chat_events, "responses": _responses_events, "anthropic": _anthropic_events}[wire](text, calls)


def chat_chunk(delta: dict[str, Any], finish_reason: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m1", "choices": [choice]}
    return sse(chunk | fields)


def _chat_events(text: str, calls: Sequence[tuple[str, str, str]]) -> list[bytes]:
    events = [chat_chunk({"role": "assistant", "content": text})]
    for index, (id, name, arguments) in enumerate(calls):
        head = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
        events.append(chat_chunk({"tool_calls": [head]}))
        events += [
            chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in _halves(arguments)
        ]
    events.append(chat_chunk({}, "tool_calls" if calls else "stop"))
    return [*events, sse("[DONE]")]


def _responses_events(text: str, calls: Sequence[tuple[str, str, str]]) -> list[bytes]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "msg", "status": "completed", "role": "assistant", "content": [part]}
    items: list[dict[str, Any]] = [message]
    items += [
        {
            "type": "function_call",
            "id": f"fc{n}",
            "call_id": id,
            "name": name,
            "arguments": given,
            "status": "completed",
        }
        for n, (id, name, given) in enumerate(calls)
    ]
    response = {"id": "r", "object": "response", "created_at": 1, "model": "m1", "output": []}
    events = [("response.created", {"response": response | {"status": "in_progress"}})]
    for index, item in enumerate(items):
        is_call = item["type"] == "function_call"
        started = item | ({"arguments": ""} if is_call else {"content": []})
        events.append(("response.output_item.added", {"output_index": index, "item": started}))
        kind = "function_call_arguments" if is_call else "output_text"
        events += [
            (
                f"response.{kind}.delta",
                {"output_index": index, "item_id": item["id"], "content_index": 0, "delta": piece},
            )
            for piece in _halves(item["arguments"] if is_call else text)
        ]
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    whole = response | {"status": "completed", "output": items, "usage": usage}
    events.append(("response.completed", {"response": whole}))
    return [sse({"type": name, "sequence_number": n, **data}, name) for n, (name, data) in enumerate(events)]


def _anthropic_events(text: str, calls: Sequence[tuple[str, str, str]]) -> list[bytes]:
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m1", "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"usage": {"input_tokens": 7, "output_tokens": 1}}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
    ]
    for index, (id, name, arguments) in enumerate(calls, start=1):
        block = {"type": "tool_use", "id": id, "name": name, "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": "input_json_delta", "partial_json": piece},
            }
            for piece in _halves(arguments)
        ]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}})
    events.append({"type": "message_stop"})
    return [sse(event, event["type"]) for event in events]


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [text[:middle], text[middle:]]
