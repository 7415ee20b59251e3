"""The screen: how values are written for people and for pipes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import IO, Any

from pydantic_core import to_json, to_jsonable_python
from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.text import Text

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


def create_console(stream: IO[str] | None = None) -> Console:
    """A console that takes text as it is: no markup, no emoji names, no guessing at colours."""
    return Console(file=stream or sys.stdout, markup=False, emoji=False, highlight=False)


def json_line(value: Any) -> str:
    """One line of JSON for a pipe; what JSON cannot hold is written as Python shows it."""
    return to_json(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings").decode(errors="replace") + "\n"


def pretty_json(value: Any) -> Text:
    """JSON for a person, with colour where there is any."""
    return highlight_json(escape_unprintable(_dump_json(value, indent=2)))


def highlight_json(text: str) -> Text:
    """Text that is JSON, or begins as JSON, with colour where there is any."""
    shown = Text(text)
    JSONHighlighter().highlight(shown)
    return shown


def compact_json(value: Any) -> str:
    """JSON for a person on one line."""
    return _dump_json(value)


def _dump_json(value: Any, indent: int | None = None) -> str:
    plain = to_jsonable_python(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings")
    return json.dumps(plain, indent=indent, ensure_ascii=False)


def to_one_line(text: str) -> str:
    """The same on a single line."""
    return escape_unprintable(" ".join(text.split()))


def truncate_text(text: str, max_length: int, how_to_see_rest: str) -> str:
    """The text, escaped. Of one that is too long, its beginning, and how many bytes there are more."""
    if len(text) <= max_length:
        return escape_unprintable(text)
    more = len(text[max_length:].encode(errors="surrogatepass"))
    return f"{escape_unprintable(text[:max_length])} ... and {more:,} bytes more: {how_to_see_rest}"


def format_duration(seconds: float) -> str:
    """Roughly how long, in the largest unit that says something."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def format_size(byte_count: int) -> str:
    """Bytes as people count them."""
    for unit, length in (("GB", 1000**3), ("MB", 1000**2), ("kB", 1000)):
        if byte_count >= length:
            return f"{byte_count / length:.1f} {unit}"
    return f"{byte_count} bytes"


def is_terminal(stream: IO[str]) -> bool:
    """Whether somebody is looking at the stream."""
    return stream.isatty()
