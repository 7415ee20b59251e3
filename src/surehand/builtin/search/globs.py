"""Globs: `*`, `?`, `[a-z]`, `{a,b}` and `**`, matched in time that grows no faster than pattern times path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from surehand.core.errors import Denied, InvalidArguments
from surehand.core.sanitize import escape_line

MAX_EXPANDED_PATTERNS, MAX_EXPANDED_LENGTH = 256, 20_000
"""Patterns that the braces of one may stand for, and their letters all together."""
_NOT_HIDDEN_REGEX = r"(?!\.)"
_SIMPLE_NAME_GLOB = re.compile(r"[A-Za-z0-9_.*?@+=~-]+")
_GLOB_CHARACTERS = frozenset("*?[]{}\\")
_ESCAPED_IN_CLASS = frozenset("\\]^-[&~|")


class GlobPattern:
    """A pattern for paths below a folder. One without a slash fits names in any folder.

    A name that begins with a dot is matched only by a pattern that has the dot.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._expansions = [_split_segments(way) for way in _expand_braces(pattern)]
        self.base_parts = _common_prefix([_literal_directories(way) for way in self._expansions])
        """The folders that every match lies in."""
        rest = [way[len(self.base_parts) :] for way in self._expansions]
        self.matches_hidden = any(segment.startswith((".", "\\.")) for way in rest for segment in way)
        """Whether it asks for names that begin with a dot."""
        self._match = re.compile("|".join(f"(?:{path_regex(way)})" for way in rest), re.DOTALL).fullmatch
        self.name_globs = sorted({way[-1] for way in rest})
        """Globs over the last names alone."""
        self.has_simple_names = not {"*", "**"} & set(self.name_globs) and all(
            map(_SIMPLE_NAME_GLOB.fullmatch, self.name_globs)
        )
        """Whether those mean the same to everybody, and tell files apart."""
        self.is_name_only = (
            self.has_simple_names and not self.matches_hidden and all(len(way) == 2 and way[0] == "**" for way in rest)
        )
        """Whether they alone decide."""
        self.matches_everything = any(way in (["**"], ["**", "*"]) for way in rest)
        """Whether every path fits that has no hidden name in it."""

    def __call__(self, path: str) -> bool:
        """Whether a path below `base` fits."""
        return self._match(path) is not None


def _split_segments(pattern: str) -> list[str]:
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


def _literal_directories(segments: list[str]) -> list[str]:
    folders: list[str] = []
    for segment in segments[:-1]:
        if _GLOB_CHARACTERS & set(segment):
            break
        folders.append(segment)
    return folders


def _common_prefix(paths: list[list[str]]) -> tuple[str, ...]:
    shared: list[str] = []
    for names in zip(*paths, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return tuple(shared)


# Braces


def _expand_braces(pattern: str) -> list[str]:
    """All patterns that one with braces stands for."""
    done, todo = list[str](), [pattern]
    while todo:
        way = todo.pop()
        if (pieces := _split_first_braces(way)) is None:
            done.append(way)
        else:
            before, choices, after = pieces
            todo += [f"{before}{choice}{after}" for choice in reversed(choices)]
        if (
            len(todo) + len(done) > MAX_EXPANDED_PATTERNS
            or sum(map(len, todo)) + sum(map(len, done)) > MAX_EXPANDED_LENGTH
        ):
            raise InvalidArguments(f"The braces in '{escape_line(pattern, 200)}' stand for too many patterns.")
    return done


def _split_first_braces(pattern: str) -> tuple[str, list[str], str] | None:
    """What stands before the first braces, the choices in them, and what stands behind."""
    depth, start, cuts = 0, 0, list[int]()
    for at, letter in _unescaped_characters(pattern):
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


def _unescaped_characters(pattern: str) -> Iterator[tuple[int, str]]:
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


def path_regex(segments: list[str], *, match_hidden: bool = False) -> str:
    """What matches a whole path. Groups that are never entered again keep it from trying the same thing twice."""
    visible = "" if match_hidden else _NOT_HIDDEN_REGEX
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            runs.append([])
        else:
            runs[-1].append(segment_regex(segment, match_hidden=match_hidden))
    any_folders = f"(?:{visible}[^/]+/)*"
    first, *others = runs
    regex = "".join(f"{segment}/" for segment in first) if others else "/".join(first)
    for run in others[:-1]:
        regex += f"(?>{any_folders}?{''.join(f'{segment}/' for segment in run)})"
    if others:
        regex += any_folders + ("/".join(others[-1]) if others[-1] else f"{visible}[^/]+")
    return regex


def segment_regex(segment: str, *, match_hidden: bool = False) -> str:
    """What matches one name."""
    pieces = _split_at_stars(segment)
    visible = "" if match_hidden or segment.startswith((".", "\\.")) else _NOT_HIDDEN_REGEX
    if len(pieces) == 1:
        return visible + pieces[0]
    middle = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1] if piece)
    return (
        f"{visible}{pieces[0]}{middle}(?>[^/]*)" if not pieces[-1] else f"{visible}{pieces[0]}{middle}[^/]*{pieces[-1]}"
    )


def _split_at_stars(segment: str) -> list[str]:
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
            pieces[-1] += _character_class(segment[at : end - 1], segment)
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


def _character_class(inside: str, segment: str) -> str:
    negated = inside[:1] in ("!", "^")
    letters = re.findall(r"\\.|.", inside[negated:], re.DOTALL)
    ranges, at = "", 0
    while at < len(letters):
        first, last = letters[at], None
        if at + 2 < len(letters) and letters[at + 1] == "-":
            last = letters[at + 2]
        ranges += (
            _escape_class_letter(first)
            if last is None
            else f"{_escape_class_letter(first)}-{_escape_class_letter(last)}"
        )
        if last is not None and first[-1] > last[-1]:
            raise InvalidArguments(f"'{first}-{last}' in '{escape_line(segment, 200)}' is no range: it runs backwards.")
        at += 1 if last is None else 3
    return f"(?!/)[{'^' if negated else ''}{ranges}]"


def _escape_class_letter(letter: str) -> str:
    plain = letter[-1]
    return f"\\{plain}" if plain in _ESCAPED_IN_CLASS else plain
