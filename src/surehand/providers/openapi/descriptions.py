"""Texts of a document for models: cleaned, and cut at a sentence where they are long."""

from __future__ import annotations

import re
from typing import Any

from surehand.core.sanitize import clean_text

MAX_FIELD_CHARS = 400
"""Characters of the description of one parameter or property."""
MAX_OPERATION_CHARS = 1_000
"""Characters of the description of an operation."""
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n\n")
_BLANK_LINES = re.compile(r"\n\s*\n\s*")
_HTML_TAG = re.compile(r"</?(?:p|br|b|i|em|strong|code|a|ul|ol|li|div|span|note|pre|h[1-6])\b[^<>]*>", re.IGNORECASE)


def clean_description(value: Any, max_chars: int = MAX_FIELD_CHARS) -> str:
    """A description without markup and hidden characters, of at most so many characters."""
    if not isinstance(value, str) or not value:
        return ""
    # A long text is cut before it is cleaned: some documents hold whole manuals.
    text = value[: max_chars * 4]
    if "<" in text:
        text = _HTML_TAG.sub(" ", text)
    text = _BLANK_LINES.sub("\n\n", clean_text(text)).strip()
    return cut_at_sentence(text, max_chars)


def cut_at_sentence(text: str, max_chars: int) -> str:
    """The text, or as many whole sentences of it as fit; a first sentence that is too long is cut at a word."""
    if len(text) <= max_chars:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, max_chars)]
    if ends and ends[-1] > max_chars // 4:
        return text[: ends[-1]].rstrip()
    return f"{text[: max_chars - 3].rpartition(' ')[0] or text[: max_chars - 3]}..."


def first_sentence(text: str, max_chars: int = 120) -> str:
    """The first sentence on one line, for a list of operations."""
    line = " ".join(text.split())
    match = _SENTENCE_END.search(line)
    return cut_at_sentence(line[: match.end()] if match else line, max_chars)


def describe_operation(definition: dict[str, Any], label: str) -> str:
    """The description of an operation for a model: summary, description, and the request that it makes."""
    summary = clean_description(definition.get("summary"), 300)
    text = clean_description(definition.get("description"), MAX_OPERATION_CHARS)
    if summary and not text.casefold().startswith(summary.rstrip(".").casefold()):
        text = f"{summary.rstrip('.')}. {text}" if text else summary
    if definition.get("deprecated") is True:
        text = f"Deprecated. {text}"
    return f"{text.strip()}\n\n({label})" if text.strip() else label
