"""Globs: `*`, `?`, `[a-z]`, `{a,b}` and `**`, matched in time that grows no faster than pattern times path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from surehand.core.errors import Denied, InvalidArguments
from surehand.core.sanitize import escape_line

MOST, LONGEST = 256, 20_000
"""Patterns that the braces of one may stand for, and their letters all together."""
_VISIBLE = r"(?!\.)"
_SIMPLE = re.compile(r"[A-Za-z0-9_.*?@+=~-]+")
_SPECIAL = frozenset("*?[]{}\\")
_IN_CLASS = frozenset("\\]^-[&~|")


class Glob:
    """A pattern for paths below a folder. One without a slash fits names in any folder.

    A name that begins with a dot is matched only by a pattern that has the dot.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._ways = [_segments(way) for way in _expanded(pattern)]
        self.base = _common([_literal_folders(way) for way in self._ways])
        """The folders that every match lies in."""
        rest = [way[len(self.base) :] for way in self._ways]
        self.hidden = any(segment.startswith((".", "\\.")) for way in rest for segment in way)
        """Whether it asks for names that begin with a dot."""
        self._match = re.compile("|".join(f"(?:{path_regex(way)})" for way in rest), re.DOTALL).fullmatch
        self.names = sorted({way[-1] for way in rest})
        """Globs over the last names alone."""
        self.simple = not {"*", "**"} & set(self.names) and all(map(_SIMPLE.fullmatch, self.names))
        """Whether those mean the same to everybody, and tell files apart."""
        self.by_name = self.simple and not self.hidden and all(len(way) == 2 and way[0] == "**" for way in rest)
        """Whether they alone decide."""
        self.everything = any(way in (["**"], ["**", "*"]) for way in rest)
        """Whether every path fits that has no hidden name in it."""

    def __call__(self, path: str) -> bool:
        """Whether a path below `base` fits."""
        return self._match(path) is not None


def _segments(pattern: str) -> list[str]:
    bare = "/" not in pattern
    segments = [segment for segment in pattern.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise Denied(f"Permission denied: the pattern '{escape_line(pattern, 200)}' contains '..'. Write it without.")
    if pattern.endswith("/"):
        segments.append("**")
    if bare or not segments:
        segments.insert(0, "**")
    return [
        segment
        for segment, before in zip(segments, ["", *segments], strict=False)
        if segment != before or segment != "**"
    ]


def _literal_folders(segments: list[str]) -> list[str]:
    folders: list[str] = []
    for segment in segments[:-1]:
        if _SPECIAL & set(segment):
            break
        folders.append(segment)
    return folders


def _common(ways: list[list[str]]) -> tuple[str, ...]:
    shared: list[str] = []
    for names in zip(*ways, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return tuple(shared)


# Braces


def _expanded(pattern: str) -> list[str]:
    """All patterns that one with braces stands for."""
    done, todo = list[str](), [pattern]
    while todo:
        way = todo.pop()
        if (pieces := _first_braces(way)) is None:
            done.append(way)
        else:
            before, choices, after = pieces
            todo += [f"{before}{choice}{after}" for choice in reversed(choices)]
        if len(todo) + len(done) > MOST or sum(map(len, todo)) + sum(map(len, done)) > LONGEST:
            raise InvalidArguments(f"The braces in '{escape_line(pattern, 200)}' stand for too many patterns.")
    return done


def _first_braces(pattern: str) -> tuple[str, list[str], str] | None:
    """What stands before the first braces, the choices in them, and what stands behind."""
    depth, start, cuts = 0, 0, list[int]()
    for at, letter in _plain(pattern):
        if letter == "{":
            depth += 1
            start, cuts = (at, []) if depth == 1 else (start, cuts)
        elif letter == "}" and depth:
            depth -= 1
            if not depth:
                ends = [start, *cuts, at]
                choices = [pattern[one + 1 : other] for one, other in pairwise(ends)]
                return pattern[:start], choices, pattern[at + 1 :]
        elif letter == "," and depth == 1:
            cuts.append(at)
    if depth:
        raise InvalidArguments(
            f"A brace in '{escape_line(pattern, 200)}' is never closed. Write '\\{{' for the letter itself."
        )
    return None


def _plain(pattern: str) -> Iterator[tuple[int, str]]:
    """Letters that are neither escaped nor in a class."""
    at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 2
        elif pattern[at] == "[" and (end := class_end(pattern, at)) > 0:
            at = end
        else:
            yield at, pattern[at]
            at += 1


# Regular expressions


def path_regex(segments: list[str], *, dots: bool = False) -> str:
    """What matches a whole path. Groups that are never entered again keep it from trying the same thing twice."""
    visible = "" if dots else _VISIBLE
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            runs.append([])
        else:
            runs[-1].append(segment_regex(segment, dots=dots))
    any_folders = f"(?:{visible}[^/]+/)*"
    first, *others = runs
    regex = "".join(f"{segment}/" for segment in first) if others else "/".join(first)
    for run in others[:-1]:
        regex += f"(?>{any_folders}?{''.join(f'{segment}/' for segment in run)})"
    if others:
        regex += any_folders + ("/".join(others[-1]) if others[-1] else f"{visible}[^/]+")
    return regex


def segment_regex(segment: str, *, dots: bool = False) -> str:
    """What matches one name."""
    pieces = _pieces(segment)
    visible = "" if dots or segment.startswith((".", "\\.")) else _VISIBLE
    if len(pieces) == 1:
        return visible + pieces[0]
    middle = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1] if piece)
    return (
        f"{visible}{pieces[0]}{middle}(?>[^/]*)" if not pieces[-1] else f"{visible}{pieces[0]}{middle}[^/]*{pieces[-1]}"
    )


def _pieces(segment: str) -> list[str]:
    """The parts between the stars: each matches text of one length only."""
    pieces, at = [""], 0
    while at < len(segment):
        letter = segment[at]
        at += 1
        if letter == "*":
            pieces.append("")
        elif letter == "?":
            pieces[-1] += "[^/]"
        elif letter == "[":
            end = class_end(segment, at - 1)
            if end < 0:
                raise InvalidArguments(
                    f"A '[' in '{escape_line(segment, 200)}' is never closed. Write '\\[' for the letter itself."
                )
            pieces[-1] += _class(segment[at : end - 1], segment)
            at = end
        elif letter == "\\" and at < len(segment):
            pieces[-1] += re.escape(segment[at])
            at += 1
        else:
            pieces[-1] += re.escape(letter)
    return pieces


def class_end(pattern: str, start: int) -> int:
    """Just behind the bracket that closes a class; -1 if none does."""
    at = start + 1
    at += pattern[at : at + 1] in ("!", "^")
    at += pattern[at : at + 1] == "]"
    while at < len(pattern) and pattern[at] not in "]/":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1 if pattern[at : at + 1] == "]" else -1


def _class(inside: str, segment: str) -> str:
    negated = inside[:1] in ("!", "^")
    letters = re.findall(r"\\.|.", inside[negated:], re.DOTALL)
    ranges, at = "", 0
    while at < len(letters):
        first, last = letters[at], None
        if at + 2 < len(letters) and letters[at + 1] == "-":
            last = letters[at + 2]
        ranges += _letter(first) if last is None else f"{_letter(first)}-{_letter(last)}"
        if last is not None and first[-1] > last[-1]:
            raise InvalidArguments(f"'{first}-{last}' in '{escape_line(segment, 200)}' is no range: it runs backwards.")
        at += 1 if last is None else 3
    return f"(?!/)[{'^' if negated else ''}{ranges}]"


def _letter(letter: str) -> str:
    plain = letter[-1]
    return f"\\{plain}" if plain in _IN_CLASS else plain
