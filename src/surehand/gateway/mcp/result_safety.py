"""Foreign: what others say in our results, without what only we may say and without what a client might run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from surehand.core.sanitize import escape_line, escape_unprintable

OWN_NAMESPACE = "surehand"
"""The scheme of our own addresses."""
_RESERVED_META_PREFIXES = (f"{OWN_NAMESPACE}/", "io.modelcontextprotocol/")
_EXECUTABLE_SCHEMES = {"javascript", "vbscript", "data", "blob"}
_ICON_SCHEMES = {"http", "https", "data"}
_WEB_URL = re.compile(r"https?://[^\s/?#][^\s]*", re.IGNORECASE)
_NOT_PRINTABLE_ASCII = re.compile(r"[^\x21-\x7e]+")
MAX_SHOWN_URI_LENGTH = 2_000
"""Characters of an address that is told in words."""


def remove_reserved_keys(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Their `_meta`, without keys that are ours or the protocol's."""
    return {
        key: value for key, value in meta.items() if not str(key).strip().casefold().startswith(_RESERVED_META_PREFIXES)
    }


def sanitize_block(block: Mapping[str, Any], *, is_external: bool) -> dict[str, Any]:
    """A block as it may be handed on. Where its address may not be, it is told in words."""
    if len(block) == 2 and block.get("type") == "text":
        return dict(block)
    made = dict(block)
    if isinstance(meta := made.get("_meta"), Mapping):
        made["_meta"] = remove_reserved_keys(meta)
    if isinstance(icons := made.get("icons"), list):
        made["icons"] = [
            icon for icon in icons if isinstance(icon, Mapping) and _uri_scheme(icon.get("src")) in _ICON_SCHEMES
        ]
    match made:
        case {"type": "resource_link", "uri": uri} if not _is_allowed_uri(uri, is_external):
            return _uri_as_text_block(uri)
        case {"type": "resource", "resource": {"uri": uri} as inner} if not _is_allowed_uri(uri, is_external):
            return _uri_as_text_block(uri, inner.get("text"))
        case {"type": "resource", "resource": {"_meta": Mapping() as meta} as inner}:
            return {**made, "resource": {**inner, "_meta": remove_reserved_keys(meta)}}
    return made


def is_openable_url(url: str) -> bool:
    """Whether a person may be sent to an address: a page, and what it looks like."""
    return _WEB_URL.fullmatch(url) is not None and escape_unprintable(url) == url


def _is_allowed_uri(uri: Any, is_external: bool) -> bool:
    """Whether it may name a resource: servers have schemes of their own, which clients read and do not open."""
    scheme = _uri_scheme(uri)
    return scheme not in _EXECUTABLE_SCHEMES and not (is_external and scheme == OWN_NAMESPACE)


def _uri_scheme(uri: Any) -> str:
    """As a browser would find it, which looks past spaces and breaks."""
    return _NOT_PRINTABLE_ASCII.sub("", str(uri).partition(":")[0]).lower()


def _uri_as_text_block(uri: Any, text: Any = None) -> dict[str, Any]:
    address = str(uri)
    shown = escape_line(address, MAX_SHOWN_URI_LENGTH)
    return {"type": "text", "text": text if isinstance(text, str) and text else f"[resource: {shown}]"}
