"""Formats values for a terminal (JSON, durations, sizes, previews) and for a pipe (JSON lines)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import IO, Any

from pydantic_core import to_json, to_jsonable_python
from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.text import Text

from surehand.core.sanitize import escape_line, escape_unprintable

_DIFF_FIELD_TYPES: dict[str, type] = {"type": str, "filePath": str, "patch": str, "isNewFile": bool, "problem": str}


def create_console(stream: IO[str] | None = None) -> Console:
    """A rich console that prints text literally: no markup, emoji names or automatic highlighting."""
    return Console(file=stream or sys.stdout, markup=False, emoji=False, highlight=False)


def json_line(value: Any) -> str:
    """One line of JSON for a pipe; values that JSON cannot express become their `repr`."""
    return to_json(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings").decode(errors="replace") + "\n"


def pretty_json(value: Any) -> Text:
    """Indented JSON for a person, in colour."""
    return highlight_json(escape_unprintable(_dump_json(value, indent=2)))


def highlight_json(text: str) -> Text:
    """Colour a text that is JSON, or the beginning of JSON."""
    highlighted = Text(text)
    JSONHighlighter().highlight(highlighted)
    return highlighted


def compact_json(value: Any) -> str:
    """JSON on one line for a person."""
    return _dump_json(value)


def _dump_json(value: Any, indent: int | None = None) -> str:
    jsonable = to_jsonable_python(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings")
    return json.dumps(jsonable, indent=indent, ensure_ascii=False)


def to_one_line(text: str) -> str:
    """The text on a single line, with control characters escaped."""
    return escape_unprintable(" ".join(text.split()))


def truncate_text(text: str, max_length: int, how_to_see_rest: str) -> str:
    """The escaped text; if too long, its beginning, the number of further bytes, and how to see them."""
    if len(text) <= max_length:
        return escape_unprintable(text)
    more = len(text[max_length:].encode(errors="surrogatepass"))
    return f"{escape_unprintable(text[:max_length])} ... and {more:,} bytes more: {how_to_see_rest}"


def format_duration(seconds: float) -> str:
    """A rough duration in its largest unit: `5 min`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def format_age(timestamp: float) -> str:
    """How long ago a time was."""
    return f"{format_duration(time.time() - timestamp)} ago"


def format_size(byte_count: int) -> str:
    """A number of bytes in its largest unit: `1.5 MB`."""
    for unit, length in (("GB", 1000**3), ("MB", 1000**2), ("kB", 1000)):
        if byte_count >= length:
            return f"{byte_count / length:.1f} {unit}"
    return f"{byte_count} bytes"


def is_terminal(stream: IO[str]) -> bool:
    """Whether the stream is a terminal, and so a person reads it."""
    return stream.isatty()


# Previews


def render_preview(preview: Any) -> Text:
    """Render a whole preview, however long: a cut could hide the part that matters."""
    if isinstance(preview, str):
        return Text(escape_unprintable(preview))
    return _render_diff(preview) if _is_diff(preview) else pretty_json(preview)


def _is_diff(preview: Any) -> bool:
    return (
        isinstance(preview, Mapping)
        and preview.get("type") == "diff"
        and {"filePath", "patch"} <= preview.keys()
        and all(isinstance(preview[name], type_) for name, type_ in _DIFF_FIELD_TYPES.items() if name in preview)
    )


def _render_diff(preview: Mapping[str, Any]) -> Text:
    """Render the file name, the patch line by line, the problem, and further fields of the tool as JSON."""
    suffix = " (a new file)" if preview.get("isNewFile") else ""
    lines = [Text(escape_line(preview["filePath"]) + suffix, style="bold")]
    patch = preview["patch"].removesuffix("\n")
    problem = preview.get("problem")
    if patch:
        lines += _colour_diff_lines(patch.split("\n"))
    if problem:
        lines.append(Text(f"problem: {to_one_line(problem)}", style="red"))
    elif not patch:
        lines.append(Text("Nothing would change.", style="dim"))
    further_fields = {name: value for name, value in preview.items() if name not in _DIFF_FIELD_TYPES}
    if further_fields:
        lines.append(pretty_json(further_fields))
    return Text("\n").join(lines)


def _colour_diff_lines(lines: list[str]) -> list[Text]:
    """Colour each line by its first character. After the first `@@`, `---` is a removed line, not a file header."""
    first_hunk = next((index for index, line in enumerate(lines) if line.startswith("@@")), len(lines))
    return [
        Text(escape_unprintable(line), style=_diff_line_style(line, is_header=index < first_hunk))
        for index, line in enumerate(lines)
    ]


def _diff_line_style(line: str, *, is_header: bool) -> str:
    if is_header and line.startswith(("---", "+++")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan", " ": ""}.get(line[:1], "dim")
