"""Images, recordings and files of outcomes, which each model API carries in its own way, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

from surehand.core.call import Call
from surehand.core.content import Audio, File, Image
from surehand.core.outcome import Done, Outcome

Media: TypeAlias = Image | Audio | File
BuildPart: TypeAlias = Callable[[Media], dict[str, Any] | None]
"""Builds the part of a message that carries a block; None if the model API cannot carry it."""


def is_media(block: object) -> TypeGuard[Media]:
    """Whether a block is an image, a recording or a file."""
    return isinstance(block, (Image, Audio, File))


def media_of(outcome: Outcome) -> list[Media]:
    """The images, recordings and files of an outcome."""
    if not isinstance(outcome, Done):
        return []
    return [block for block in outcome.content if is_media(block)]


def split_media(call: Call, outcome: Outcome, build_part: BuildPart) -> tuple[str, list[dict[str, Any]]]:
    """The text for the model, and the parts that carry what is not text.

    The text mentions every block, and says of those that the API cannot carry where they can be seen.
    """
    parts: list[dict[str, Any]] = []
    notes: list[str] = []
    for block in media_of(outcome):
        part = build_part(block)
        if part is None:
            notes.append(not_carried_note(block, call.id))
        else:
            parts.append(part)
    return "\n".join([outcome.text, *notes]), parts


def not_carried_note(block: Media, call_id: str | None) -> str:
    """What the model reads instead of a block that its API cannot carry: where it can be seen."""
    name = block.filename if isinstance(block, File) and block.filename else f"this {block.type}"
    if block.url:
        return f"({name} cannot be shown to you here. It is at {block.url}.)"
    where = f" in the result of call {call_id}" if call_id else " in the result of the call"
    return f"({name}, {block.mime_type}, cannot be shown to you here. The person finds it{where}.)"


def data_url(block: Media) -> str:
    """The address of a block: its own URL, or its data in one."""
    return block.url or f"data:{block.mime_type};base64,{block.data}"
