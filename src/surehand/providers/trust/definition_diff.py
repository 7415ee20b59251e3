"""Diffs of tool definitions in readable form: the pinned one against the current one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

from surehand.core.protocols import HeldBackDefinition
from surehand.core.sanitize import escape_as_json
from surehand.providers.trust.change import DefinitionChange, display_name
from surehand.providers.trust.fingerprint import pinned_fields

_CONTEXT_LINES = 3
MAX_COMPARED_LINES = 5_000
"""More lines than this are shown as one hunk, because finding a minimal diff takes quadratic time."""


def held_back_definition(change: DefinitionChange) -> HeldBackDefinition:
    """What a person reviews of a change."""
    return HeldBackDefinition(
        tool=change.tool,
        sha256=change.sha256,
        summary=change.summary,
        diff=definition_diff(change),
        first_seen=change.first_seen,
    )


def definition_diff(change: DefinitionChange) -> str:
    """A unified diff of the definitions in readable form."""
    return "\n".join(diffs_of_change(change))


def diffs_of_change(change: DefinitionChange) -> list[str]:
    """The diff of a tool; or of a server's identity, followed by the diffs of its tools."""
    if change.tool is not None:
        return [_unified_diff(change.name, _readable_lines(change.old), _readable_lines(change.new))]
    old_identity = escape_as_json(change.old["identity"])
    new_identity = escape_as_json(change.new["identity"])
    diffs = [_unified_diff(change.namespace, [old_identity], [new_identity])]
    new_tools = change.new["tools"]
    for tool in sorted(new_tools):
        old_lines = _readable_lines(change.old["tools"].get(tool, {}))
        tool_diff = _unified_diff(display_name(change.namespace, tool), old_lines, _readable_lines(new_tools[tool]))
        if tool_diff:
            diffs.append(tool_diff)
    return diffs


def _unified_diff(name: str, old: list[str], new: list[str]) -> str:
    escaped_name = escape_as_json(name)
    old_file = f"pinned/{escaped_name}" if old else "/dev/null"
    new_file = f"now/{escaped_name}"
    if len(old) + len(new) <= MAX_COMPARED_LINES:
        return "\n".join(unified_diff(old, new, old_file, new_file, lineterm=""))
    if old == new:
        return ""
    return "\n".join([f"--- {old_file}", f"+++ {new_file}", *_single_hunk(old, new)])


def _single_hunk(old: list[str], new: list[str]) -> list[str]:
    """One hunk from the first to the last different line, in linear time."""
    head = _common_prefix_length(old, new)
    tail = _common_prefix_length(old[head:][::-1], new[head:][::-1])
    first = max(head - _CONTEXT_LINES, 0)
    lines_after = max(tail - _CONTEXT_LINES, 0)
    old_count = len(old) - lines_after - first
    new_count = len(new) - lines_after - first
    return [
        f"@@ -{first + 1},{old_count} +{first + 1},{new_count} @@",
        *(f" {line}" for line in old[first:head]),
        *(f"-{line}" for line in old[head : len(old) - tail]),
        *(f"+{line}" for line in new[head : len(new) - tail]),
        *(f" {line}" for line in old[len(old) - tail : len(old) - lines_after]),
    ]


def _common_prefix_length(old: list[str], new: list[str]) -> int:
    """Number of equal lines at the start."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(old), len(new)))


def _readable_lines(definition: Mapping[str, Any]) -> list[str]:
    """The fields of a definition: text line by line, other values as indented JSON with sorted keys."""
    lines: list[str] = []
    for field, value in pinned_fields(definition).items():
        value_lines = _text_lines(value) if isinstance(value, str) else _json_lines(value)
        if len(value_lines) == 1 and field != "description":
            lines.append(f"{field}: {value_lines[0]}")
        else:
            lines += [f"{field}:", *(f"  {line}" for line in value_lines)]
    return lines


def _text_lines(text: str) -> list[str]:
    """The lines of a text, escaped as in JSON: doubled backslashes tell an escape from literal text."""
    return [_escape_trailing_spaces(escape_as_json(line.replace("\\", "\\\\"))) for line in text.split("\n")]


def _json_lines(value: Any) -> list[str]:
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    return [escape_as_json(line) for line in text.split("\n")]


def _escape_trailing_spaces(line: str) -> str:
    """Make spaces at the end of a line visible."""
    stripped = line.rstrip(" ")
    return stripped + "\\u0020" * (len(line) - len(stripped))
