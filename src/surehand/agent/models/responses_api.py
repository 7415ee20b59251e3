"""OpenAI's Responses API, and the Open Responses that other servers speak.

Nothing is stored at the provider: the whole conversation is sent each time, with the provider's encrypted reasoning.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from surehand.agent.models.base import (
    Message,
    ModelAnswer,
    ModelCall,
    ModelChunk,
    ModelRequest,
    TextChunk,
    ToolInputChunk,
)
from surehand.agent.models.chat_completions import build_openai_client, cut_answer_error, hosted_entries
from surehand.agent.models.conversation import (
    WireIds,
    content_parts,
    content_text,
    function_tools,
    items_of,
    orphan_result_text,
    split_content,
    tag_items,
)
from surehand.agent.models.errors import StreamBroken, event_error
from surehand.agent.models.sdk_model import SdkModel
from surehand.agent.models.usage import TokenCount, build_usage, read_count
from surehand.core.redaction import Redactor
from surehand.messages.responses import media_part

WIRE = "responses"
_REASONING_MODEL = re.compile(r"o\d|gpt-[5-9]|codex")
"""Models that can return encrypted reasoning; others refuse a request that asks for it."""
_HEARTBEATS = frozenset({"ping", "keepalive", "response.queued", "response.in_progress"})
"""Events that say no more than that the connection is open."""
_PLAIN_ITEMS = frozenset({"message", "function_call"})


class ResponsesModel(SdkModel):
    """A model behind the Responses API."""

    provider = WIRE
    sdk_name = "openai"
    key_variable = "OPENAI_API_KEY"
    url_variable = "OPENAI_BASE_URL"

    def _build_client(self, sdk: Any, **options: Any) -> Any:
        return build_openai_client(self, sdk, options)

    async def _send(self, client: Any, fields: dict[str, Any]) -> Any:
        return await client.responses.create(**fields)

    async def _read_answer(
        self, stream: Any, request: ModelRequest, redact: Redactor
    ) -> AsyncGenerator[ModelChunk, None]:
        collected = _CollectedResponse(self, redact)
        async with aclosing(self._read_events(aiter(stream), _is_heartbeat)) as events:
            async for event in events:
                piece = collected.add(event)
                if piece is not None:
                    yield piece
        yield collected.finish(request)

    def _build_request(self, request: ModelRequest) -> dict[str, Any]:
        settings = self.settings
        fields: dict[str, Any] = {
            "model": self.model,
            "input": build_input(request.messages),
            "stream": True,
            "store": False,
        }
        tools = [_build_tool(function) for function in function_tools(request.tools)]
        tools += [entry for entry in request.tools if "function" not in entry]  # hosted ones, as described
        tools += hosted_entries(request, "openai")
        if tools:
            fields["tools"] = tools
        elif request.output_schema is not None:
            format = {"type": "json_schema", "name": "answer", "schema": request.output_schema, "strict": False}
            fields["text"] = {"format": format}
        if settings.temperature is not None:
            fields["temperature"] = settings.temperature
        if settings.max_tokens is not None:
            fields["max_output_tokens"] = settings.max_tokens
        if settings.reasoning is not None:
            fields["reasoning"] = {"effort": settings.reasoning}
        if settings.reasoning is not None or _REASONING_MODEL.match(self.model):
            fields["include"] = ["reasoning.encrypted_content"]
        if settings.options:
            fields["extra_body"] = dict(settings.options)
        return fields


def _build_tool(function: dict[str, Any]) -> dict[str, Any]:
    # The Responses API defaults to `strict`, which does not allow optional parameters.
    return {"type": "function", "strict": False, **function}


def build_input(messages: list[Message]) -> list[dict[str, Any]]:
    """Neutral messages as input items."""
    items: list[dict[str, Any]] = []
    ids = WireIds()
    for message in messages:
        match message["role"]:
            case "assistant":
                items += _build_assistant_items(message, ids)
            case "tool":
                items.append(_build_result_item(message, ids))
            case role:
                items.append({"role": role, "content": _build_content(message.get("content"))})
    return items


def _build_content(content: Any) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    return content_parts(content, _text_part, media_part) or ""


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _build_assistant_items(message: Message, ids: WireIds) -> list[dict[str, Any]]:
    ids.start_answer()
    wire_ids = [ids.add_call(call.get("id") or "") for call in message.get("tool_calls") or ()]
    items = items_of(message, WIRE)
    if items:
        # As the provider wrote them, except for the ids of calls, which must be those of the results.
        remaining = iter(wire_ids)
        return [
            item | {"call_id": next(remaining, item["call_id"])} if item["type"] == "function_call" else item
            for item in items
        ]
    text = content_text(message.get("content"))
    built: list[dict[str, Any]] = [{"role": "assistant", "content": text}] if text else []
    for wire_id, call in zip(wire_ids, message.get("tool_calls") or (), strict=True):
        built.append({"type": "function_call", "call_id": wire_id, **call["function"]})
    return built


def _build_result_item(message: Message, ids: WireIds) -> dict[str, Any]:
    wire_id = ids.take_result(message.get("tool_call_id") or "")
    if wire_id is None:
        return {"role": "user", "content": orphan_result_text(message)}
    text, parts = split_content(message.get("content"), media_part)
    output: Any = [_text_part(text), *parts] if parts else text
    return {"type": "function_call_output", "call_id": wire_id, "output": output}


def _is_heartbeat(event: Any) -> bool:
    return event.type in _HEARTBEATS


class _CollectedResponse:
    """The response as far as it has arrived. What counts is the whole response of the last event."""

    def __init__(self, model: SdkModel, redact: Redactor) -> None:
        self._model = model
        self._redact = redact
        self._items: list[Any] = []
        self._call_by_index: dict[int, ToolInputChunk] = {}
        self._response: Any = None

    def add(self, event: Any) -> ModelChunk | None:
        """Take in one event; returns what there is to show of it."""
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                return TextChunk(event.delta) if event.delta else None
            case "response.output_item.added" if event.item.type == "function_call":
                call = ToolInputChunk(len(self._call_by_index), event.item.name, "", event.item.call_id)
                self._call_by_index[event.output_index] = call
                return call
            case "response.function_call_arguments.delta":
                call = self._call_by_index[event.output_index]
                return ToolInputChunk(call.position, call.name, event.delta, call.model_id)
            case "response.output_item.done":
                self._items.append(event.item)
            case "response.completed" | "response.incomplete":
                self._response = event.response
            case "response.failed":
                raise event_error(self._model.name, _dump(event.response.error), self._redact)
            case "error":
                raise event_error(self._model.name, _dump(event), self._redact)
        return None

    def finish(self, request: ModelRequest) -> ModelAnswer:
        """The complete answer; raises if it is not complete."""
        response = self._response
        name = self._model.name
        if response is None:
            raise StreamBroken(f"The answer of {name} ended without `response.completed`: it is incomplete.")
        output = response.output or self._items  # some servers leave it out of the last event
        calls = tuple(
            ModelCall(item.name, item.arguments, item.call_id) for item in output if item.type == "function_call"
        )
        stop_reason = response.incomplete_details.reason if response.incomplete_details else "stop"
        if calls and (response.incomplete_details or response.status == "incomplete"):
            raise cut_answer_error(name, stop_reason or "incomplete", len(calls))
        text = "".join(_item_text(item) for item in output)
        written = text + "".join(call.name + call.arguments for call in calls)
        usage = build_usage(_read_usage(response.usage), self._model.settings.price, request, written)
        return ModelAnswer(text, calls, usage, "tool_calls" if calls else stop_reason or "stop", _kept_items(output))


def _item_text(item: Any) -> str:
    if item.type != "message":
        return ""
    return "".join(part.text if part.type == "output_text" else part.refusal for part in item.content)


def _kept_items(output: list[Any]) -> list[dict[str, Any]] | None:
    """What must be sent back as it is: reasoning and hosted calls, together with the items around them."""
    if all(item.type in _PLAIN_ITEMS for item in output):
        return None
    items = [_dump(item) for item in output]
    # Without its encrypted content a reasoning item is only a reference to what the provider did not store.
    if any(item["type"] == "reasoning" and not item.get("encrypted_content") for item in items):
        return None
    return tag_items(WIRE, items)


def _dump(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True) if value is not None else None


def _read_usage(usage: Any) -> TokenCount | None:
    if usage is None:
        return None
    details = usage.input_tokens_details
    return TokenCount(
        read_count(usage.input_tokens),
        read_count(usage.output_tokens),
        read_count(details.cached_tokens) if details else 0,
    )
