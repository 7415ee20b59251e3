"""Plain results: the common form of a tool's result, checked by hand so that the MCP SDK's models need not be built.

A plain result has text blocks, structured content and `_meta`, and nothing else. Any other form goes through the SDK.
"""

from __future__ import annotations

from typing import Any

from surehand.providers.mcp.walk import is_finite

MAX_DIRECT_BYTES = 16 * 1024
"""Largest message in bytes that is parsed inside the read callback, without a task."""
MAX_DIRECT_BLOCKS = 200
"""Most content blocks of a result that is handled inside the read callback."""
_HANDSHAKE_KEYS = frozenset({"content", "structuredContent", "isError", "_meta"})
_MODERN_KEYS = _HANDSHAKE_KEYS | {"resultType"}
_TEXT_KEYS = frozenset({"type", "text"})
_ABSENT: dict[str, Any] = {}


def is_plain(result: dict[str, Any], *, modern: bool) -> bool:
    """Whether the MCP SDK would accept a parsed result as it is."""
    if not result.keys() <= (_MODERN_KEYS if modern else _HANDSHAKE_KEYS) or (
        modern and result.get("resultType") != "complete"
    ):
        return False
    structured, meta = result.get("structuredContent", _ABSENT), result.get("_meta", _ABSENT)
    if type(meta) is not dict or not (modern or type(structured) is dict):
        return False
    if type(result.get("isError", False)) is not bool or not _are_texts(result.get("content")):
        return False
    return is_finite(structured) and is_finite(meta)


def _are_texts(content: Any) -> bool:
    if type(content) is not list or len(content) > MAX_DIRECT_BLOCKS:
        return False
    for block in content:
        if type(block) is not dict or block.keys() != _TEXT_KEYS:
            return False
        if block["type"] != "text" or type(block["text"]) is not str:
            return False
    return True
