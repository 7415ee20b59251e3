"""OpenAI's Chat Completions API, which many other servers speak too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surehand.core.call import Call
from surehand.core.content import Audio, File, Image
from surehand.core.outcome import Outcome
from surehand.messages.answer import (
    AT_TOKEN_LIMIT,
    FILTERED,
    RequestedCall,
    build_calls,
    has_field,
    is_list,
    pair_results,
    read_field,
    refuse_incomplete_answer,
    require_model_id,
)
from surehand.messages.media import Media, data_url, split_media

_DEFECTS = {"length": AT_TOKEN_LIMIT, "content_filter": FILTERED}
_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
}


def calls(response: Any, run: str | None = None, step: int = 0) -> list[Call]:
    """The tool calls of a completion, of one of its choices, or of its message.

    With `run`, each call has an id derived from run, step and position: calling again after a crash runs nothing twice.
    """
    choices = read_field(response, "choices")
    choice = choices[0] if is_list(choices) and choices else response
    message = read_field(choice, "message") or choice
    if not has_field(message, "tool_calls") and not has_field(message, "content"):
        kind = type(response).__name__
        raise TypeError(f"messages.openai.calls takes a chat completion, a choice or a message, got {kind}.")
    requested = [
        RequestedCall(read_field(function, "name"), read_field(function, "arguments"), read_field(each, "id"))
        for each in read_field(message, "tool_calls") or ()
        if (function := read_field(each, "function")) is not None
    ]
    refuse_incomplete_answer(requested, choice, ("finish_reason",), _DEFECTS)
    return build_calls(requested, run, step)


def results(calls: Sequence[Call], outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The messages to append: one for each call, in order, then one with the images, recordings and files, if any."""
    tool_messages = []
    media_parts: list[dict[str, Any]] = []
    for call, outcome in pair_results(calls, outcomes):
        text, parts = split_media(call, outcome, media_part)
        model_id = require_model_id(call)
        tool_messages.append({"role": "tool", "tool_call_id": model_id, "content": text})
        if parts:
            media_parts += [{"type": "text", "text": f"From the result of {call.tool} ({model_id}):"}, *parts]
    # A tool message of this API carries text alone, and all of them must directly follow the model's answer.
    return [*tool_messages, {"role": "user", "content": media_parts}] if media_parts else tool_messages


def media_part(block: Media) -> dict[str, Any] | None:
    """The part of a message that carries an image, a recording or a file; None if this API cannot."""
    match block:
        case Image():
            return {"type": "image_url", "image_url": {"url": data_url(block)}}
        case Audio(data=data, mime_type=mime_type) if data and mime_type in _AUDIO_FORMATS:
            return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO_FORMATS[mime_type]}}
        case File(data=data, mime_type="application/pdf", filename=filename) if data:
            return {"type": "file", "file": {"filename": filename or "file.pdf", "file_data": data_url(block)}}
    return None
