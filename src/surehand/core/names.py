"""Names of tools: which are legal, how namespaces and model APIs change them, and which known name is nearest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from heapq import nlargest

MAX_WIRE_NAME_LENGTH = 64
NAMESPACE_SEPARATOR = "__"
_LEGAL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")
_ILLEGAL_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")
_SPECIAL_TOKEN = re.compile(r"<\|[^|]*\|>")  # a control token of a model that leaked into the name
RESERVED_NAMES = frozenset({"agent__final_report", "agent__task_status", "agent__batch"})
"""Names that sub-agents must not have."""


def is_legal_name(name: str) -> bool:
    """Whether a name has only letters, digits, `_` and `-`, and does not start with `-`."""
    return bool(_LEGAL_NAME.match(name))


def qualified_name(namespace: str | None, name: str) -> str:
    """`namespace__name`; tools without a namespace, such as built-ins, keep their name."""
    return f"{namespace}{NAMESPACE_SEPARATOR}{name}" if namespace else name


def sanitize_name(name: str) -> str:
    """A legal name: all characters but letters, digits, `_` and `-` become `_`; upper and lower case stay."""
    cleaned = _ILLEGAL_CHARACTERS.sub("_", _SPECIAL_TOKEN.sub("", name)).lstrip("-")
    return cleaned or "tool_call"


def sanitized_tool_name(name: str) -> str | None:
    """A legal name for a tool: `read file` as `read_file`. None if the name holds neither a letter nor a digit."""
    cleaned = sanitize_name(name)
    return cleaned if any(map(str.isalnum, _ILLEGAL_CHARACTERS.sub("", name))) else None


def hashed_name(name: str) -> str:
    """The legal name with a hash of the original, for a name that would be the same as another."""
    from hashlib import sha256  # imported on first use: few names have to be changed

    return f"{sanitize_name(name)}_{sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"


def possible_names(name: str) -> list[str]:
    """Names that a model may have meant: some put `functions.` before a name, or special tokens around it."""
    without_prefix = name.removeprefix("functions.")
    before_token = without_prefix.partition("<|")[0]
    return list(dict.fromkeys([name, without_prefix, before_token, sanitize_name(without_prefix)]))


def wire_name(name: str, max_length: int = MAX_WIRE_NAME_LENGTH) -> str:
    """A name that model APIs accept. A name that has to be changed or cut ends in a hash, so that no two collide."""
    legal = name if is_legal_name(name) else sanitize_name(name)
    if legal == name and len(name) <= max_length:
        return name
    from hashlib import sha256  # imported on first use: few names have to be changed

    suffix = sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{legal[: max_length - 9]}_{suffix}"


def nearest_names(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The known names that are most similar to the given one.

    A cheap comparison of letter pairs picks 50 candidates first: `SequenceMatcher` would be slow on ten thousand names.
    """
    pairs = _letter_pairs(name)
    candidates = nlargest(50, names, key=lambda known: _similarity(pairs, _letter_pairs(known)))
    from difflib import SequenceMatcher  # few programs misspell a name

    scored = [(SequenceMatcher(None, name.lower(), known.lower()).ratio(), known) for known in candidates]
    best = sorted(scored, reverse=True)[:count]
    return [known for score, known in best if score >= 0.6]


def _letter_pairs(name: str) -> set[str]:
    padded = f" {name.lower()} "
    return {padded[i : i + 2] for i in range(len(padded) - 1)}


def _similarity(one: set[str], other: set[str]) -> float:
    return len(one & other) / (len(one | other) or 1)
