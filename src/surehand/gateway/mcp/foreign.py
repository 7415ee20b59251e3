"""Foreign: what others say in our results, without what only we may say and without what a client might run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from surehand.core.sanitize import escape_line, escape_unprintable

OURS = "surehand"
"""The scheme of our own addresses."""
_RESERVED = (f"{OURS}/", "io.modelcontextprotocol/")
_RUN = {"javascript", "vbscript", "data", "blob"}
_PICTURED = {"http", "https", "data"}
_PAGE = re.compile(r"https?://[^\s/?#][^\s]*", re.IGNORECASE)
_UNSEEN = re.compile(r"[^\x21-\x7e]+")
LONGEST = 2_000
"""Characters of an address that is told in words."""


def unmarked(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Their `_meta`, without keys that are ours or the protocol's."""
    return {key: value for key, value in meta.items() if not str(key).strip().casefold().startswith(_RESERVED)}


def harmless(block: Mapping[str, Any], *, is_foreign: bool) -> dict[str, Any]:
    """A block as it may be handed on. Where its address may not be, it is told in words."""
    if len(block) == 2 and block.get("type") == "text":
        return dict(block)
    made = dict(block)
    if isinstance(meta := made.get("_meta"), Mapping):
        made["_meta"] = unmarked(meta)
    if isinstance(icons := made.get("icons"), list):
        made["icons"] = [icon for icon in icons if isinstance(icon, Mapping) and _scheme(icon.get("src")) in _PICTURED]
    match made:
        case {"type": "resource_link", "uri": uri} if not _may_be(uri, is_foreign):
            return _told(uri)
        case {"type": "resource", "resource": {"uri": uri} as inner} if not _may_be(uri, is_foreign):
            return _told(uri, inner.get("text"))
        case {"type": "resource", "resource": {"_meta": Mapping() as meta} as inner}:
            return {**made, "resource": {**inner, "_meta": unmarked(meta)}}
    return made


def may_open(uri: str) -> bool:
    """Whether a person may be sent to an address: a page, and what it looks like."""
    return _PAGE.fullmatch(uri) is not None and escape_unprintable(uri) == uri


def _may_be(uri: Any, is_foreign: bool) -> bool:
    """Whether it may name a resource: servers have schemes of their own, which clients read and do not open."""
    scheme = _scheme(uri)
    return scheme not in _RUN and not (is_foreign and scheme == OURS)


def _scheme(uri: Any) -> str:
    """As a browser would find it, which looks past spaces and breaks."""
    return _UNSEEN.sub("", str(uri).partition(":")[0]).lower()


def _told(uri: Any, text: Any = None) -> dict[str, Any]:
    address = str(uri)
    shown = escape_line(address, LONGEST)
    return {"type": "text", "text": text if isinstance(text, str) and text else f"[resource: {shown}]"}
