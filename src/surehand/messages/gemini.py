"""Google's Gemini API (`generateContent`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surehand.core.call import Call
from surehand.core.outcome import Failed, Outcome
from surehand.messages.answer import (
    AT_TOKEN_LIMIT,
    BROKEN_OFF,
    FILTERED,
    RequestedCall,
    build_calls,
    is_list,
    pair_results,
    read_field,
    refuse_incomplete_answer,
)
from surehand.messages.media import Media, split_media

_FILTERS = ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
_BREAKS = ("OTHER", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")
_DEFECTS = {"MAX_TOKENS": AT_TOKEN_LIMIT} | dict.fromkeys(_FILTERS, FILTERED) | dict.fromkeys(_BREAKS, BROKEN_OFF)


def calls(response: Any, run: str | None = None, step: int = 0) -> list[Call]:
    """The tool calls of a response, of one of its candidates, or of its content.

    With `run`, each call has an id derived from run, step and position: calling again after a crash runs nothing twice.
    """
    candidates = read_field(response, "candidates")
    candidate = candidates[0] if is_list(candidates) and candidates else response
    content = read_field(candidate, "content") or candidate
    parts = read_field(content, "parts")
    if not is_list(parts):
        if candidates is not None or read_field(candidate, "finish_reason", "finishReason") is not None:
            return []  # an answer that was blocked, or is empty, has no parts
        kind = type(response).__name__
        raise TypeError(f"messages.gemini.calls takes a response, a candidate or a content, got {kind}.")
    requested = [
        RequestedCall(read_field(function, "name"), read_field(function, "args") or {}, read_field(function, "id"))
        for part in parts
        if (function := read_field(part, "function_call", "functionCall")) is not None
    ]
    refuse_incomplete_answer(requested, candidate, ("finish_reason", "finishReason"), _DEFECTS)
    return build_calls(requested, run, step)


def results(calls: Sequence[Call], outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The contents to append: one of the role `user` with a response for each call; none without calls."""
    responses: list[dict[str, Any]] = []
    media_parts: list[dict[str, Any]] = []
    for call, outcome in pair_results(calls, outcomes):
        text, parts = split_media(call, outcome, _media_part)
        response = {"error": text} if isinstance(outcome, Failed) else {"output": text}
        identity = {"name": call.tool} if call.model_id is None else {"id": call.model_id, "name": call.tool}
        responses.append({"functionResponse": identity | {"response": response}})
        if parts:
            media_parts += [{"text": f"From the result of {call.tool}:"}, *parts]
    # Beside the responses, not inside them: older models of this API refuse images in a response.
    return [{"role": "user", "parts": [*responses, *media_parts]}] if responses else []


def _media_part(block: Media) -> dict[str, Any] | None:
    if block.url:
        return {"fileData": {"mimeType": block.mime_type, "fileUri": block.url}}
    return {"inlineData": {"mimeType": block.mime_type, "data": block.data}}
