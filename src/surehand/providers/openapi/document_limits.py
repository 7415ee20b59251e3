"""Limits of documents: a file of a few lines, or a huge one, must not take all memory or minutes of a processor.

`load.py` uses them for files and fetched documents, `operation_digest.py` for what a program gives as a dictionary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from surehand.core.errors import DefinitionError

MAX_DOCUMENT_BYTES = 128 * 1024 * 1024
"""Bytes of a file. The largest public document, that of Microsoft Graph, has 47 million."""
MAX_DOCUMENT_VALUES = 5_000_000
"""Values and names in a file: each takes much more memory than its text. Microsoft Graph has two million."""
MANY_DOCUMENT_VALUES = MAX_DOCUMENT_VALUES // 2
MAX_FLAT_TEXTS = 1_000_000
"""Names and texts in a row, of a document that has many values."""
_TEXT_OR_END = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|\}', re.DOTALL)
"""A text of JSON, which may lack its end, or the end of an object."""
MAX_EXPANDED_CHARS = MAX_DOCUMENT_BYTES
"""Characters of a document if each alias of YAML is written out: few lines of them can stand for billions."""
MAX_OPERATIONS = 50_000
MAX_TAGS = 1_000
MAX_ARGUMENTS = 1_000
"""Parameters, or fields of a body, that one operation may have."""
MAX_BODY_FIELDS = 5_000
"""Fields of a body that are looked at, with those that several of its schemas have."""
MAX_ALTERNATIVES = 100
"""Media types of a body, responses of an operation, and alternatives of its security that are looked at."""
MAX_PART_HEADERS = 50
"""Headers of one part of a multipart body."""
MAX_SCHEMAS_PER_PART = 300
"""Schemas that may apply to one part of a value. Of a thousand public documents, none needs more than thirty."""
MAX_ALL_OF_PARTS = 1_000
"""Schemas that `allOf` may join, all levels together."""


def check_byte_count(size: int, label: str) -> None:
    """Raise `DefinitionError` for a file that is too large."""
    if size > MAX_DOCUMENT_BYTES:
        raise too_large(label, f"{size:,} bytes, and at most {MAX_DOCUMENT_BYTES:,} are read")


def check_json_value_count(text: str, label: str) -> None:
    """Raise `DefinitionError` for a JSON text with too many values, before it is parsed."""
    # Each value but the first of its list or object has a comma before it; those in texts do no harm.
    count = text.count(",") + text.count(":")
    if count > MAX_DOCUMENT_VALUES:
        raise too_many_values(label)
    if count > MANY_DOCUMENT_VALUES:
        _check_flat_text_count(text, label)


def _check_flat_text_count(text: str, label: str) -> None:
    """Raise `DefinitionError` for a JSON text with too many names and texts before the next end of an object.

    The parser is C code that lets other threads run only at the end of an object.
    """
    text_count = 0
    for match in _TEXT_OR_END.finditer(text):
        text_count = text_count + 1 if match[0] != "}" else 0
        if text_count > MAX_FLAT_TEXTS:
            raise too_large(label, f"more than {MAX_FLAT_TEXTS:,} names and texts in a row")


def too_many_values(label: str) -> DefinitionError:
    """The error for a document with too many values."""
    return too_large(label, f"more than {MAX_DOCUMENT_VALUES:,} values")


def check_expansion(root: Any, label: str) -> None:
    """Raise `DefinitionError` for a value that holds itself, or that stands for too much if it is written out."""
    sizes: dict[int, int] = {}
    ancestors: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        value, has_visited_children = waiting.pop()
        key = id(value)
        if has_visited_children:
            ancestors.discard(key)
            sizes[key] = _char_count(value, sizes)
            if sizes[key] > MAX_EXPANDED_CHARS:
                problem = f"aliases that stand for more than {MAX_EXPANDED_CHARS:,} characters"
                raise too_large(label, problem)
        elif key in ancestors:
            raise DefinitionError(f"{label} has a value that holds itself.", fix="write a `$ref` in place of it.")
        elif key not in sizes:
            ancestors.add(key)
            waiting.append((value, True))
            waiting += [(child, False) for child in _children(value) if isinstance(child, (dict, list))]


def _char_count(value: Any, sizes: dict[int, int]) -> int:
    """About the length of the JSON of a list or object whose parts are in `sizes`."""
    total = 2
    for child in _children(value):
        if isinstance(child, str):
            total += len(child) + 3
        elif isinstance(child, (dict, list)):
            total += sizes[id(child)] + 1
        else:
            total += 5
    return total


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def too_large(label: str, problem: str) -> DefinitionError:
    """The error for a document past a limit."""
    return DefinitionError(f"{label} is too large: it has {problem}.", fix="split the document.")
