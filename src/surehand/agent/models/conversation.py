"""Parts of the translation from neutral messages to a model API that all of them share: ids of calls, and content."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from surehand.agent.models.base import Message
from surehand.core.content import Block, Text, block_text, parse_blocks, to_text
from surehand.messages.media import Media, is_media, not_carried_note

Part: TypeAlias = dict[str, Any]

_VALID_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}\Z")
"""What every API accepts: OpenAI takes at most 40 characters, Anthropic no others than these."""


class WireIds:
    """Ids of calls that are unique in a conversation, whatever ids the model gave: some servers repeat `call_1`."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._open: dict[str, deque[str]] = {}

    def start_answer(self) -> None:
        """Another answer begins: results from here on belong to its calls."""
        self._open = {}

    def add_call(self, call_id: str) -> str:
        """The id for the next call of the answer."""
        wire_id = call_id
        number = len(self._used)
        while wire_id in self._used or not _VALID_ID.match(wire_id):
            number += 1
            wire_id = f"call_{number}"
        self._used.add(wire_id)
        self._open.setdefault(call_id, deque()).append(wire_id)
        return wire_id

    def take_result(self, call_id: str) -> str | None:
        """The id under which the next result for this call is sent; None if the answer has no such call."""
        waiting = self._open.get(call_id)
        return waiting.popleft() if waiting else None


def content_text(content: Any) -> str:
    """The text of a message; other content is mentioned in it."""
    return "\n".join(text for block in _blocks(content) if (text := block_text(block)))


def content_parts(
    content: Any, text_part: Callable[[str], Part], media_part: Callable[[Media], Part | None]
) -> list[Part]:
    """The content of a message, in order, as parts of a model API; it says of what the API cannot carry where it is."""
    parts = []
    for block in _blocks(content):
        part = media_part(block) if is_media(block) else None
        if part is None:
            text = not_carried_note(block, None) if is_media(block) else block_text(block)
            part = text_part(text) if text else None
        if part is not None:
            parts.append(part)
    return parts


def split_content(content: Any, media_part: Callable[[Media], Part | None]) -> tuple[str, list[Part]]:
    """The text of a message, and the parts that carry its images, recordings and files."""
    parts = content_parts(content, lambda text: {"_text": text}, media_part)
    text = "\n".join(part["_text"] for part in parts if "_text" in part)
    return text, [part for part in parts if "_text" not in part]


def _blocks(content: Any) -> tuple[Block, ...]:
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (Text(content),)
    return parse_blocks(content) or (Text(to_text(content)),)


def orphan_result_text(message: Message) -> str:
    """The text of a result whose call is no longer in the conversation."""
    return f"[Tool Result: {message.get('name') or 'tool'}] {content_text(message.get('content'))}"


def items_of(message: Message, wire: str) -> list[dict[str, Any]]:
    """What the model of this wire wants back unchanged."""
    return [entry["item"] for entry in message.get("provider_items") or () if entry.get("wire") == wire]


def tag_items(wire: str, items: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Items for `provider_items`, each with the name of the wire that understands it; None without items."""
    return [{"wire": wire, "item": item} for item in items] or None


def function_tools(tools: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The functions among tools in the form of Chat Completions."""
    for entry in tools:
        if isinstance(entry.get("function"), dict):
            yield entry["function"]
