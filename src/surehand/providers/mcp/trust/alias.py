"""Alias: our name for what a server calls a tool."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from hashlib import sha256
from itertools import count

from surehand.core.names import SEPARATOR, is_legal, sanitised

MOST_NAME, MOST_WIRE_NAME = 128, 1_000
"""Characters of a name of ours, and of one that a server may send."""
_UNDERSCORES = re.compile("__+")


def alias(wire: str) -> str:
    """The same for a name at all times, whatever else its server lists: see `names_of`, which tells equals apart."""
    return next(aliases(wire))


def aliases(wire: str) -> Iterator[str]:
    """A legal name as it is; any other with a hash, so that it never takes a legal one's place; then with others."""
    if is_ours(wire):
        yield wire
    for time in count():
        mark = sha256(f"{time or ''}{wire}".encode(errors="surrogatepass")).hexdigest()[:8]
        yield f"{nearest(wire)[: MOST_NAME - 9].rstrip('_')}_{mark}"


def is_ours(name: str) -> bool:
    """Whether a name can stay as it is: `__` is ours, and parts a namespace from a name."""
    return is_legal(name) and SEPARATOR not in name and len(name) <= MOST_NAME


def nearest(wire: str) -> str:
    """The legal name that looks most like it."""
    ascii_only = sanitised(unicodedata.normalize("NFKC", wire[:MOST_WIRE_NAME])[:MOST_WIRE_NAME])
    return _UNDERSCORES.sub("_", ascii_only).strip("_-") or "tool"
