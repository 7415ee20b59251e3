"""Anthropic's Messages API.

Events are read as they come from the wire: the SDK's own stream skips events without a name and ends a cut answer as if
it were whole, with `{}` as the arguments of a call that had not arrived.
"""

from __future__ import annotations

import json
import os
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
from surehand.agent.models.chat_completions import cut_answer_error, hosted_entries
from surehand.agent.models.conversation import (
    WireIds,
    content_parts,
    content_text,
    function_tools,
    items_of,
    orphan_result_text,
    tag_items,
)
from surehand.agent.models.errors import StreamBroken, event_error
from surehand.agent.models.sdk_model import SdkModel, placeholder_key
from surehand.agent.models.usage import TokenCount, build_usage, read_count
from surehand.core.redaction import Redactor
from surehand.messages.anthropic import media_part

WIRE = "anthropic"
DEFAULT_MAX_TOKENS = 16_000
"""The API requires a limit; every current model allows this much."""
_CUT_REASONS = frozenset({"max_tokens", "refusal", "model_context_window_exceeded"})
_NEUTRAL_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
_PLAIN_BLOCKS = frozenset({"text", "tool_use"})


class AnthropicModel(SdkModel):
    """A model behind Anthropic's Messages API."""

    provider = WIRE
    sdk_name = "anthropic"
    key_variable = "ANTHROPIC_API_KEY"
    url_variable = "ANTHROPIC_BASE_URL"

    @property
    def max_tokens(self) -> int:
        """The most tokens of one answer."""
        return self.settings.max_tokens or DEFAULT_MAX_TOKENS

    def _build_client(self, sdk: Any, **options: Any) -> Any:
        client = sdk.AsyncAnthropic(**options)
        if client.api_key or client.auth_token or client.credentials:
            return client
        if not options["base_url"] and not os.environ.get(self.url_variable):
            raise self.missing_key()
        return client.with_options(api_key=placeholder_key())

    async def _send(self, client: Any, fields: dict[str, Any]) -> Any:
        return await client.messages.create(**fields)

    async def _read_answer(
        self, stream: Any, request: ModelRequest, redact: Redactor
    ) -> AsyncGenerator[ModelChunk, None]:
        collected = _CollectedMessage(self, redact)
        body = _ResponseBody(stream.response)
        async with (
            aclosing(body.chunks),
            aclosing(type(stream).raw_events(body)) as raw_events,
            aclosing(self._read_events(raw_events, _is_heartbeat)) as events,
        ):
            async for event in events:
                piece = collected.add(event.event, event.data)
                if piece is not None:
                    yield piece
        yield collected.finish(request)

    def _build_request(self, request: ModelRequest) -> dict[str, Any]:
        settings = self.settings
        system, messages = build_messages(request.messages)
        fields: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "max_tokens": self.max_tokens,
            "stream": True,
        }
        if system:
            fields["system"] = system
        tools = [_build_tool(function) for function in function_tools(request.tools)]
        tools += hosted_entries(request, WIRE)
        if tools:
            fields["tools"] = tools
        if settings.reasoning is not None:
            fields["output_config"] = {"effort": settings.reasoning}
        # The SDK has no parameter for the temperature, which only older models take.
        extra = {} if settings.temperature is None else {"temperature": settings.temperature}
        fields["extra_body"] = extra | dict(settings.options)
        return fields


def _build_tool(function: dict[str, Any]) -> dict[str, Any]:
    tool = {"name": function["name"], "input_schema": function.get("parameters") or {"type": "object"}}
    return tool | {"description": function["description"]} if function.get("description") else tool


def build_messages(messages: list[Message]) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt, and neutral messages as this API takes them: user and assistant in turn."""
    system: list[str] = []
    built: list[dict[str, Any]] = []
    ids = WireIds()
    for message in messages:
        match message["role"]:
            case "system" if not built:
                system.append(content_text(message.get("content")))
            case "assistant":
                _append(built, "assistant", _build_assistant_blocks(message, ids))
            case "tool":
                _append(built, "user", [_build_result_block(message, ids)])
            case _:
                _append(built, "user", content_parts(message.get("content"), _text_part, media_part))
    return "\n\n".join(filter(None, system)), built


def _append(built: list[dict[str, Any]], role: str, blocks: list[dict[str, Any]]) -> None:
    """Add blocks to the last message if it is of this role: all results of an answer belong into one message."""
    if not blocks:
        return
    if built and built[-1]["role"] == role:
        built[-1]["content"] += blocks
    else:
        built.append({"role": role, "content": blocks})


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _build_assistant_blocks(message: Message, ids: WireIds) -> list[dict[str, Any]]:
    ids.start_answer()
    calls = message.get("tool_calls") or ()
    wire_ids = [ids.add_call(call.get("id") or "") for call in calls]
    items = items_of(message, WIRE)
    if items:
        # As the provider signed them, except for the ids of calls, which must be those of the results.
        remaining = iter(wire_ids)
        return [item | {"id": next(remaining, item["id"])} if item["type"] == "tool_use" else item for item in items]
    text = content_text(message.get("content"))
    blocks = [_text_part(text)] if text.strip() else []
    for wire_id, call in zip(wire_ids, calls, strict=True):
        function = call["function"]
        arguments = _parse_arguments(function["arguments"])
        blocks.append({"type": "tool_use", "id": wire_id, "name": function["name"], "input": arguments})
    return blocks


def _parse_arguments(text: str) -> dict[str, Any]:
    """The arguments as the object that this API wants back; malformed ones as the text that the model wrote."""
    try:
        arguments = json.loads(text or "{}")
    except ValueError:
        return {"malformed_json": text}
    return arguments if isinstance(arguments, dict) else {"malformed_json": text}


def _build_result_block(message: Message, ids: WireIds) -> dict[str, Any]:
    wire_id = ids.take_result(message.get("tool_call_id") or "")
    if wire_id is None:
        return _text_part(orphan_result_text(message))
    parts = content_parts(message.get("content"), _text_part, media_part)
    block = {"type": "tool_result", "tool_use_id": wire_id, "content": parts}
    return block | {"is_error": True} if message.get("is_error") else block


def _is_heartbeat(event: Any) -> bool:
    return bool(event.event == "ping")


class _ResponseBody:
    """The body of a response for the SDK's reader of events, which leaves the iteration over the bytes open."""

    def __init__(self, response: Any) -> None:
        self.chunks = response.aiter_bytes()

    def aiter_bytes(self) -> Any:
        return self.chunks


class _CollectedMessage:
    """The message as far as it has arrived."""

    def __init__(self, model: SdkModel, redact: Redactor) -> None:
        self._model = model
        self._redact = redact
        self._blocks: dict[int, dict[str, Any]] = {}
        self._written_inputs: dict[int, str] = {}
        self._open: set[int] = set()
        self._positions: dict[int, int] = {}
        self._stop_reason: str | None = None
        self._has_stopped = False
        self._usage: dict[str, Any] = {}

    def add(self, name: str | None, data: str) -> ModelChunk | None:
        """Take in one event; returns what there is to show of it."""
        if name == "ping":
            return None
        event = json.loads(data)
        if name == "error" or event["type"] == "error":
            raise event_error(self._model.name, event, self._redact)
        match event["type"]:
            case "message_start":
                self._usage |= event["message"].get("usage") or {}
            case "content_block_start":
                return self._start_block(event["index"], event["content_block"])
            case "content_block_delta":
                return self._add_delta(event["index"], event["delta"])
            case "content_block_stop":
                self._open.remove(event["index"])
            case "message_delta":
                self._stop_reason = event["delta"].get("stop_reason") or self._stop_reason
                usage = event.get("usage") or {}
                self._usage |= {key: value for key, value in usage.items() if value is not None}
            case "message_stop":
                self._has_stopped = True
        return None

    def _start_block(self, index: int, block: dict[str, Any]) -> ModelChunk | None:
        self._blocks[index] = dict(block)
        self._open.add(index)
        if block["type"] == "text" and block["text"]:
            return TextChunk(block["text"])
        if block["type"] == "tool_use":
            self._positions[index] = len(self._positions)
            return ToolInputChunk(self._positions[index], block["name"], "", block["id"])
        return None

    def _add_delta(self, index: int, delta: dict[str, Any]) -> ModelChunk | None:
        block = self._blocks[index]
        match delta["type"]:
            case "text_delta":
                block["text"] += delta["text"]
                return TextChunk(delta["text"])
            case "input_json_delta":
                text = delta["partial_json"]
                self._written_inputs[index] = self._written_inputs.get(index, "") + text
                if block["type"] == "tool_use":
                    return ToolInputChunk(self._positions[index], block["name"], text, block["id"])
            case "thinking_delta":
                block["thinking"] += delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        return None

    def finish(self, request: ModelRequest) -> ModelAnswer:
        """The complete answer; raises if it is not complete."""
        name = self._model.name
        if self._stop_reason is None or not self._has_stopped or self._open:
            raise StreamBroken(f"The answer of {name} ended without `message_stop`: it is incomplete.")
        calls = self._calls()
        if calls and self._stop_reason in _CUT_REASONS:
            raise cut_answer_error(name, self._stop_reason, len(calls))
        text = "".join(block["text"] for block in self._blocks.values() if block["type"] == "text")
        written = text + "".join(call.name + call.arguments for call in calls)
        usage = build_usage(self._read_usage(), self._model.settings.price, request, written)
        stop_reason = _NEUTRAL_REASONS.get(self._stop_reason, self._stop_reason)
        continues_paused = bool(request.messages) and request.messages[-1]["role"] == "assistant"
        items = self._kept_items(keep_plain=continues_paused)
        return ModelAnswer(text, calls, usage, stop_reason, items)

    def _calls(self) -> tuple[ModelCall, ...]:
        return tuple(
            ModelCall(block["name"], self._written_inputs.get(index) or json.dumps(block["input"]), block["id"])
            for index, block in self._blocks.items()
            if block["type"] == "tool_use"
        )

    def _kept_items(self, *, keep_plain: bool) -> list[dict[str, Any]] | None:
        """What must be sent back as it is: signed thinking and hosted calls, with the blocks around them.

        The rest of a paused answer is kept also if it is plain: it belongs to the hosted calls before the pause.
        """
        if not keep_plain and all(block["type"] in _PLAIN_BLOCKS for block in self._blocks.values()):
            return None
        items = []
        for index, block in self._blocks.items():
            written = self._written_inputs.get(index)
            items.append(block | {"input": _parse_arguments(written)} if written is not None else block)
        return tag_items(WIRE, items)

    def _read_usage(self) -> TokenCount | None:
        usage = self._usage
        if "output_tokens" not in usage:
            return None
        cached = read_count(usage.get("cache_read_input_tokens"))
        written = read_count(usage.get("cache_creation_input_tokens"))
        tokens_in = read_count(usage.get("input_tokens")) + written + cached
        return TokenCount(tokens_in, read_count(usage["output_tokens"]), cached)
