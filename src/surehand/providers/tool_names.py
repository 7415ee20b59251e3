"""Local tool names: a legal, stable name for every name that a server gives its tools.

Used by the MCP provider, which gives tools these names, and by `trust`, which finds tools that would get the same one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from hashlib import sha256
from itertools import count

from surehand.core.names import NAMESPACE_SEPARATOR, is_legal_name, sanitize_name

MAX_LOCAL_NAME_LENGTH = 128
MAX_WIRE_TOOL_NAME_LENGTH = 1_000
"""Characters of a name that a server may send."""
_NAMELESS = "tool"
"""The nearest name of one without any letter or digit that names may have: it always gets a hash."""
_UNDERSCORES = re.compile("__+")


def local_name_for(wire_name: str) -> str:
    """The name that a tool gets if no other tool of its server would get the same one."""
    if is_valid_local_name(wire_name):
        return wire_name
    nearest = nearest_local_name(wire_name)
    is_usable = nearest != _NAMELESS and is_valid_local_name(nearest)
    return nearest if is_usable else next(hashed_local_names(wire_name))


def hashed_local_names(wire_name: str) -> Iterator[str]:
    """Names with a hash at the end, for a name that is too long, or that would be the same as another."""
    stem = nearest_local_name(wire_name)[: MAX_LOCAL_NAME_LENGTH - 9].rstrip("_")
    for attempt in count():
        digest = sha256(f"{attempt or ''}{wire_name}".encode(errors="surrogatepass")).hexdigest()[:8]
        yield f"{stem}_{digest}"


def earlier_local_name(wire_name: str) -> str:
    """The name of the tool in earlier versions, which added a hash to every name that had to be changed.

    Configuration files and stored calls may hold it.
    """
    return wire_name if is_valid_local_name(wire_name) else next(hashed_local_names(wire_name))


def is_valid_local_name(name: str) -> bool:
    """Whether a name can be used unchanged; `__` is reserved, because it separates a namespace from a name."""
    return is_legal_name(name) and NAMESPACE_SEPARATOR not in name and len(name) <= MAX_LOCAL_NAME_LENGTH


def nearest_local_name(wire_name: str) -> str:
    """The legal name that looks most like a wire name; without a hash, so two names may share it."""
    # NFKC can make a text longer (one character becomes up to 18), so it is cut before and after.
    normalized = unicodedata.normalize("NFKC", wire_name[:MAX_WIRE_TOOL_NAME_LENGTH])[:MAX_WIRE_TOOL_NAME_LENGTH]
    return _UNDERSCORES.sub("_", sanitize_name(normalized)).strip("_-") or _NAMELESS
