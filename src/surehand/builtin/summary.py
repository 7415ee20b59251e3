"""Summary: the line of a Markdown file that says in short what is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

SUMMARY_PREFIX = "> Summary:"
_CODE_FENCE = re.compile(r" {0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")


def find_summary(text: str) -> str | None:
    """What the first such line says; None where there is none."""
    line = next((line for _, line in _prose_lines(text.splitlines()) if line.startswith(SUMMARY_PREFIX)), None)
    return None if line is None else line[len(SUMMARY_PREFIX) :].strip()


def set_summary(text: str, summary: str) -> str:
    """The text with that summary: in place of the old one, else below the first heading, else at the top."""
    lines, told = text.splitlines(keepends=True), f"{SUMMARY_PREFIX} {' '.join(summary.split())}"
    prose = list(_prose_lines(lines))
    for number, line in prose:
        if line.startswith(SUMMARY_PREFIX):
            lines[number] = told + _line_ending(line)
            return "".join(lines)
    heading = next(((number, line) for number, line in prose if _HEADING.match(line)), None)
    if heading is None:
        return f"{told}\n\n{text}" if text else f"{told}\n"
    number, line = heading
    end = _line_ending(line) or "\n"
    lines[number] = f"{line.rstrip()}{end}{end}{told}{end}"
    return "".join(lines)


def _line_ending(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _prose_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without those of code: a comment there looks like a heading."""
    fence = None
    for number, line in enumerate(lines):
        mark = found[1] if (found := _CODE_FENCE.match(line)) else None
        if fence is None and mark is None:
            yield number, line
        elif fence is None:
            fence = mark
        elif mark == fence:
            fence = None
