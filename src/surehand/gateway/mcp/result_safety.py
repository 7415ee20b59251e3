"""Safety of results: content of other servers without what only we may say, and without what a client might execute."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from surehand.core.sanitize import escape_line, escape_unprintable

OWN_NAMESPACE = "surehand"
"""The scheme of our own resource URIs, and the prefix of our own `_meta` keys."""
MAX_SHOWN_URI_LENGTH = 2_000
"""Characters of a URI that is shown as text."""
_RESERVED_META_PREFIXES = (f"{OWN_NAMESPACE}/", "io.modelcontextprotocol/")
_EXECUTABLE_SCHEMES = {"javascript", "vbscript", "data", "blob"}
_ICON_SCHEMES = {"http", "https", "data"}
_WEB_URL = re.compile(r"https?://[^\s/?#][^\s]*", re.IGNORECASE)
_NOT_PRINTABLE_ASCII = re.compile(r"[^\x21-\x7e]+")


def remove_reserved_keys(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the `_meta` of another server without keys that are ours or the protocol's."""
    return {key: value for key, value in meta.items() if not _is_reserved(str(key))}


def _is_reserved(key: str) -> bool:
    return key.strip().casefold().startswith(_RESERVED_META_PREFIXES)


def sanitize_block(block: Mapping[str, Any], *, is_external: bool) -> dict[str, Any]:
    """Copy a content block without unsafe parts. A resource with an unsafe URI becomes a text block.

    Args:
        is_external: whether the content comes from another server or program, which may not use our own scheme.
    """
    if len(block) == 2 and block.get("type") == "text":
        return dict(block)
    safe = dict(block)
    if isinstance(meta := safe.get("_meta"), Mapping):
        safe["_meta"] = remove_reserved_keys(meta)
    if isinstance(icons := safe.get("icons"), list):
        safe["icons"] = [icon for icon in icons if isinstance(icon, Mapping) and _is_safe_icon(icon)]
    match safe:
        case {"type": "resource_link", "uri": uri} if not _is_allowed_uri(uri, is_external):
            return _uri_as_text_block(uri)
        case {"type": "resource", "resource": {"uri": uri} as resource} if not _is_allowed_uri(uri, is_external):
            return _uri_as_text_block(uri, resource.get("text"))
        case {"type": "resource", "resource": {"_meta": Mapping() as meta} as resource}:
            return {**safe, "resource": {**resource, "_meta": remove_reserved_keys(meta)}}
    return safe


def is_openable_url(url: str) -> bool:
    """Whether a person may be sent to a URL: it is a web page, and has no invisible characters."""
    return _WEB_URL.fullmatch(url) is not None and escape_unprintable(url) == url


def _is_safe_icon(icon: Mapping[str, Any]) -> bool:
    return _uri_scheme(icon.get("src")) in _ICON_SCHEMES


def _is_allowed_uri(uri: Any, is_external: bool) -> bool:
    """Whether a URI may name a resource. Servers have schemes of their own, which clients do not open themselves."""
    scheme = _uri_scheme(uri)
    return scheme not in _EXECUTABLE_SCHEMES and not (is_external and scheme == OWN_NAMESPACE)


def _uri_scheme(uri: Any) -> str:
    """The scheme as a browser finds it: browsers ignore white space and control characters in it."""
    return _NOT_PRINTABLE_ASCII.sub("", str(uri).partition(":")[0]).lower()


def _uri_as_text_block(uri: Any, text: Any = None) -> dict[str, Any]:
    if isinstance(text, str) and text:
        return {"type": "text", "text": text}
    return {"type": "text", "text": f"[resource: {escape_line(str(uri), MAX_SHOWN_URI_LENGTH)}]"}
