"""Excerpts: parts of a large text, by lines or by a pattern that runs in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterable

from surehand.core.errors import InvalidArguments

WIDTH = 20_000
_RANGE = re.compile(r"\s*(\d+)\s*(?:[-:,]\s*(\d+)?\s*)?\Z")


def excerpt(
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
    rows = rows_of(text)
    chosen: Iterable[int] = range(len(rows))
    if lines is not None:
        chosen = _range(lines, len(rows))
    if grep is not None:
        chosen = _matching(rows, chosen, grep, context)
    picked = list(chosen)
    if head is not None:
        picked = picked[: max(head, 0)]
    if tail is not None:
        picked = picked[len(picked) - min(max(tail, 0), len(picked)) :]
    return _shown(rows, picked, limit)


def rows_of(text: str) -> list[str]:
    """The lines; what has none, such as most JSON, is cut into pieces that can be asked for one by one."""
    if len(text) <= WIDTH * (text.count("\n") + 1) and all(len(line) <= WIDTH for line in text.splitlines()):
        return text.splitlines()
    return [piece for line in text.splitlines() for piece in (_pieces(line) or [""])]


def _pieces(line: str) -> list[str]:
    return [line[start : start + WIDTH] for start in range(0, len(line), WIDTH)]


def _range(lines: str, count: int) -> range:
    match = _RANGE.match(lines)
    if not match:
        raise InvalidArguments(f"{lines!r} is no range of lines. Write 10-40.")
    first, last = int(match[1]), int(match[2] or match[1]) if "-" not in lines or match[2] else count
    return range(max(first - 1, 0), min(last, count))


def _matching(rows: list[str], chosen: Iterable[int], grep: str, context: int) -> list[int]:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        # pydantic-core's own regex engine has no backtracking: no pattern can make it slow.
        pattern = SchemaValidator(core_schema.str_schema(pattern=grep, regex_engine="rust-regex"))
    except SchemaError as error:
        raise InvalidArguments(f"{grep!r} is no regular expression that can be used here: {error}.") from None
    hits = [index for index in chosen if pattern.isinstance_python(rows[index])]
    return _around(hits, max(context, 0), len(rows))


def _around(hits: list[int], context: int, count: int) -> list[int]:
    around: list[int] = []
    for hit in hits:
        first = max(hit - context, around[-1] + 1 if around else 0)
        around.extend(range(first, min(hit + context + 1, count)))
    return around


def _shown(rows: list[str], picked: list[int], limit: int) -> str:
    if not picked:
        return f"(no lines; the output has {len(rows)})"
    shown: list[str] = []
    left = limit - 200
    for place, index in enumerate(picked):
        line = f"{index + 1}\t{rows[index]}"
        left -= len(line.encode(errors="replace")) + 1
        if left < 0:
            shown.append(_cut_off(line, left, index, len(picked) - place))
            break
        shown.append(line)
    return "\n".join(shown)


def _cut_off(line: str, left: int, index: int, remaining: int) -> str:
    start = line.encode(errors="replace")[: max(left + len(line.encode(errors="replace")), 0)].decode(errors="ignore")
    return f"{start}\n... {remaining} more lines, from line {index + 1}. Ask for lines='{index + 1}-' or use grep."
