"""Globs with `*`, `?`, `[a-z]`, `{a,b}` and `**`, matched in at most pattern length times path length steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from surehand.core.errors import Denied, InvalidArguments
from surehand.core.sanitize import escape_line

MAX_EXPANDED_PATTERNS = 256
"""Patterns that the braces of one pattern may expand to."""
MAX_EXPANDED_LENGTH = 20_000
"""Characters of all expanded patterns together."""
_NOT_HIDDEN_REGEX = r"(?!\.)"
_SIMPLE_NAME_GLOB = re.compile(r"[A-Za-z0-9_.*?@+=~-]+")
_GLOB_CHARACTERS = frozenset("*?[]{}\\")
_ESCAPED_IN_CLASS = frozenset("\\]^-[&~|")


class GlobPattern:
    """A pattern for paths below a directory. A pattern without a slash matches names in any directory.

    A name that begins with a dot is matched only by a pattern that has the dot.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._expansions = [_split_segments(expansion) for expansion in _expand_braces(pattern)]
        self.base_parts = _common_prefix([_literal_directories(segments) for segments in self._expansions])
        """The directories at the start of every expansion; all matches lie below them."""
        below_base = [segments[len(self.base_parts) :] for segments in self._expansions]
        self.matches_hidden = any(name.startswith((".", "\\.")) for segments in below_base for name in segments)
        """Whether the pattern itself has names that begin with a dot."""
        alternatives = "|".join(f"(?:{path_regex(segments)})" for segments in below_base)
        self._match = re.compile(alternatives, re.DOTALL).fullmatch
        self.name_globs = sorted({segments[-1] for segments in below_base})
        """Globs for the last name of a path."""
        selects_all = not {"*", "**"}.isdisjoint(self.name_globs)
        self.has_simple_names = not selects_all and all(map(_SIMPLE_NAME_GLOB.fullmatch, self.name_globs))
        """Whether these globs mean the same to ripgrep, and select some files only."""
        any_directory = all(len(segments) == 2 and segments[0] == "**" for segments in below_base)
        self.is_name_only = self.has_simple_names and not self.matches_hidden and any_directory
        """Whether the last name alone decides."""
        self.matches_everything = any(segments in (["**"], ["**", "*"]) for segments in below_base)
        """Whether every path without a hidden name matches."""

    def __call__(self, path: str) -> bool:
        """Whether a path below `base_parts` matches."""
        return self._match(path) is not None


def _split_segments(pattern: str) -> list[str]:
    """The segments between slashes; `**` stands for any number of directories."""
    segments = [segment for segment in pattern.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise Denied(f"Permission denied: the pattern '{escape_line(pattern, 200)}' contains '..'. Write it without.")
    if pattern.endswith("/"):
        segments.append("**")
    if "/" not in pattern or not segments:
        segments.insert(0, "**")
    return [
        segment
        for segment, previous in zip(segments, ["", *segments], strict=False)
        if not (segment == previous == "**")  # `**/**` means the same as `**`
    ]


def _literal_directories(segments: list[str]) -> list[str]:
    """The directories before the first segment with glob characters."""
    directories: list[str] = []
    for segment in segments[:-1]:
        if _GLOB_CHARACTERS & set(segment):
            break
        directories.append(segment)
    return directories


def _common_prefix(paths: list[list[str]]) -> tuple[str, ...]:
    shared: list[str] = []
    for names in zip(*paths, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return tuple(shared)


# Braces


def _expand_braces(pattern: str) -> list[str]:
    """All patterns without braces that a pattern stands for."""
    expanded: list[str] = []
    pending = [pattern]
    while pending:
        candidate = pending.pop()
        split = _split_first_braces(candidate)
        if split is None:
            expanded.append(candidate)
        else:
            before, choices, after = split
            pending += [f"{before}{choice}{after}" for choice in reversed(choices)]
        length = sum(map(len, pending)) + sum(map(len, expanded))
        if len(pending) + len(expanded) > MAX_EXPANDED_PATTERNS or length > MAX_EXPANDED_LENGTH:
            raise InvalidArguments(f"The braces in '{escape_line(pattern, 200)}' stand for too many patterns.")
    return expanded


def _split_first_braces(pattern: str) -> tuple[str, list[str], str] | None:
    """The text before the first braces, the choices in them, and the text after; None without braces."""
    depth = 0
    start = 0
    commas: list[int] = []
    for position, character in _unescaped_characters(pattern):
        if character == "{":
            depth += 1
            if depth == 1:
                start = position
                commas = []
        elif character == "}" and depth:
            depth -= 1
            if not depth:
                separators = [start, *commas, position]
                choices = [pattern[left + 1 : right] for left, right in pairwise(separators)]
                return pattern[:start], choices, pattern[position + 1 :]
        elif character == "," and depth == 1:
            commas.append(position)
    if depth:
        raise InvalidArguments(
            f"A brace in '{escape_line(pattern, 200)}' is never closed. Write '\\{{' for the letter itself."
        )
    return None


def _unescaped_characters(pattern: str) -> Iterator[tuple[int, str]]:
    """Positions and characters outside escapes and character classes."""
    position = 0
    while position < len(pattern):
        if pattern[position] == "\\":
            position += 2
        elif pattern[position] == "[" and (end := _character_class_end(pattern, position)) > 0:
            position = end
        else:
            yield position, pattern[position]
            position += 1


# Regular expressions


def path_regex(segments: list[str], *, match_hidden: bool = False) -> str:
    """The regular expression for a whole path.

    Atomic groups, `(?>...)`, forbid backtracking into a part that has matched: a hostile pattern would take exponential
    time without them.
    """
    visible = "" if match_hidden else _NOT_HIDDEN_REGEX
    runs: list[list[str]] = [[]]  # the segments between one `**` and the next
    for segment in segments:
        if segment == "**":
            runs.append([])
        else:
            runs[-1].append(segment_regex(segment, match_hidden=match_hidden))
    any_directories = f"(?:{visible}[^/]+/)*"
    first, *others = runs
    if not others:
        return "/".join(first)
    regex = "".join(f"{segment}/" for segment in first)
    for run in others[:-1]:
        regex += f"(?>{any_directories}?{''.join(f'{segment}/' for segment in run)})"
    last = "/".join(others[-1]) if others[-1] else f"{visible}[^/]+"
    return f"{regex}{any_directories}{last}"


def segment_regex(segment: str, *, match_hidden: bool = False) -> str:
    """The regular expression for one name."""
    pieces = _split_at_stars(segment)
    visible = "" if match_hidden or segment.startswith((".", "\\.")) else _NOT_HIDDEN_REGEX
    first, *others = pieces
    if not others:
        return visible + first
    last = others.pop()
    middle = "".join(f"(?>[^/]*?{piece})" for piece in others if piece)
    end = f"[^/]*{last}" if last else "(?>[^/]*)"
    return f"{visible}{first}{middle}{end}"


def _split_at_stars(segment: str) -> list[str]:
    """Regular expressions for the pieces between the stars; each matches text of a fixed length."""
    pieces = [""]
    position = 0
    while position < len(segment):
        character = segment[position]
        position += 1
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[":
            end = _character_class_end(segment, position - 1)
            if end < 0:
                raise InvalidArguments(
                    f"A '[' in '{escape_line(segment, 200)}' is never closed. Write '\\[' for the letter itself."
                )
            pieces[-1] += _character_class(segment[position : end - 1], segment)
            position = end
        elif character == "\\" and position < len(segment):
            pieces[-1] += re.escape(segment[position])
            position += 1
        else:
            pieces[-1] += re.escape(character)
    return pieces


def _character_class_end(pattern: str, start: int) -> int:
    """The position after the bracket that closes a character class; -1 if it is not closed."""
    position = start + 1
    position += pattern[position : position + 1] in ("!", "^")
    position += pattern[position : position + 1] == "]"  # a bracket at the start is a member of the class
    while position < len(pattern) and pattern[position] not in "]/":
        position += 2 if pattern[position] == "\\" else 1
    return position + 1 if pattern[position : position + 1] == "]" else -1


def _character_class(content: str, segment: str) -> str:
    """The regular expression for a character class, which never matches a slash."""
    is_negated = content[:1] in ("!", "^")
    members = re.findall(r"\\.|.", content[is_negated:], re.DOTALL)
    ranges = ""
    index = 0
    while index < len(members):
        first = members[index]
        is_range = index + 2 < len(members) and members[index + 1] == "-"
        ranges += _escape_class_letter(first)
        if is_range:
            last = members[index + 2]
            if first[-1] > last[-1]:
                problem = f"'{first}-{last}' in '{escape_line(segment, 200)}' is no range: it runs backwards."
                raise InvalidArguments(problem)
            ranges += f"-{_escape_class_letter(last)}"
        index += 3 if is_range else 1
    return f"(?!/)[{'^' if is_negated else ''}{ranges}]"


def _escape_class_letter(letter: str) -> str:
    character = letter[-1]  # without the backslash of an escape
    return f"\\{character}" if character in _ESCAPED_IN_CLASS else character
