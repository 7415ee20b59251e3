"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surehand.core.call import Call
from surehand.core.content import File, Image
from surehand.core.outcome import Failed, Outcome
from surehand.messages.answer import (
    AT_TOKEN_LIMIT,
    CONTEXT_FULL,
    REFUSED,
    RequestedCall,
    build_calls,
    is_list,
    pair_results,
    read_field,
    refuse_incomplete_answer,
    require_model_id,
)
from surehand.messages.media import Media, split_media

_DEFECTS = {"max_tokens": AT_TOKEN_LIMIT, "model_context_window_exceeded": CONTEXT_FULL, "refusal": REFUSED}
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def calls(response: Any, run: str | None = None, step: int = 0) -> list[Call]:
    """The tool calls of a message, or of the list of its content blocks.

    With `run`, each call has an id derived from run, step and position: calling again after a crash runs nothing twice.
    """
    blocks = response if is_list(response) else read_field(response, "content")
    if isinstance(blocks, str):  # a message of plain text
        blocks = []
    if not is_list(blocks):
        kind = type(response).__name__
        raise TypeError(f"messages.anthropic.calls takes a message or a list of content blocks, got {kind}.")
    requested = [
        RequestedCall(read_field(block, "name"), read_field(block, "input"), read_field(block, "id"))
        for block in blocks
        if read_field(block, "type") == "tool_use"
    ]
    refuse_incomplete_answer(requested, response, ("stop_reason",), _DEFECTS)
    return build_calls(requested, run, step)


def results(calls: Sequence[Call], outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The messages to append: one user message with a result for each call; none without calls."""
    blocks = []
    for call, outcome in pair_results(calls, outcomes):
        text, parts = split_media(call, outcome, media_part)
        content = [{"type": "text", "text": text}, *parts] if parts else text
        block = {"type": "tool_result", "tool_use_id": require_model_id(call), "content": content}
        blocks.append(block | {"is_error": True} if isinstance(outcome, Failed) else block)
    return [{"role": "user", "content": blocks}] if blocks else []


def media_part(block: Media) -> dict[str, Any] | None:
    """The part of a message that carries an image, a recording or a file; None if this API cannot."""
    source: dict[str, Any] = {"type": "url", "url": block.url}
    if not block.url:
        source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
    match block:
        case Image(url=url, mime_type=mime_type) if url or mime_type in _IMAGE_TYPES:
            return {"type": "image", "source": source}
        case File(mime_type="application/pdf", filename=filename):
            return {"type": "document", "source": source} | ({"title": filename} if filename else {})
    return None
