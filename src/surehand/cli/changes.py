"""Changes of definitions: what is pinned and what is there now, as people read it and as programs do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

from rich.text import Text

from surehand.cli.preview import shown_preview
from surehand.core.sanitize import escape_as_json
from surehand.providers.mcp.trust.change import Change, named
from surehand.providers.mcp.trust.fingerprint import parts_of

MOST_COMPARED = 5_000
"""Lines among which the fewest different ones are looked for; it takes the square of their number."""


def change_as_json(change: Change) -> dict[str, Any]:
    """One change for a program, whole."""
    return {
        "server": change.server, "tool": change.tool, "sha256": change.sha256, "summary": change.summary,
        "seen": change.seen, "old": change.old, "new": change.new, "diff": diff_of(change),
    }  # fmt: skip


def shown_change(change: Change) -> Text:
    """One change for a person: all of it, however long, and nothing in it that does not show."""
    first, *further = _diffs(change)
    patches = [_preview(change.summary, first), *(_preview("", each) for each in further)]
    return Text("\n").join([*patches, Text(f"sha256 {change.sha256}", style="dim")])


def _preview(heading: str, patch: str) -> Text:
    shown = shown_preview({"type": "diff", "filePath": heading, "patch": patch})
    return shown if heading else shown[1:]


def diff_of(change: Change) -> str:
    """A unified diff of the readable forms."""
    return "\n".join(_diffs(change))


def _diffs(change: Change) -> list[str]:
    """One for each thing that is different: the tool, or the server and then its tools."""
    if change.tool is not None:
        return [_diff(change.name, _readable(change.old), _readable(change.new))]
    old, new = change.old["tools"], change.new["tools"]
    identity = _diff(change.server, [escape_as_json(change.old["identity"])], [escape_as_json(change.new["identity"])])
    tools = [
        _diff(named(change.server, tool), _readable(old.get(tool, {})), _readable(new[tool])) for tool in sorted(new)
    ]
    return [identity, *filter(None, tools)]


def _diff(name: str, old: list[str], new: list[str]) -> str:
    shown = escape_as_json(name)
    files = f"pinned/{shown}" if old else "/dev/null", f"now/{shown}"
    if len(old) + len(new) <= MOST_COMPARED:
        return "\n".join(unified_diff(old, new, *files, lineterm=""))
    return "\n".join([f"--- {files[0]}", f"+++ {files[1]}", *_hunk(old, new)]) if old != new else ""


def _hunk(old: list[str], new: list[str]) -> list[str]:
    """Everything from the first to the last line that is different, out and in again: whole, and never slow."""
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
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


def _alike(old: list[str], new: list[str]) -> int:
    """How many lines are the same at the beginning."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(old), len(new)))


def _readable(definition: Mapping[str, Any]) -> list[str]:
    """A part after the other: text line by line, anything else as indented JSON in one order of its keys."""
    lines: list[str] = []
    for part, value in parts_of(definition).items():
        inside = _text(value) if isinstance(value, str) else _json(value)
        short = len(inside) == 1 and part != "description"
        lines += [f"{part}: {inside[0]}"] if short else [f"{part}:", *(f"  {line}" for line in inside)]
    return lines


def _text(text: str) -> list[str]:
    """Backslashes are doubled as in JSON, so that an escape is never mistaken for what it stands for."""
    return [_edge(escape_as_json(line.replace("\\", "\\\\"))) for line in text.split("\n")]


def _json(value: Any) -> list[str]:
    return [
        escape_as_json(line) for line in json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).split("\n")
    ]


def _edge(line: str) -> str:
    """Spaces at the end of a line would not show either."""
    kept = line.rstrip(" ")
    return kept + "\\u0020" * (len(line) - len(kept))
