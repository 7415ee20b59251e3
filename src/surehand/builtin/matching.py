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

_TOLD = 10
"""Lines that an error lists."""
_COMPARED = 20_000
"""Lines that are compared with one that was not found."""
_TOLERANT = 1 << 20
"""Characters of the largest text in which whitespace is overlooked, or what is near is looked for."""
_CHECKED = 1_000_000
"""Lines that are compared with indented ones, all places together."""


@dataclass(frozen=True, slots=True)
class Match:
    """Where something was found, and what else than in the wanted text its lines are indented by."""

    start: int
    end: int
    wanted: str = ""
    found: str = ""

    def indented(self, text: str) -> str:
        """Text that was written for the wanted place, as it stands in the found one."""
        if self.wanted == self.found:
            return text
        return "\n".join(self._line(line) if line.strip() else line for line in text.split("\n"))

    def _line(self, line: str) -> str:
        own = _indent(line)
        if own.startswith(self.wanted):
            return self.found + line[len(self.wanted) :]
        less = len(self.wanted) - len(own) if self.wanted.startswith(own) else 0
        return self.found[: max(len(self.found) - less, 0)] + line[len(own) :]


class Text:
    """A text in which pieces are looked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        """Without their newlines."""
        return self.text.split("\n")

    @cached_property
    def starts(self) -> array[int]:
        """Where the lines begin."""
        starts = array("I", [0])
        starts.extend(found.end() for found in re.finditer("\n", self.text))
        return starts

    def line_at(self, position: int) -> int:
        """The number of the line, counted from 1."""
        return bisect_right(self.starts, position)

    def every(self, wanted: str, *, overlapping: bool = False, start: int = 0) -> Iterator[Match]:
        """All places where it stands exactly so."""
        at = self.text.find(wanted, start)
        while at >= 0:
            yield Match(at, at + len(wanted))
            at = self.text.find(wanted, at + (1 if overlapping else len(wanted)))

    def one(self, wanted: str, name: str, *, tolerant: bool = False, start: int = 0) -> Match:
        """The one place where it stands; raises `InvalidArguments` for none or several."""
        found: list[Match] = []
        for places in self._ways(wanted, tolerant):
            found = found or self._some(places(wanted, start))
        if len(found) > 1:
            raise InvalidArguments(self._several(name, found))
        if not found:
            raise InvalidArguments(f"{name} was not found in the file. {self._nearest(wanted)}")
        return found[0]

    def first(self, wanted: str, name: str, *, tolerant: bool, start: int) -> Match:
        """The first place from a position on; raises `InvalidArguments` for none."""
        for some in self._ways(wanted, tolerant):
            if (match := next(some(wanted, start), None)) is not None:
                return match
        raise InvalidArguments(f"{name} was not found after `from`. {self._nearest(wanted)}")

    def _ways(self, wanted: str, tolerant: bool) -> list[Callable[[str, int], Iterator[Match]]]:
        """How to look for it, the strictest first."""
        if not tolerant or not wanted.strip():
            return [self._exactly]
        if len(self.text) > _TOLERANT:
            raise ToolError("The file is too large for whitespace to be overlooked. Copy it exactly.", code="too_large")
        return [self._exactly, self._ignoring_trailing, self._ignoring_indent]

    def _exactly(self, wanted: str, start: int) -> Iterator[Match]:
        return self.every(wanted, overlapping=True, start=start)

    @staticmethod
    def _some(matches: Iterator[Match]) -> list[Match]:
        return [match for match, _ in zip(matches, range(_TOLD + 1), strict=False)]

    # But for whitespace

    def _ignoring_trailing(self, wanted: str, start: int) -> Iterator[Match]:
        for first, count in _windows(self._without_trailing, [line.rstrip() for line in _body(wanted)]):
            yield from self._match(wanted, first, count, start)

    def _ignoring_indent(self, wanted: str, start: int) -> Iterator[Match]:
        body = _body(wanted)
        indent, shape = _dedented(body)
        for first, count in _windows(self._without_indent, [line.strip() for line in body]):
            found, other = _dedented(self.lines[first : first + count])
            if other == shape:
                yield from self._match(wanted, first, count, start, indent, found)

    @cached_property
    def _without_trailing(self) -> str:
        return "\n".join(["", *(line.rstrip() for line in self.lines), ""])

    @cached_property
    def _without_indent(self) -> str:
        return "\n".join(["", *(line.strip() for line in self.lines), ""])

    def _match(self, wanted: str, first: int, count: int, start: int, *indents: str) -> Iterator[Match]:
        begin, last = self.starts[first], first + count - 1
        end = self.starts[last] + len(self.lines[last]) + wanted.endswith("\n")
        if begin >= start:
            yield Match(begin, min(end, len(self.text)), *indents)

    # What to say instead

    def _several(self, name: str, found: list[Match]) -> str:
        numbers = [str(self.line_at(match.start)) for match in found[:_TOLD]]
        more, times = (" and more", f"more than {_TOLD}") if len(found) > _TOLD else ("", str(len(found)))
        lines = f"lines {', '.join(numbers)}{more}"
        return f"{name} was found {times} times, on {lines}. Add lines around it to make it unique, or replace all."

    def _nearest(self, wanted: str) -> str:
        if re.match(r"\s*\d+\t", wanted) and not re.match(r"\s*\d+\t", self.text):
            return "It begins with a line number, which is not part of the file: leave it out."
        if len(self.text) > _TOLERANT:
            return "Read the file again and copy the text exactly."
        if next(self._ignoring_indent(wanted, 0), None) or _squeezed(wanted) in _squeezed(self.text):
            hint = "It differs in whitespace only: copy it exactly as it stands in the file."
        elif wanted.casefold() in self.text.casefold():
            hint = "It differs in upper and lower case only."
        else:
            hint = "Read the file again and copy the text exactly."
        return f"{hint}{self._context(wanted)}"

    def _context(self, wanted: str) -> str:
        line = next((line.strip() for line in wanted.split("\n") if line.strip()), "")[:200]
        lines = [known.strip()[:200] for known in self.lines[:_COMPARED]]
        rough = nlargest(20, range(len(lines)), key=lambda at: _alike(line, lines[at]))
        best = max(rough, key=lambda at: SequenceMatcher(None, line, lines[at]).ratio(), default=0)
        if not line or SequenceMatcher(None, line, lines[best]).ratio() < 0.5:
            return ""
        near = range(max(best - 2, 0), min(best + 3, len(self.lines)))
        shown = "\n".join(f"{'>' if at == best else ' '}{at + 1:>6}\t{self.lines[at][:200]}" for at in near)
        shown = replace_surrogates(shown)
        return f" The nearest line is {best + 1}:\n{shown}"


def _windows(text: str, wanted: list[str]) -> Iterator[tuple[int, int]]:
    """Where the wanted lines stand among those of a text: as one string, which is searched in linear time."""
    piece = "\n".join(["", *wanted, ""])
    at, line, counted = text.find(piece), 0, 0
    for _ in range(max(_CHECKED // len(wanted), 1)):
        if at < 0:
            return
        line, counted = line + text.count("\n", counted, at), at
        yield line, len(wanted)
        at = text.find(piece, at + 1)


def _body(wanted: str) -> list[str]:
    return wanted.removesuffix("\n").split("\n")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _dedented(lines: list[str]) -> tuple[str, list[str]]:
    """What all lines are indented by, and the lines without it."""
    common = commonprefix([_indent(line) for line in lines if line.strip()])  # noqa: RUF071 - not of paths
    return common, [line[len(common) :].rstrip() if line.strip() else "" for line in lines]


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _alike(one: str, other: str) -> float:
    """A cheap guess: letters in common."""
    if one == other:
        return 2.0
    mine, theirs = set(one), set(other)
    shared = len(mine & theirs) / (len(mine | theirs) or 1)
    return shared * (min(len(one), len(other)) + 1) / (max(len(one), len(other)) + 1)
