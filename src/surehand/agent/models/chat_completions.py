"""OpenAI's Chat Completions API, which Ollama, vLLM, LM Studio, OpenRouter, Azure and many others speak too."""

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
    ModelError,
    ModelRequest,
    TextChunk,
    ToolInputChunk,
)
from surehand.agent.models.conversation import (
    WireIds,
    content_parts,
    content_text,
    items_of,
    orphan_result_text,
    split_content,
    tag_items,
)
from surehand.agent.models.errors import StreamBroken
from surehand.agent.models.last_bytes import ended_with
from surehand.agent.models.sdk_model import SdkModel, placeholder_key
from surehand.agent.models.usage import TokenCount, build_usage, read_count
from surehand.core.redaction import Redactor
from surehand.messages.openai import media_part

WIRE = "openai"
_CUT_REASONS = frozenset({"length", "content_filter"})
_REMEDIES = {
    "content_filter": "The provider's filter stopped it: change the prompt.",
    "refusal": "The model refused to go on: change the prompt.",
    "model_context_window_exceeded": "Shorten the conversation, or choose a model with a larger context.",
}
_REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Fields of other servers' messages. DeepSeek and others refuse an answer with calls that comes back without them."""


class ChatCompletionsModel(SdkModel):
    """A model behind the Chat Completions API."""

    provider = WIRE
    sdk_name = "openai"
    key_variable = "OPENAI_API_KEY"
    url_variable = "OPENAI_BASE_URL"

    def _build_client(self, sdk: Any, **options: Any) -> Any:
        return build_openai_client(self, sdk, options)

    async def _send(self, client: Any, fields: dict[str, Any]) -> Any:
        return await client.chat.completions.create(**fields)

    async def _read_answer(
        self, stream: Any, request: ModelRequest, redact: Redactor
    ) -> AsyncGenerator[ModelChunk, None]:
        collected = _CollectedAnswer()
        async with aclosing(self._read_events(aiter(stream), _is_heartbeat)) as chunks:
            async for chunk in chunks:
                for piece in collected.add(chunk):
                    yield piece
        if collected.announces_usage and ended_with(stream.response, b"[DONE]") is False:
            # Other servers may end their streams without it. One that keeps to OpenAI's form in the rest does not.
            raise StreamBroken(f"The answer of {self.name} ended without `[DONE]`: it is incomplete.")
        yield collected.finish(self, request)

    def _build_request(self, request: ModelRequest) -> dict[str, Any]:
        settings = self.settings
        fields: dict[str, Any] = {
            "model": self.model,
            "messages": build_messages(request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        tools = [*request.tools, *hosted_entries(request, WIRE)]
        if tools:
            fields["tools"] = tools
        elif request.output_schema is not None:  # with tools, some servers would allow no call any more
            schema = {"name": "answer", "schema": request.output_schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        if settings.temperature is not None:
            fields["temperature"] = settings.temperature
        if settings.max_tokens is not None:
            # OpenAI's newer models know only the new name, and other servers only the old one.
            is_openai = settings.base_url is None and not os.environ.get("OPENAI_BASE_URL")
            fields["max_completion_tokens" if is_openai else "max_tokens"] = settings.max_tokens
        if settings.reasoning is not None:
            fields["reasoning_effort"] = settings.reasoning
        if settings.options:
            fields["extra_body"] = dict(settings.options)
        return fields


def build_openai_client(model: SdkModel, sdk: Any, options: dict[str, Any]) -> Any:
    """A client of the OpenAI SDK; a server of one's own needs no key."""
    if not options["api_key"] and not os.environ.get("OPENAI_API_KEY"):
        if not options["base_url"] and not os.environ.get("OPENAI_BASE_URL"):
            raise model.missing_key()
        options["api_key"] = placeholder_key()
    if options["base_url"] is None:
        del options["base_url"]  # the SDK reads its variable only if the argument is left out
    return sdk.AsyncOpenAI(**options)


def hosted_entries(request: ModelRequest, provider: str) -> list[dict[str, Any]]:
    """The entries of the tools that the provider itself runs."""
    options = (tool.presentation.provider_options.get(provider) for tool in request.hosted)
    return [dict(entry) for entry in options if entry]


def build_messages(messages: list[Message]) -> list[dict[str, Any]]:
    """Neutral messages as this API takes them."""
    built: list[dict[str, Any]] = []
    media: list[dict[str, Any]] = []
    ids = WireIds()
    for message in messages:
        role = message["role"]
        if role == "tool":
            wire_id = ids.take_result(message.get("tool_call_id") or "")
            if wire_id is None:
                built.append({"role": "user", "content": orphan_result_text(message)})
                continue
            text, parts = split_content(message.get("content"), media_part)
            built.append({"role": "tool", "tool_call_id": wire_id, "content": text})
            if parts:
                media += [{"type": "text", "text": f"From the result of {message.get('name')} ({wire_id}):"}, *parts]
            continue
        if media:
            # A tool message carries text alone, and all of them must directly follow the model's answer.
            built.append({"role": "user", "content": media})
            media = []
        if role == "assistant":
            built.append(_build_assistant_message(message, ids))
        else:
            built.append({"role": role, "content": _build_content(message.get("content"))})
    return [*built, {"role": "user", "content": media}] if media else built


def _build_content(content: Any) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    parts = content_parts(content, lambda text: {"type": "text", "text": text}, media_part)
    return parts or ""


def _build_assistant_message(message: Message, ids: WireIds) -> dict[str, Any]:
    ids.start_answer()
    text = content_text(message.get("content"))
    built: dict[str, Any] = {"role": "assistant", "content": text}
    calls = message.get("tool_calls") or ()
    if calls:
        built["content"] = text or None
        built["tool_calls"] = [
            {"id": ids.add_call(call.get("id") or ""), "type": "function", "function": call["function"]}
            for call in calls
        ]
    for item in items_of(message, WIRE):
        built |= item
    return built


def _is_heartbeat(chunk: Any) -> bool:
    """Whether a chunk has nothing of the answer: some servers send empty ones to keep the connection open."""
    if chunk.usage is not None or not isinstance(chunk.choices, list):
        return False
    deltas = [choice.delta for choice in chunk.choices if choice.delta is not None]
    return not any(choice.finish_reason for choice in chunk.choices) and not any(map(_has_content, deltas))


def _has_content(delta: Any) -> bool:
    extra = (delta.model_extra or {}).values()
    return bool(delta.content or delta.refusal or delta.tool_calls or any(extra))


class _CollectedCall:
    """A call whose arguments still arrive."""

    def __init__(self, position: int, model_id: str | None) -> None:
        self.position = position
        self.model_id = model_id
        self.name = ""
        self.arguments = ""

    def is_complete(self) -> bool:
        if not self.arguments.endswith(("}", "}\n", "} ")):  # asked for each fragment: parse only what may be complete
            return False
        try:
            json.loads(self.arguments)
        except ValueError:
            return False
        return True


class _CollectedAnswer:
    """The answer as far as it has arrived."""

    def __init__(self) -> None:
        self.text = ""
        self.calls: list[_CollectedCall] = []
        self.finish_reason: str | None = None
        self.count: TokenCount | None = None
        self.announces_usage = False
        self.reasoning: dict[str, str] = {}
        self._by_index: dict[int, _CollectedCall] = {}

    def add(self, chunk: Any) -> list[ModelChunk]:
        """Take in one chunk; returns what there is to show of it."""
        if chunk.usage is not None:
            self.count = _read_usage(chunk.usage)
        elif "usage" in chunk.model_fields_set:
            self.announces_usage = True
        if not isinstance(chunk.choices, list):
            raise TypeError("a chunk without `choices`")
        pieces: list[ModelChunk] = []
        for choice in chunk.choices:
            if choice.delta is not None:
                pieces += self._add_delta(choice.delta)
            if choice.finish_reason is not None:
                self.finish_reason = choice.finish_reason
        return pieces

    def _add_delta(self, delta: Any) -> list[ModelChunk]:
        pieces: list[ModelChunk] = []
        for name in _REASONING_FIELDS:
            reasoning = (delta.model_extra or {}).get(name)
            if isinstance(reasoning, str) and reasoning:
                self.reasoning[name] = self.reasoning.get(name, "") + reasoning
        text = (delta.content or "") + (delta.refusal or "")
        if text:
            self.text += text
            pieces.append(TextChunk(text))
        return [*pieces, *map(self._add_fragment, delta.tool_calls or ())]

    def _add_fragment(self, fragment: Any) -> ToolInputChunk:
        name = (fragment.function.name if fragment.function else None) or ""
        text = (fragment.function.arguments if fragment.function else None) or ""
        call = self._find_call(fragment.index, fragment.id or None, name)
        call.name = call.name or name
        call.arguments += text
        return ToolInputChunk(call.position, call.name, text, call.model_id)

    def _find_call(self, index: int | None, model_id: str | None, name: str) -> _CollectedCall:
        """The call that a fragment belongs to.

        Some servers give no index, or 0 for every call; some repeat the name, or write `call_1` as every id.
        """
        call = self._by_index.get(index) if index is not None else (self.calls[-1] if self.calls else None)
        starts_another = call is None or (
            bool(name) and ((model_id is not None and model_id != call.model_id) or call.is_complete())
        )
        if call is None or starts_another:
            call = _CollectedCall(len(self.calls), model_id)
            self.calls.append(call)
            if index is not None:
                self._by_index[index] = call
        return call

    def finish(self, model: SdkModel, request: ModelRequest) -> ModelAnswer:
        """The complete answer; raises if it is not complete."""
        if self.finish_reason is None:
            raise StreamBroken(f"The answer of {model.name} ended without a finish reason: it is incomplete.")
        if self.announces_usage and self.count is None:
            # A server that writes `usage: null` in each chunk sends the numbers in one more chunk at the end.
            raise StreamBroken(f"The answer of {model.name} ended before its usage was sent: it is incomplete.")
        if self.calls and self.finish_reason in _CUT_REASONS:
            raise cut_answer_error(model.name, self.finish_reason, len(self.calls))
        if any(not call.name for call in self.calls):
            raise StreamBroken(f"{model.name} called a tool without a name.")
        calls = tuple(ModelCall(call.name, call.arguments, call.model_id) for call in self.calls)
        written = self.text + "".join(call.name + call.arguments for call in self.calls)
        usage = build_usage(self.count, model.settings.price, request, written)
        items = tag_items(WIRE, [dict(self.reasoning)] if self.reasoning and calls else [])
        return ModelAnswer(self.text, calls, usage, self.finish_reason, items)


def cut_answer_error(name: str, reason: str, call_count: int) -> ModelError:
    """The error of an answer with calls whose arguments may be incomplete."""
    remedy = _REMEDIES.get(reason, "Raise `max_tokens`.")
    return ModelError(
        f"The answer of {name} was cut ({reason}), so the arguments of its {call_count} tool calls may be incomplete. "
        f"{remedy}"
    )


def _read_usage(usage: Any) -> TokenCount:
    details = usage.prompt_tokens_details
    cost = (usage.model_extra or {}).get("cost")
    return TokenCount(
        read_count(usage.prompt_tokens),
        read_count(usage.completion_tokens),
        read_count(details.cached_tokens) if details else 0,
        float(cost) if isinstance(cost, (int, float)) else None,
    )
