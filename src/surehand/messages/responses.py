"""OpenAI's Responses API, and the Open Responses that other servers speak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surehand.core.call import Call
from surehand.core.content import File, Image
from surehand.core.outcome import Outcome
from surehand.messages.answer import (
    AT_TOKEN_LIMIT,
    BROKEN_OFF,
    FILTERED,
    NOT_ENDED,
    RequestedCall,
    build_calls,
    is_list,
    pair_results,
    read_field,
    refuse_defect,
    refuse_incomplete_answer,
    require_model_id,
)
from surehand.messages.media import Media, data_url, split_media

_INCOMPLETE = {"max_output_tokens": AT_TOKEN_LIMIT, "content_filter": FILTERED}
_DEFECTS = dict.fromkeys(("incomplete", "failed", "cancelled"), BROKEN_OFF)
_DEFECTS |= dict.fromkeys(("queued", "in_progress"), NOT_ENDED)


def calls(response: Any, run: str | None = None, step: int = 0) -> list[Call]:
    """The tool calls of a response, or of the list of its output items.

    With `run`, each call has an id derived from run, step and position: calling again after a crash runs nothing twice.
    """
    items = response if is_list(response) else read_field(response, "output")
    if not is_list(items):
        kind = type(response).__name__
        raise TypeError(f"messages.responses.calls takes a response or a list of output items, got {kind}.")
    requested = [
        RequestedCall(read_field(item, "name"), read_field(item, "arguments"), read_field(item, "call_id"))
        for item in items
        if read_field(item, "type") == "function_call"
    ]
    if details := read_field(response, "incomplete_details"):
        reason = read_field(details, "reason")
        refuse_defect(requested, _INCOMPLETE.get(reason, BROKEN_OFF), f"incomplete: {reason}")
    refuse_incomplete_answer(requested, response, ("status",), _DEFECTS)
    return build_calls(requested, run, step)


def results(calls: Sequence[Call], outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The input items to append: one for each call, in order, with its images and files."""
    items = []
    for call, outcome in pair_results(calls, outcomes):
        text, parts = split_media(call, outcome, media_part)
        output = [{"type": "input_text", "text": text}, *parts] if parts else text
        items.append({"type": "function_call_output", "call_id": require_model_id(call), "output": output})
    return items


def media_part(block: Media) -> dict[str, Any] | None:
    """The part of a message that carries an image, a recording or a file; None if this API cannot."""
    match block:
        case Image():
            return {"type": "input_image", "image_url": data_url(block)}
        case File(url=url) if url:
            return {"type": "input_file", "file_url": url}
        case File(filename=filename):
            return {"type": "input_file", "filename": filename or "file", "file_data": data_url(block)}
    return None
