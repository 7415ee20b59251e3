"""JSON-schema mode: calls for a model without native tools, whose answer has to follow a JSON Schema.

The tools are described in the prompt. The model answers with one JSON object that holds calls and text; a server that
enforces schemas, such as llama.cpp, vLLM or Ollama, lets it write nothing else.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from surehand.agent.models.base import (
    AnswerRestarted,
    Message,
    Model,
    ModelAnswer,
    ModelCall,
    ModelChunk,
    ModelRequest,
    TextChunk,
    ToolInputChunk,
    find_max_tokens,
    open_stream,
)
from surehand.agent.models.conversation import content_text, function_tools
from surehand.agent.models.errors import StreamBroken

_MAX_CALLS = 16
"""Calls of one answer: a small model that may write a list of any length does not find its end."""
_SCHEMAS_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Keywords whose keys are names of the developer, not keywords."""
_PLAIN_VALUES = frozenset({"const", "default", "enum", "example", "examples", "required"})
"""Keywords whose value is no schema."""
_INSTRUCTIONS = """\
Answer with one JSON object.
To use tools: {"tool_calls": [{"tool": NAME, "arguments": {...}}], "answer": ""}. You are then given their results.
If you need no more tools: {"tool_calls": [], "answer": YOUR ANSWER}."""
_CALLS = "tool_calls"
_ANSWER = "answer"


class JsonModeModel:
    """A model that is asked for JSON instead of native tool calls."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self._model = model

    def __repr__(self) -> str:
        return f"JsonModeModel({self._model!r})"

    @property
    def max_tokens(self) -> int | None:
        """The most tokens of one answer of the model; None if it does not say."""
        return find_max_tokens(self._model)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """Answer a request. Its text and calls come at the end, because until then they are JSON."""
        functions = list(function_tools(request.tools))
        if not functions:
            async with open_stream(self._model, request) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        asked = ModelRequest(
            messages=_build_messages(request.messages, functions),
            hosted=request.hosted,
            output_schema=_build_schema(functions, request.output_schema),
        )
        async with open_stream(self._model, asked) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, AnswerRestarted):
                    yield chunk
                elif isinstance(chunk, ModelAnswer):
                    answer = self._read_answer(chunk)
                    if answer.text:
                        yield TextChunk(answer.text)
                    for position, call in enumerate(answer.calls):
                        yield ToolInputChunk(position, call.name, call.arguments)
                    yield answer

    def _read_answer(self, answer: ModelAnswer) -> ModelAnswer:
        """The answer with its calls, read from the JSON of its text; other text is the answer itself."""
        text = _strip_code_fence(answer.text)
        if not text.startswith("{"):
            return answer
        try:
            written = json.loads(text)
        except ValueError as error:
            raise StreamBroken(f"{self.name} wrote JSON that is cut or malformed ({error}).") from None
        entries = written.get(_CALLS)
        if not isinstance(entries, list):
            return answer
        calls = tuple(_read_call(entry) for entry in entries if isinstance(entry, dict) and entry.get("tool"))
        final = written.get(_ANSWER)
        final_text = final if isinstance(final, str) else json.dumps(final, ensure_ascii=False)
        return ModelAnswer(
            text="" if final is None or calls else final_text,
            calls=calls,
            usage=answer.usage,
            stop_reason="tool_calls" if calls else answer.stop_reason,
            provider_items=answer.provider_items,
        )


def _read_call(entry: dict[str, Any]) -> ModelCall:
    arguments = entry.get("arguments", {})
    return ModelCall(str(entry["tool"]), arguments if isinstance(arguments, str) else json.dumps(arguments))


def _strip_code_fence(text: str) -> str:
    """The text without the Markdown fence that models like to put around JSON."""
    stripped = text.strip()
    if not stripped.startswith("```"):
        return stripped
    lines = stripped.splitlines()
    return "\n".join(lines[1:-1] if lines[-1].strip() == "```" else lines[1:]).strip()


def _build_messages(messages: list[Message], functions: list[dict[str, Any]]) -> list[Message]:
    """The conversation without tool messages: a model without native tools would not understand them."""
    system = [content_text(message.get("content")) for message in messages if message["role"] == "system"]
    prompt = "\n\n".join(filter(None, [*system, _describe_tools(functions)]))
    built: list[Message] = [{"role": "system", "content": prompt}]
    for message in messages:
        match message["role"]:
            case "assistant":
                built.append({"role": "assistant", "content": _assistant_json(message)})
            case "tool":
                text = f"[Result of {message.get('name') or 'the tool'}] {content_text(message.get('content'))}"
                built.append({"role": "user", "content": text})
            case "user":
                built.append(message)
    return built


def _describe_tools(functions: list[dict[str, Any]]) -> str:
    lines = [
        f"- {each['name']}: {each.get('description', '')} Arguments: {json.dumps(each.get('parameters') or {})}"
        for each in functions
    ]
    return "\n".join(["You can use these tools:", *lines, _INSTRUCTIONS])


def _assistant_json(message: Message) -> str:
    """An earlier answer in the form that the model is asked for."""
    calls = [
        {"tool": call["function"]["name"], "arguments": _parse_or_text(call["function"]["arguments"])}
        for call in message.get("tool_calls") or ()
    ]
    return json.dumps({_CALLS: calls, _ANSWER: content_text(message.get("content"))}, ensure_ascii=False)


def _parse_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _build_schema(functions: list[dict[str, Any]], output_schema: dict[str, Any] | None) -> dict[str, Any]:
    """The schema of an answer: an object with calls, each of one of the tools, and a text or the output."""
    definitions: dict[str, Any] = {}
    choices = []
    for number, function in enumerate(functions):
        parameters = _embed(function.get("parameters") or {"type": "object"}, f"tool{number}_", definitions)
        properties = {"tool": {"const": function["name"]}, "arguments": parameters}
        choices.append(_object(properties))
    answer: dict[str, Any] = {"type": "string"}
    if output_schema is not None:
        answer = {"anyOf": [{"type": "null"}, _embed(output_schema, "output_", definitions)]}
    calls = {"type": "array", "items": {"anyOf": choices}, "maxItems": _MAX_CALLS}
    schema = _object({_CALLS: calls, _ANSWER: answer})
    return schema | {"$defs": definitions} if definitions else schema


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _embed(schema: dict[str, Any], prefix: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """A schema as a part of the schema of answers."""
    hoisted: dict[str, Any] = _hoist(schema, prefix, definitions)
    if prefix not in definitions:
        return hoisted
    definitions[prefix] = hoisted
    return {"$ref": f"#/$defs/{prefix}"}


def _hoist(schema: Any, prefix: str, definitions: dict[str, Any]) -> Any:
    """The schema with its `$defs` moved to `definitions`: a reference counts from the root of the whole schema."""
    if not isinstance(schema, dict):
        return schema
    moved: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("$defs", "definitions") and isinstance(value, dict):
            for name, definition in value.items():
                definitions[prefix + name] = _hoist(definition, prefix, definitions)
        elif key == "$ref" and isinstance(value, str):
            moved[key] = _move_reference(value, prefix, definitions)
        elif key in _SCHEMAS_BY_NAME and isinstance(value, dict):
            moved[key] = {name: _hoist(each, prefix, definitions) for name, each in value.items()}
        elif key in _PLAIN_VALUES:
            moved[key] = value
        elif isinstance(value, list):
            moved[key] = [_hoist(each, prefix, definitions) for each in value]
        else:
            moved[key] = _hoist(value, prefix, definitions)
    return moved


def _move_reference(reference: str, prefix: str, definitions: dict[str, Any]) -> str:
    for start in ("#/$defs/", "#/definitions/"):
        if reference.startswith(start):
            return f"#/$defs/{prefix}{reference.removeprefix(start)}"
    definitions.setdefault(prefix, {})  # the reference leads to the schema itself, or into it: `_embed` adds it
    return f"#/$defs/{prefix}{reference.removeprefix('#')}"
