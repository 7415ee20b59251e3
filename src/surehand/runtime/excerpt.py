"""Excerpts: parts of a large text, by lines or by a pattern that runs in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterable

from surehand.core.errors import InvalidArguments

MAX_LINE_CHARACTERS = 20_000
_LINE_RANGE_PATTERN = re.compile(r"\s*(\d+)\s*(?:[-:,]\s*(\d+)?\s*)?\Z")


def render_excerpt(
    text: str,
    limit: int,
    *,
    head: int | None = None,
    tail: int | None = None,
    lines: str | None = None,
    grep: str | None = None,
    context: int = 0,
) -> str:
    """Numbered lines, at most `limit` bytes of them; says how to go on where more is left."""
    rows = split_lines(text)
    chosen: Iterable[int] = range(len(rows))
    if lines is not None:
        chosen = _parse_line_range(lines, len(rows))
    if grep is not None:
        chosen = _find_matching_lines(rows, chosen, grep, context)
    picked = list(chosen)
    if head is not None:
        picked = picked[: max(head, 0)]
    if tail is not None:
        picked = picked[len(picked) - min(max(tail, 0), len(picked)) :]
    return _render_lines(rows, picked, limit)


def split_lines(text: str) -> list[str]:
    """The lines; what has none, such as most JSON, is cut into pieces that can be asked for one by one."""
    if len(text) <= MAX_LINE_CHARACTERS * (text.count("\n") + 1) and all(
        len(line) <= MAX_LINE_CHARACTERS for line in text.splitlines()
    ):
        return text.splitlines()
    return [piece for line in text.splitlines() for piece in (_split_long_line(line) or [""])]


def _split_long_line(line: str) -> list[str]:
    return [line[start : start + MAX_LINE_CHARACTERS] for start in range(0, len(line), MAX_LINE_CHARACTERS)]


def _parse_line_range(lines: str, line_count: int) -> range:
    match = _LINE_RANGE_PATTERN.match(lines)
    if not match:
        raise InvalidArguments(f"{lines!r} is no range of lines. Write 10-40.")
    first, last = int(match[1]), int(match[2] or match[1]) if "-" not in lines or match[2] else line_count
    return range(max(first - 1, 0), min(last, line_count))


def _find_matching_lines(lines: list[str], line_indexes: Iterable[int], grep: str, context: int) -> list[int]:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        # pydantic-core's own regex engine has no backtracking: no pattern can make it slow.
        pattern = SchemaValidator(core_schema.str_schema(pattern=grep, regex_engine="rust-regex"))
    except SchemaError as error:
        raise InvalidArguments(f"{grep!r} is no regular expression that can be used here: {error}.") from None
    hits = [index for index in line_indexes if pattern.isinstance_python(lines[index])]
    return _add_context_lines(hits, max(context, 0), len(lines))


def _add_context_lines(matching_indexes: list[int], context: int, line_count: int) -> list[int]:
    around: list[int] = []
    for hit in matching_indexes:
        first = max(hit - context, around[-1] + 1 if around else 0)
        around.extend(range(first, min(hit + context + 1, line_count)))
    return around


def _render_lines(lines: list[str], line_indexes: list[int], limit: int) -> str:
    if not line_indexes:
        return f"(no lines; the output has {len(lines)})"
    shown: list[str] = []
    left = limit - 200
    for place, index in enumerate(line_indexes):
        line = f"{index + 1}\t{lines[index]}"
        left -= len(line.encode(errors="replace")) + 1
        if left < 0:
            shown.append(_render_cut_line(line, left, index, len(line_indexes) - place))
            break
        shown.append(line)
    return "\n".join(shown)


def _render_cut_line(line: str, bytes_left: int, index: int, remaining: int) -> str:
    start = line.encode(errors="replace")[: max(bytes_left + len(line.encode(errors="replace")), 0)].decode(
        errors="ignore"
    )
    return f"{start}\n... {remaining} more lines, from line {index + 1}. Ask for lines='{index + 1}-' or use grep."
