"""Alias: our name for what a server calls a tool."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from hashlib import sha256
from itertools import count

from surehand.core.names import NAMESPACE_SEPARATOR, is_legal_name, sanitize_name

MAX_LOCAL_NAME_LENGTH, MAX_WIRE_TOOL_NAME_LENGTH = 128, 1_000
"""Characters of a name of ours, and of one that a server may send."""
_UNDERSCORES = re.compile("__+")


def local_name_for(wire_name: str) -> str:
    """The same for a name at all times, whatever else its server lists: see `names_of`, which tells equals apart."""
    return next(local_name_candidates(wire_name))


def local_name_candidates(wire_name: str) -> Iterator[str]:
    """A legal name as it is; any other with a hash, so that it never takes a legal one's place; then with others."""
    if is_valid_local_name(wire_name):
        yield wire_name
    for time in count():
        mark = sha256(f"{time or ''}{wire_name}".encode(errors="surrogatepass")).hexdigest()[:8]
        yield f"{nearest_local_name(wire_name)[: MAX_LOCAL_NAME_LENGTH - 9].rstrip('_')}_{mark}"


def is_valid_local_name(name: str) -> bool:
    """Whether a name can stay as it is: `__` is ours, and parts a namespace from a name."""
    return is_legal_name(name) and NAMESPACE_SEPARATOR not in name and len(name) <= MAX_LOCAL_NAME_LENGTH


def nearest_local_name(wire_name: str) -> str:
    """The legal name that looks most like it."""
    ascii_only = sanitize_name(
        unicodedata.normalize("NFKC", wire_name[:MAX_WIRE_TOOL_NAME_LENGTH])[:MAX_WIRE_TOOL_NAME_LENGTH]
    )
    return _UNDERSCORES.sub("_", ascii_only).strip("_-") or "tool"
