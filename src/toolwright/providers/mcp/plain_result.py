"""Plain: results of the common kind, which are known to be sound without the library's models.

They have text, structured content and notes beside, all in the form that everybody sends. Whatever else there is about
a result leaves it to the library.
"""

from __future__ import annotations

from typing import Any

from toolwright.providers.mcp.walk import is_finite

MAX_DIRECT_BYTES = 16 * 1024
"""Bytes of a message that is read, and made ready, the moment it comes; so it has no more values, or characters."""
MAX_DIRECT_BLOCKS = 200
"""Blocks of a result that is made ready at once."""
_OLDER = frozenset({"content", "structuredContent", "isError", "_meta"})
_NEWER = _OLDER | {"resultType"}
_TEXT = frozenset({"type", "text"})


def is_plain(result: dict[str, Any], *, modern: bool) -> bool:
    """Whether the library would take it as it is, so that it need not be asked; for what was read from JSON."""
    if not result.keys() <= (_NEWER if modern else _OLDER) or (modern and result.get("resultType") != "complete"):
        return False
    structured, meta = result.get("structuredContent", _NONE), result.get("_meta", _NONE)
    if type(meta) is not dict or not (modern or type(structured) is dict):
        return False
    if type(result.get("isError", False)) is not bool or not _are_texts(result.get("content")):
        return False
    return is_finite(structured) and is_finite(meta)


def _are_texts(content: Any) -> bool:
    if type(content) is not list or len(content) > MAX_DIRECT_BLOCKS:
        return False
    for block in content:
        if type(block) is not dict or block.keys() != _TEXT:
            return False
        if block["type"] != "text" or type(block["text"]) is not str:
            return False
    return True


_NONE: dict[str, Any] = {}
