"""Plain results: the common form of a tool's result, checked by hand so that the MCP SDK's models need not be built.

A plain result has text blocks, structured content and `_meta`, and nothing else. Any other form goes through the SDK.
"""

from __future__ import annotations

from typing import Any

from surehand.providers.mcp.tools.schema_walk import is_finite

MAX_DIRECT_BYTES = 16 * 1024
"""Largest message in bytes that is parsed inside the read callback, without a task."""
MAX_DIRECT_BLOCKS = 200
"""Most content blocks of a result that is handled inside the read callback."""
_HANDSHAKE_KEYS = frozenset({"content", "structuredContent", "isError", "_meta"})
_MODERN_KEYS = _HANDSHAKE_KEYS | {"resultType"}
_TEXT_KEYS = frozenset({"type", "text"})
_NO_FIELDS: dict[str, Any] = {}


def is_plain_result(result: dict[str, Any], *, is_modern: bool) -> bool:
    """Whether the MCP SDK would accept a parsed result as it is."""
    if not result.keys() <= (_MODERN_KEYS if is_modern else _HANDSHAKE_KEYS):
        return False
    if is_modern and result.get("resultType") != "complete":
        return False
    structured = result.get("structuredContent", _NO_FIELDS)
    meta = result.get("_meta", _NO_FIELDS)
    if type(meta) is not dict or not (is_modern or type(structured) is dict):
        return False
    if type(result.get("isError", False)) is not bool or not _is_text_content(result.get("content")):
        return False
    return is_finite(structured) and is_finite(meta)


def _is_text_content(content: Any) -> bool:
    if type(content) is not list or len(content) > MAX_DIRECT_BLOCKS:
        return False
    for block in content:
        if type(block) is not dict or block.keys() != _TEXT_KEYS:
            return False
        if block["type"] != "text" or type(block["text"]) is not str:
            return False
    return True
