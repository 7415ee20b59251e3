"""Approval binding: the parts of a tool's definition that an approval of its calls is bound to.

They decide what will run: parameters and effects, and for a tool of a remote provider its description and its server.
The text is stored with a call that waits. It holds each part apart, so that a person can be told what has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from surehand.core.canonical_json import json_digest

_PART_COUNT = 5
"""One digest of all, then the parts. A binding of an earlier version is one digest of the whole definition."""
_TEXT_KEYWORDS = frozenset({"title", "description", "examples", "$comment"})
"""Keywords of a schema that people and models read, and that decide nothing."""
_KEYWORDS_WITH_NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps names to schemas: such a name may equal a keyword."""
_KEYWORDS_WITH_VALUES = frozenset({"const", "enum", "default"})
"""Keywords whose value is no schema."""


def build_approval_binding(
    schema: dict[str, Any], effects: Iterable[str], version: str, description: str | None
) -> str:
    """The binding, as a text without spaces.

    Args:
        version: identifies the server of a remote tool; empty for any other tool.
        description: the description of a tool of a remote provider, whose texts count; None for any other tool.
    """
    decisive_schema = schema if description is not None else _without_texts(schema)
    parts = (
        json_digest(decisive_schema),
        "+".join(sorted(effects)),
        json_digest(version),
        "" if description is None else json_digest(description),
    )
    return ":".join((json_digest(*parts), *parts))


def describe_tool_change(name: str, before: str, now: str) -> str:
    """A sentence that says what has changed about a tool, from two of its bindings."""
    return f"{name} has changed since it was asked about: {' and '.join(_find_changes(before, now))}."


def _find_changes(before: str, now: str) -> list[str]:
    old_parts = before.split(":")
    new_parts = now.split(":")
    if len(old_parts) != _PART_COUNT:
        return ["its definition is another one"]
    changes: list[str] = []
    if old_parts[1] != new_parts[1]:
        changes.append("its parameters are different")
    if old_parts[2] != new_parts[2]:
        changes.append(f"its effects are {_render_effects(new_parts[2])} instead of {_render_effects(old_parts[2])}")
    if old_parts[3] != new_parts[3]:
        changes.append("its server is another one")
    if old_parts[4] != new_parts[4]:
        changes.append("its description is different")
    return changes


def _render_effects(joined: str) -> str:
    return ", ".join(joined.split("+"))


def _without_texts(schema: Any) -> Any:
    """A schema without titles, descriptions and examples, which come from docstrings and comments."""
    if isinstance(schema, list):
        return [_without_texts(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _KEYWORDS_WITH_NAMES and isinstance(value, dict):
            kept[keyword] = {name: _without_texts(each) for name, each in value.items()}
        elif keyword in _KEYWORDS_WITH_VALUES:
            kept[keyword] = value
        elif keyword not in _TEXT_KEYWORDS:
            kept[keyword] = _without_texts(value)
    return kept
