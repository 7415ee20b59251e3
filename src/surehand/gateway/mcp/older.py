"""Older: a result for clients of the first protocols, who refuse it whole for one block that they do not know."""

from __future__ import annotations

from typing import Any

BLOCK_TYPE_INTRODUCED_IN = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
"""Kinds of blocks that were not always there, and the first protocol that has them."""
_LATEST_BLOCK_TYPE_VERSION = max(BLOCK_TYPE_INTRODUCED_IN.values())


def downgrade_result(result: dict[str, Any], protocol_version: str) -> dict[str, Any]:
    """The same, with blocks that this protocol does not have told in words."""
    if protocol_version >= _LATEST_BLOCK_TYPE_VERSION:  # versions are dates, so they compare as texts
        return result
    return {**result, "content": [_downgrade_block(block, protocol_version) for block in result.get("content", ())]}


def _downgrade_block(block: dict[str, Any], protocol_version: str) -> dict[str, Any]:
    kind = block.get("type", "")
    if BLOCK_TYPE_INTRODUCED_IN.get(kind, "") <= protocol_version:
        return block
    data = block.get("data", "")
    what = block.get("uri") or f"{block.get('mimeType')}, {len(data) * 3 // 4 - data.count('=')} bytes"
    return {"type": "text", "text": f"[{kind.removesuffix('_link')}: {what}]"}
