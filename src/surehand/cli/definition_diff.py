"""Changes of definitions: what is pinned and what is there now, as people read it and as programs do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

from rich.text import Text

from surehand.cli.formatting import render_preview
from surehand.core.sanitize import escape_as_json
from surehand.providers.trust.change import DefinitionChange, display_name
from surehand.providers.trust.fingerprint import pinned_fields

MAX_COMPARED_LINES = 5_000
"""Lines among which the fewest different ones are looked for; it takes the square of their number."""


def change_to_json(change: DefinitionChange) -> dict[str, Any]:
    """One change for a program, whole."""
    return {
        "server": change.namespace, "tool": change.tool, "sha256": change.sha256, "summary": change.summary,
        "seen": change.first_seen, "old": change.old, "new": change.new, "diff": definition_diff(change),
    }  # fmt: skip


def render_change(change: DefinitionChange) -> Text:
    """One change for a person: all of it, however long, and nothing in it that does not show."""
    first, *further = _diffs_of_change(change)
    patches = [_render_diff(change.summary, first), *(_render_diff("", each) for each in further)]
    return Text("\n").join([*patches, Text(f"sha256 {change.sha256}", style="dim")])


def _render_diff(heading: str, patch: str) -> Text:
    shown = render_preview({"type": "diff", "filePath": heading, "patch": patch})
    return shown if heading else shown[1:]


def definition_diff(change: DefinitionChange) -> str:
    """A unified diff of the readable forms."""
    return "\n".join(_diffs_of_change(change))


def _diffs_of_change(change: DefinitionChange) -> list[str]:
    """One for each thing that is different: the tool, or the server and then its tools."""
    if change.tool is not None:
        return [_unified_diff(change.name, _readable_lines(change.old), _readable_lines(change.new))]
    old, new = change.old["tools"], change.new["tools"]
    identity = _unified_diff(
        change.namespace, [escape_as_json(change.old["identity"])], [escape_as_json(change.new["identity"])]
    )
    tools = [
        _unified_diff(
            display_name(change.namespace, tool), _readable_lines(old.get(tool, {})), _readable_lines(new[tool])
        )
        for tool in sorted(new)
    ]
    return [identity, *filter(None, tools)]


def _unified_diff(name: str, old: list[str], new: list[str]) -> str:
    shown = escape_as_json(name)
    files = f"pinned/{shown}" if old else "/dev/null", f"now/{shown}"
    if len(old) + len(new) <= MAX_COMPARED_LINES:
        return "\n".join(unified_diff(old, new, *files, lineterm=""))
    return "\n".join([f"--- {files[0]}", f"+++ {files[1]}", *_single_hunk(old, new)]) if old != new else ""


def _single_hunk(old: list[str], new: list[str]) -> list[str]:
    """Everything from the first to the last line that is different, out and in again: whole, and never slow."""
    head = _common_prefix_length(old, new)
    tail = _common_prefix_length(old[head:][::-1], new[head:][::-1])
    first, rest = max(head - 3, 0), max(tail - 3, 0)
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    sizes = [len(lines) - rest - first for lines in (old, new)]
    return [
        f"@@ -{first + 1},{sizes[0]} +{first + 1},{sizes[1]} @@",
        *(f" {line}" for line in old[first:head]),
        *(f"-{line}" for line in gone),
        *(f"+{line}" for line in come),
        *(f" {line}" for line in old[len(old) - tail : len(old) - rest]),
    ]


def _common_prefix_length(old: list[str], new: list[str]) -> int:
    """How many lines are the same at the beginning."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(old), len(new)))


def _readable_lines(definition: Mapping[str, Any]) -> list[str]:
    """A part after the other: text line by line, anything else as indented JSON in one order of its keys."""
    lines: list[str] = []
    for part, value in pinned_fields(definition).items():
        inside = _text_lines(value) if isinstance(value, str) else _json_lines(value)
        short = len(inside) == 1 and part != "description"
        lines += [f"{part}: {inside[0]}"] if short else [f"{part}:", *(f"  {line}" for line in inside)]
    return lines


def _text_lines(text: str) -> list[str]:
    """Backslashes are doubled as in JSON, so that an escape is never mistaken for what it stands for."""
    return [_escape_trailing_spaces(escape_as_json(line.replace("\\", "\\\\"))) for line in text.split("\n")]


def _json_lines(value: Any) -> list[str]:
    return [
        escape_as_json(line) for line in json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).split("\n")
    ]


def _escape_trailing_spaces(line: str) -> str:
    """Spaces at the end of a line would not show either."""
    kept = line.rstrip(" ")
    return kept + "\\u0020" * (len(line) - len(kept))
