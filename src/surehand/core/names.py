"""Names: how a tool is called by people, by models and by other programs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from heapq import nlargest

MAX_WIRE_NAME_LENGTH = 64
NAMESPACE_SEPARATOR = "__"
_LEGAL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")
_ILLEGAL_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")
_SPECIAL_TOKEN = re.compile(r"<\|[^|]*\|>")
RESERVED_NAMES = frozenset({"agent__final_report", "agent__task_status", "agent__batch"})
"""Names that sub-agents may not take."""


def is_legal_name(name: str) -> bool:
    """Whether a name has only letters, digits, `_` and `-`, and does not start with `-`."""
    return bool(_LEGAL_NAME.match(name))


def qualified_name(namespace: str | None, name: str) -> str:
    """`namespace__name`; built-ins have no namespace."""
    return f"{namespace}{NAMESPACE_SEPARATOR}{name}" if namespace else name


def sanitize_name(name: str) -> str:
    """The nearest legal name: case kept, anything else than letters, digits, `_` and `-` made `_`."""
    cleaned = _ILLEGAL_CHARACTERS.sub("_", _SPECIAL_TOKEN.sub("", name)).lstrip("-")
    return cleaned or "tool_call"


def possible_names(name: str) -> list[str]:
    """What a model may have meant: some wrap names in marks of their own, or put a word before them."""
    bare = name.removeprefix("functions.")
    return list(dict.fromkeys([name, bare, bare.partition("<|")[0], sanitize_name(bare)]))


def wire_name(name: str, max_length: int = MAX_WIRE_NAME_LENGTH) -> str:
    """The name within a model API's limit; a name that must be cut ends in a hash, so that no two collide."""
    legal = name if is_legal_name(name) else sanitize_name(name)
    if legal == name and len(name) <= max_length:
        return name
    from hashlib import sha256  # loaded when the first name must be cut

    mark = sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{legal[: max_length - 9]}_{mark}"


def nearest_names(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The known names that look most like it; a cheap comparison first, so that ten thousand names are no burden."""
    wanted = _letter_pairs(name)
    rough = nlargest(50, names, key=lambda known: _similarity(wanted, _letter_pairs(known)))
    scored = [(SequenceMatcher(None, name.lower(), known.lower()).ratio(), known) for known in rough]
    return [known for score, known in sorted(scored, reverse=True)[:count] if score >= 0.6]


def _letter_pairs(name: str) -> set[str]:
    low = f" {name.lower()} "
    return {low[i : i + 2] for i in range(len(low) - 1)}


def _similarity(one: set[str], other: set[str]) -> float:
    return len(one & other) / (len(one | other) or 1)
