"""Matching: where a piece of text stands in a file, exactly or but for whitespace."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from heapq import nlargest
from os.path import commonprefix

from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.sanitize import replace_surrogates

_MAX_LISTED_LINES = 10
"""Lines that an error lists."""
_MAX_COMPARED_LINES = 20_000
"""Lines that are compared with one that was not found."""
_MAX_TOLERANT_TEXT_LENGTH = 1 << 20
"""Characters of the largest text in which whitespace is overlooked, or what is near is looked for."""
_MAX_CHECKED_LINES = 1_000_000
"""Lines that are compared with indented ones, all places together."""


@dataclass(frozen=True, slots=True)
class TextMatch:
    """Where something was found, and what else than in the wanted text its lines are indented by."""

    start: int
    end: int
    wanted_indent: str = ""
    found_indent: str = ""

    def reindent(self, text: str) -> str:
        "SearchableTextxt that was written for the wanted place, as it stands in the found one."
        if self.wanted_indent == self.found_indent:
            return text
        return "\n".join(self._reindent_line(line) if line.strip() else line for line in text.split("\n"))

    def _reindent_line(self, line: str) -> str:
        own = _leading_whitespace(line)
        if own.startswith(self.wanted_indent):
            return self.found_indent + line[len(self.wanted_indent) :]
        less = len(self.wanted_indent) - len(own) if self.wanted_indent.startswith(own) else 0
        return self.found_indent[: max(len(self.found_indent) - less, 0)] + line[len(own) :]


class SearchableText:
    """A text in which pieces are looked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        """Without their newlines."""
        return self.text.split("\n")

    @cached_property
    def line_starts(self) -> array[int]:
        """Where the lines begin."""
        starts = array("I", [0])
        starts.extend(found.end() for found in re.finditer("\n", self.text))
        return starts

    def line_number_at(self, position: int) -> int:
        """The number of the line, counted from 1."""
        return bisect_right(self.line_starts, position)

    def find_all(self, wanted: str, *, overlapping: bool = False, start: int = 0) -> Iterator[TextMatch]:
        """All places where it stands exactly so."""
        at = self.text.find(wanted, start)
        while at >= 0:
            yield TextMatch(at, at + len(wanted))
            at = self.text.find(wanted, at + (1 if overlapping else len(wanted)))

    def find_unique(self, wanted: str, label: str, *, whitespace_tolerant: bool = False, start: int = 0) -> TextMatch:
        """The one place where it stands; raises `InvalidArguments` for none or several."""
        found: list[TextMatch] = []
        for places in self._match_strategies(wanted, whitespace_tolerant):
            found = found or self._first_matches(places(wanted, start))
        if len(found) > 1:
            raise InvalidArguments(self._ambiguous_message(label, found))
        if not found:
            raise InvalidArguments(f"{label} was not found in the file. {self._not_found_hint(wanted)}")
        return found[0]

    def find_first(self, wanted: str, label: str, *, whitespace_tolerant: bool, start: int) -> TextMatch:
        """The first place from a position on; raises `InvalidArguments` for none."""
        for some in self._match_strategies(wanted, whitespace_tolerant):
            if (match := next(some(wanted, start), None)) is not None:
                return match
        raise InvalidArguments(f"{label} was not found after `from`. {self._not_found_hint(wanted)}")

    def _match_strategies(
        self, wanted: str, whitespace_tolerant: bool
    ) -> list[Callable[[str, int], Iterator[TextMatch]]]:
        """How to look for it, the strictest first."""
        if not whitespace_tolerant or not wanted.strip():
            return [self._find_exact]
        if len(self.text) > _MAX_TOLERANT_TEXT_LENGTH:
            raise ToolError("The file is too large for whitespace to be overlooked. Copy it exactly.", code="too_large")
        return [self._find_exact, self._find_ignoring_trailing_whitespace, self._find_ignoring_indentation]

    def _find_exact(self, wanted: str, start: int) -> Iterator[TextMatch]:
        return self.find_all(wanted, overlapping=True, start=start)

    @staticmethod
    def _first_matches(matches: Iterator[TextMatch]) -> list[TextMatch]:
        return [match for match, _ in zip(matches, range(_MAX_LISTED_LINES + 1), strict=False)]

    # But for whitespace

    def _find_ignoring_trailing_whitespace(self, wanted: str, start: int) -> Iterator[TextMatch]:
        for first, count in _find_line_windows(
            self._text_without_trailing_whitespace, [line.rstrip() for line in _split_wanted_lines(wanted)]
        ):
            yield from self._match_lines(wanted, first, count, start)

    def _find_ignoring_indentation(self, wanted: str, start: int) -> Iterator[TextMatch]:
        body = _split_wanted_lines(wanted)
        indent, shape = _dedent(body)
        for first, count in _find_line_windows(self._text_without_indentation, [line.strip() for line in body]):
            found, other = _dedent(self.lines[first : first + count])
            if other == shape:
                yield from self._match_lines(wanted, first, count, start, indent, found)

    @cached_property
    def _text_without_trailing_whitespace(self) -> str:
        return "\n".join(["", *(line.rstrip() for line in self.lines), ""])

    @cached_property
    def _text_without_indentation(self) -> str:
        return "\n".join(["", *(line.strip() for line in self.lines), ""])

    def _match_lines(
        self, wanted: str, first_line: int, line_count: int, start: int, *indents: str
    ) -> Iterator[TextMatch]:
        begin, last = self.line_starts[first_line], first_line + line_count - 1
        end = self.line_starts[last] + len(self.lines[last]) + wanted.endswith("\n")
        if begin >= start:
            yield TextMatch(begin, min(end, len(self.text)), *indents)

    # What to say instead

    def _ambiguous_message(self, label: str, matches: list[TextMatch]) -> str:
        numbers = [str(self.line_number_at(match.start)) for match in matches[:_MAX_LISTED_LINES]]
        more, times = (
            (" and more", f"more than {_MAX_LISTED_LINES}")
            if len(matches) > _MAX_LISTED_LINES
            else ("", str(len(matches)))
        )
        lines = f"lines {', '.join(numbers)}{more}"
        return f"{label} was found {times} times, on {lines}. Add lines around it to make it unique, or replace all."

    def _not_found_hint(self, wanted: str) -> str:
        if re.match(r"\s*\d+\t", wanted) and not re.match(r"\s*\d+\t", self.text):
            return "It begins with a line number, which is not part of the file: leave it out."
        if len(self.text) > _MAX_TOLERANT_TEXT_LENGTH:
            return "Read the file again and copy the text exactly."
        if next(self._find_ignoring_indentation(wanted, 0), None) or _remove_whitespace(wanted) in _remove_whitespace(
            self.text
        ):
            hint = "It differs in whitespace only: copy it exactly as it stands in the file."
        elif wanted.casefold() in self.text.casefold():
            hint = "It differs in upper and lower case only."
        else:
            hint = "Read the file again and copy the text exactly."
        return f"{hint}{self._nearest_line_context(wanted)}"

    def _nearest_line_context(self, wanted: str) -> str:
        line = next((line.strip() for line in wanted.split("\n") if line.strip()), "")[:200]
        lines = [known.strip()[:200] for known in self.lines[:_MAX_COMPARED_LINES]]
        rough = nlargest(20, range(len(lines)), key=lambda at: _rough_similarity(line, lines[at]))
        best = max(rough, key=lambda at: SequenceMatcher(None, line, lines[at]).ratio(), default=0)
        if not line or SequenceMatcher(None, line, lines[best]).ratio() < 0.5:
            return ""
        near = range(max(best - 2, 0), min(best + 3, len(self.lines)))
        shown = "\n".join(f"{'>' if at == best else ' '}{at + 1:>6}\t{self.lines[at][:200]}" for at in near)
        shown = replace_surrogates(shown)
        return f" The nearest line is {best + 1}:\n{shown}"


def _find_line_windows(text: str, wanted_lines: list[str]) -> Iterator[tuple[int, int]]:
    """Where the wanted lines stand among those of a text: as one string, which is searched in linear time."""
    piece = "\n".join(["", *wanted_lines, ""])
    at, line, counted = text.find(piece), 0, 0
    for _ in range(max(_MAX_CHECKED_LINES // len(wanted_lines), 1)):
        if at < 0:
            return
        line, counted = line + text.count("\n", counted, at), at
        yield line, len(wanted_lines)
        at = text.find(piece, at + 1)


def _split_wanted_lines(wanted: str) -> list[str]:
    return wanted.removesuffix("\n").split("\n")


def _leading_whitespace(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _dedent(lines: list[str]) -> tuple[str, list[str]]:
    """What all lines are indented by, and the lines without it."""
    common = commonprefix([_leading_whitespace(line) for line in lines if line.strip()])  # noqa: RUF071 - not of paths
    return common, [line[len(common) :].rstrip() if line.strip() else "" for line in lines]


def _remove_whitespace(text: str) -> str:
    return "".join(text.split())


def _rough_similarity(one: str, other: str) -> float:
    """A cheap guess: letters in common."""
    if one == other:
        return 2.0
    mine, theirs = set(one), set(other)
    shared = len(mine & theirs) / (len(mine | theirs) or 1)
    return shared * (min(len(one), len(other)) + 1) / (max(len(one), len(other)) + 1)
