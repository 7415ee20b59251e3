"""Finds a piece of text in a file for an edit: exactly, or with differences in whitespace. Pure text, no file access.

If the piece is missing or ambiguous, the error says how it differs and shows the nearest line.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from heapq import nlargest
from itertools import islice
from os.path import commonprefix

from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.sanitize import replace_surrogates

_MAX_LISTED_LINES = 10
"""Line numbers in an error message."""
_MAX_COMPARED_LINES = 20_000
"""Lines of the file that are compared with a missing one."""
_MAX_COMPARED_LENGTH = 200
"""Characters of a line that are compared and shown."""
_MAX_TOLERANT_TEXT_LENGTH = 1 << 20
"""Largest text, in characters, that is searched with differences in whitespace."""
_MAX_CHECKED_LINES = 1_000_000
"""Lines that are compared for one whitespace-tolerant search, over all candidates."""
_ROUGH_CANDIDATES = 20
"""Lines that a cheap comparison leaves for the exact one."""
_LINE_NUMBER = re.compile(r"\s*\d+\t")


@dataclass(frozen=True, slots=True)
class TextMatch:
    """Where a text was found, and how its indentation differs there from the wanted one."""

    start: int
    end: int
    wanted_indent: str = ""
    found_indent: str = ""

    def reindent(self, text: str) -> str:
        """Give a text, indented like the wanted one, the indentation of the place where it was found."""
        if self.wanted_indent == self.found_indent:
            return text
        return "\n".join(self._reindent_line(line) if line.strip() else line for line in text.split("\n"))

    def _reindent_line(self, line: str) -> str:
        indent = _leading_whitespace(line)
        if indent.startswith(self.wanted_indent):
            return self.found_indent + line[len(self.wanted_indent) :]
        missing = len(self.wanted_indent) - len(indent) if self.wanted_indent.startswith(indent) else 0
        kept = max(len(self.found_indent) - missing, 0)
        return self.found_indent[:kept] + line[len(indent) :]


class SearchableText:
    """A file's text, in which the texts of edits are searched."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their newlines."""
        return self.text.split("\n")

    @cached_property
    def line_starts(self) -> array[int]:
        """The position of each line's first character."""
        starts = array("I", [0])
        starts.extend(newline.end() for newline in re.finditer("\n", self.text))
        return starts

    def line_number_at(self, position: int) -> int:
        """Number of the line, counted from 1, that holds a position."""
        return bisect_right(self.line_starts, position)

    def find_all(self, wanted: str, *, overlapping: bool = False, start: int = 0) -> Iterator[TextMatch]:
        """All exact matches."""
        step = 1 if overlapping else len(wanted)
        position = self.text.find(wanted, start)
        while position >= 0:
            yield TextMatch(position, position + len(wanted))
            position = self.text.find(wanted, position + step)

    def find_unique(self, wanted: str, label: str, *, whitespace_tolerant: bool = False, start: int = 0) -> TextMatch:
        """The only match; raises `InvalidArguments` for none or several."""
        matches: list[TextMatch] = []
        for find in self._match_strategies(wanted, whitespace_tolerant):
            matches = list(islice(find(wanted, start), _MAX_LISTED_LINES + 1))
            if matches:
                break
        if len(matches) > 1:
            raise InvalidArguments(self._ambiguous_message(label, matches))
        if not matches:
            raise InvalidArguments(f"{label} was not found in the file. {self._not_found_hint(wanted)}")
        return matches[0]

    def find_first(self, wanted: str, label: str, *, whitespace_tolerant: bool, start: int) -> TextMatch:
        """The first match from a position on; raises `InvalidArguments` for none."""
        for find in self._match_strategies(wanted, whitespace_tolerant):
            match = next(find(wanted, start), None)
            if match is not None:
                return match
        raise InvalidArguments(f"{label} was not found after `from`. {self._not_found_hint(wanted)}")

    def _match_strategies(
        self, wanted: str, whitespace_tolerant: bool
    ) -> list[Callable[[str, int], Iterator[TextMatch]]]:
        """The search functions to try, the strictest first."""
        if not whitespace_tolerant or not wanted.strip():
            return [self._find_exact]
        if len(self.text) > _MAX_TOLERANT_TEXT_LENGTH:
            raise ToolError("The file is too large for whitespace to be overlooked. Copy it exactly.", code="too_large")
        return [self._find_exact, self._find_ignoring_trailing_whitespace, self._find_ignoring_indentation]

    def _find_exact(self, wanted: str, start: int) -> Iterator[TextMatch]:
        return self.find_all(wanted, overlapping=True, start=start)

    # Search with differences in whitespace

    def _find_ignoring_trailing_whitespace(self, wanted: str, start: int) -> Iterator[TextMatch]:
        wanted_lines = [line.rstrip() for line in _split_wanted_lines(wanted)]
        for first_line in _find_line_windows(self._text_without_trailing_whitespace, wanted_lines):
            yield from self._match_lines(wanted, first_line, len(wanted_lines), start)

    def _find_ignoring_indentation(self, wanted: str, start: int) -> Iterator[TextMatch]:
        wanted_lines = _split_wanted_lines(wanted)
        line_count = len(wanted_lines)
        wanted_indent, wanted_shape = _dedent(wanted_lines)
        stripped = [line.strip() for line in wanted_lines]
        for first_line in _find_line_windows(self._text_without_indentation, stripped):
            found_indent, found_shape = _dedent(self.lines[first_line : first_line + line_count])
            if found_shape == wanted_shape:
                yield from self._match_lines(wanted, first_line, line_count, start, wanted_indent, found_indent)

    @cached_property
    def _text_without_trailing_whitespace(self) -> str:
        return "\n".join(["", *(line.rstrip() for line in self.lines), ""])

    @cached_property
    def _text_without_indentation(self) -> str:
        return "\n".join(["", *(line.strip() for line in self.lines), ""])

    def _match_lines(
        self, wanted: str, first_line: int, line_count: int, start: int, *indents: str
    ) -> Iterator[TextMatch]:
        """The match of whole lines, unless it lies before `start`."""
        match_start = self.line_starts[first_line]
        last_line = first_line + line_count - 1
        match_end = self.line_starts[last_line] + len(self.lines[last_line]) + wanted.endswith("\n")
        if match_start >= start:
            yield TextMatch(match_start, min(match_end, len(self.text)), *indents)

    # Error messages

    def _ambiguous_message(self, label: str, matches: list[TextMatch]) -> str:
        numbers = [str(self.line_number_at(match.start)) for match in matches[:_MAX_LISTED_LINES]]
        lines = f"lines {', '.join(numbers)}"
        times = str(len(matches))
        if len(matches) > _MAX_LISTED_LINES:
            lines += " and more"
            times = f"more than {_MAX_LISTED_LINES}"
        return f"{label} was found {times} times, on {lines}. Add lines around it to make it unique, or replace all."

    def _not_found_hint(self, wanted: str) -> str:
        if _LINE_NUMBER.match(wanted) and not _LINE_NUMBER.match(self.text):
            return "It begins with a line number, which is not part of the file: leave it out."
        if len(self.text) > _MAX_TOLERANT_TEXT_LENGTH:
            return "Read the file again and copy the text exactly."
        if self._differs_in_whitespace_only(wanted):
            hint = "It differs in whitespace only: copy it exactly as it stands in the file."
        elif wanted.casefold() in self.text.casefold():
            hint = "It differs in upper and lower case only."
        else:
            hint = "Read the file again and copy the text exactly."
        return f"{hint}{self._nearest_line_context(wanted)}"

    def _differs_in_whitespace_only(self, wanted: str) -> bool:
        if next(self._find_ignoring_indentation(wanted, 0), None) is not None:
            return True
        return _remove_whitespace(wanted) in _remove_whitespace(self.text)

    def _nearest_line_context(self, wanted: str) -> str:
        """The line most similar to the first wanted one, with the lines around it; empty if none is similar."""
        wanted_line = next((line.strip() for line in wanted.split("\n") if line.strip()), "")[:_MAX_COMPARED_LENGTH]
        lines = [line.strip()[:_MAX_COMPARED_LENGTH] for line in self.lines[:_MAX_COMPARED_LINES]]

        def similarity(index: int) -> float:
            return SequenceMatcher(None, wanted_line, lines[index]).ratio()

        candidates = nlargest(
            _ROUGH_CANDIDATES, range(len(lines)), key=lambda index: _rough_similarity(wanted_line, lines[index])
        )
        best = max(candidates, key=similarity, default=0)
        if not wanted_line or similarity(best) < 0.5:
            return ""
        shown: list[str] = []
        for index in range(max(best - 2, 0), min(best + 3, len(self.lines))):
            marker = ">" if index == best else " "
            shown.append(f"{marker}{index + 1:>6}\t{self.lines[index][:_MAX_COMPARED_LENGTH]}")
        context = replace_surrogates("\n".join(shown))
        return f" The nearest line is {best + 1}:\n{context}"


def _find_line_windows(text: str, wanted_lines: list[str]) -> Iterator[int]:
    """The first line of each place where the wanted lines follow one another.

    The lines are searched as one string, which takes linear time.
    """
    piece = "\n".join(["", *wanted_lines, ""])
    line = 0
    counted_to = 0
    position = text.find(piece)
    for _ in range(max(_MAX_CHECKED_LINES // len(wanted_lines), 1)):
        if position < 0:
            return
        line += text.count("\n", counted_to, position)
        counted_to = position
        yield line
        position = text.find(piece, position + 1)


def _split_wanted_lines(wanted: str) -> list[str]:
    return wanted.removesuffix("\n").split("\n")


def _leading_whitespace(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _dedent(lines: list[str]) -> tuple[str, list[str]]:
    """The common indentation, and the lines without it."""
    indents = [_leading_whitespace(line) for line in lines if line.strip()]
    common = commonprefix(indents)  # noqa: RUF071 - these are texts, not paths
    return common, [line[len(common) :].rstrip() if line.strip() else "" for line in lines]


def _remove_whitespace(text: str) -> str:
    return "".join(text.split())


def _rough_similarity(one: str, other: str) -> float:
    """A cheap estimate of how similar two lines are: their common characters and their lengths."""
    if one == other:
        return 2.0
    one_characters = set(one)
    other_characters = set(other)
    shared = len(one_characters & other_characters) / (len(one_characters | other_characters) or 1)
    shorter, longer = sorted((len(one), len(other)))
    return shared * (shorter + 1) / (longer + 1)
