"""Previews: what a tool shows a person of what it would do. One that is a diff is shown as a diff."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from surehand.cli.screen import pretty_json, to_one_line
from surehand.core.sanitize import escape_line, escape_unprintable

_DIFF_FIELD_TYPES: dict[str, type] = {"type": str, "filePath": str, "patch": str, "isNewFile": bool, "problem": str}


def render_preview(preview: Any) -> Text:
    """All of a preview, however long: what is cut off could be what matters."""
    if isinstance(preview, str):
        return Text(escape_unprintable(preview))
    return _render_diff(preview) if _is_diff(preview) else pretty_json(preview)


def _is_diff(preview: Any) -> bool:
    return (
        isinstance(preview, Mapping)
        and preview.get("type") == "diff"
        and {"filePath", "patch"} <= preview.keys()
        and all(isinstance(preview[name], kind) for name, kind in _DIFF_FIELD_TYPES.items() if name in preview)
    )


def _render_diff(preview: Mapping[str, Any]) -> Text:
    """The file, the patch line by line, the problem, and as JSON whatever else the tool has added."""
    new = " (a new file)" if preview.get("isNewFile") else ""
    lines = [Text(escape_line(preview["filePath"]) + new, style="bold")]
    if patch := preview["patch"].removesuffix("\n"):
        lines += _colour_diff_lines(patch.split("\n"))
    if problem := preview.get("problem"):
        lines.append(Text(f"problem: {to_one_line(problem)}", style="red"))
    elif not patch:
        lines.append(Text("Nothing would change.", style="dim"))
    if more := {name: value for name, value in preview.items() if name not in _DIFF_FIELD_TYPES}:
        lines.append(pretty_json(more))
    return Text("\n").join(lines)


def _colour_diff_lines(lines: list[str]) -> list[Text]:
    """Each line by what it begins with. Behind the first `@@`, `---` is a line that goes, and no head."""
    first = next((number for number, line in enumerate(lines) if line.startswith("@@")), len(lines))
    return [
        Text(escape_unprintable(line), style=_diff_line_style(line, head=number < first))
        for number, line in enumerate(lines)
    ]


def _diff_line_style(line: str, *, head: bool) -> str:
    if head and line.startswith(("---", "+++")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan", " ": ""}.get(line[:1], "dim")
