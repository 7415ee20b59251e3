"""Walker: a search of this process's own, from one folder's descriptor to the next. Links are never followed."""

from __future__ import annotations

import codecs
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from stat import S_ISREG

from surehand.builtin.search.gitignore import IgnoreRules
from surehand.builtin.search.results import (
    EXCERPT_REACH_BYTES,
    FileMatches,
    ResultFormat,
    ResultLine,
    SearchResults,
    context_line,
    match_line,
)
from surehand.builtin.search.search_pattern import SearchPattern, TextMatcher
from surehand.builtin.search.search_scope import MAX_DEPTH, MAX_FILE_BYTES, SearchScope
from surehand.core.errors import Unavailable

_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OUT_OF_DESCRIPTORS = (errno.ENFILE, errno.EMFILE)
_READ_BYTES = 1 << 16
_MAX_MATCH_LINES = 10
"""Lines of one match that are shown."""
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class WalkedFile:
    """A file that was come across."""

    directory_descriptor: int
    """The open folder; only while the walk stands still here."""
    path: str
    """From the root."""
    entry: os.DirEntry[str]
    is_excluded: bool

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))

    def modified_ns(self) -> int | None:
        """In nanoseconds; None if it is gone."""
        try:
            return self.entry.stat(follow_symlinks=False).st_mtime_ns
        except OSError:
            return None


def walk_files(scope: SearchScope) -> Iterator[WalkedFile]:
    """Every regular file of a scope, by name, folder by folder."""
    if scope.is_empty:
        return
    with scope.base_path.open_context(os.O_RDONLY | os.O_DIRECTORY) as folder:
        rules = _parent_ignore_rules(scope)
        yield from _walk_directory(
            scope, folder, scope.base_path.parts, rules, scope.is_excluded(scope.base_path.parts)
        )


def _parent_ignore_rules(scope: SearchScope) -> IgnoreRules:
    """What the folders around the first one leave out."""
    rules, spot = IgnoreRules(), scope.base_path
    for depth in range(len(spot.parts)):
        outer = type(spot)(spot.workspace, spot.root, spot.parts[:depth])
        with outer.open_context(os.O_RDONLY | os.O_DIRECTORY) as folder:
            rules = rules.for_directory(folder, depth)
    return rules


def _walk_directory(
    scope: SearchScope, directory: int, parts: tuple[str, ...], rules: IgnoreRules, is_excluded: bool
) -> Iterator[WalkedFile]:
    rules = rules.for_directory(directory, len(parts))
    folders: list[str] = []
    hidden, ignores = scope.glob.matches_hidden, rules.ignores
    fits = None if scope.glob.matches_everything and not hidden else scope.glob
    path, below = ("".join(f"{part}/" for part in some) for some in (parts, parts[len(scope.base_path.parts) :]))
    for entry in _sorted_entries(directory):
        scope.raise_if_cancelled()
        name = entry.name
        if name.startswith(".") and not hidden:
            continue
        if entry.is_dir(follow_symlinks=False):
            if not ignores(parts, name, True):
                folders.append(name)
        elif not entry.is_file(follow_symlinks=False) or (fits is not None and not fits(below + name)):
            continue
        elif not ignores(parts, name, False):
            yield WalkedFile(directory, path + name, entry, is_excluded or scope.is_excluded((name,)))
    if len(parts) - len(scope.base_path.parts) >= MAX_DEPTH:
        return
    for name in folders:
        if (inner := _open_or_none(name, directory, os.O_DIRECTORY)) is not None:
            try:
                yield from _walk_directory(
                    scope, inner, (*parts, name), rules, is_excluded or scope.is_excluded((name,))
                )
            finally:
                os.close(inner)


def _sorted_entries(directory: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        return []


def _open_or_none(name: str, directory: int, flags: int = 0) -> int | None:
    """None for what is gone, or may not be read."""
    try:
        return os.open(name, _OPEN_FLAGS | flags, dir_fd=directory)
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        return None


def _raise_if_out_of_descriptors(error: OSError) -> None:
    if error.errno in _OUT_OF_DESCRIPTORS:
        raise Unavailable("The search had to stop: too many files are open. Try again.") from None


def search(scope: SearchScope, pattern: SearchPattern, result_format: ResultFormat) -> SearchResults:
    """Look for something in the files of a scope."""
    matcher, found = pattern.build_matcher(scope.is_cancelled), SearchResults()
    for file in walk_files(scope):
        if file.is_excluded or scope.is_private(file.parts):
            found.skipped_sensitive += 1
            continue
        if (descriptor := _open_or_none(file.entry.name, file.directory_descriptor)) is None:
            continue
        try:
            search_file(found, file.parts, descriptor, matcher, pattern, result_format)
        finally:
            os.close(descriptor)
        if found.truncated:
            break
    found.sort_by_path()
    found.slow_lines = matcher.slow_lines
    return found


def search_file(
    results: SearchResults,
    parts: tuple[str, ...],
    descriptor: int,
    matcher: TextMatcher,
    pattern: SearchPattern,
    result_format: ResultFormat,
) -> bool:
    """Look for something in one open file; False if it is no text."""
    results.searched_files += 1
    if (data := read_text(descriptor)) is None:
        return False
    spans = _matches_across_lines(data, matcher) if pattern.crosses_lines else _matches_by_line(data, matcher)
    if result_format.mode == "content":
        some = list(islice(spans, result_format.limit - results.match_count + 1))
        file = FileMatches(parts, len(some), _result_lines(data, some, result_format.context_lines))
    else:
        file = FileMatches(parts, sum(1 for _ in (spans if result_format.mode == "count" else islice(spans, 1))))
    if file.match_count:
        results.add(file, result_format)
    return True


# One file


def read_text(descriptor: int) -> bytes | None:
    """A file's text in UTF-8, its lines ending in `\\n`; None for a file that is too large, binary or none at all."""
    try:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        data = normalize_to_utf8(read_all(descriptor, status.st_size))
    except OSError:
        return None
    if b"\0" in data:
        return None
    return data.replace(b"\r\n", b"\n") if b"\r\n" in data else data


def read_all(descriptor: int, size: int = 0) -> bytes:
    """What an open file holds; it may grow while it is read, but not without end."""
    data = os.read(descriptor, size + 1)
    while len(data) <= MAX_FILE_BYTES and (more := os.read(descriptor, _READ_BYTES)):
        data += more
    return data


def normalize_to_utf8(data: bytes) -> bytes:
    """In UTF-8 and without the mark that a file may begin with, which says how it is encoded."""
    for mark, codec in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            data = data[len(mark) :]
            return data if codec == "utf-8" else data.decode(codec, "replace").encode()
    return data


def _matches_by_line(data: bytes, matcher: TextMatcher) -> Iterator[tuple[int, int]]:
    """The first match of every line that has one."""
    if b"\r" in data:
        yield from _matches_between_carriage_returns(data, matcher)
        return
    at, last = 0, len(data) - data.endswith(b"\n")  # behind the last line's end there is no line
    while at < len(data) and (span := matcher.find(data, at)) is not None and span[0] <= last:
        yield span
        at = _line_end(data, span[0]) + 1


def _matches_between_carriage_returns(data: bytes, matcher: TextMatcher) -> Iterator[tuple[int, int]]:
    """The same where there are carriage returns without a newline: no match goes over one."""
    at, end, within = 0, _line_end(data, 0), False
    while at < len(data) or within:  # behind a last carriage return there is an empty piece
        cut = data.find(b"\r", at, end)
        span = matcher.find(data[at : end if cut < 0 else cut])
        if span is not None:
            yield at + span[0], at + span[1]
        within = span is None and cut >= 0
        at, end = (cut + 1, end) if within else (end + 1, _line_end(data, end + 1))


def _matches_across_lines(data: bytes, matcher: TextMatcher) -> Iterator[tuple[int, int]]:
    at, last = 0, len(data) - data.endswith(b"\n")
    while at < len(data) and (span := matcher.find(data, at)) is not None and span[0] <= last:
        yield span
        at = max(span[1], span[0] + 1)


def _result_lines(data: bytes, match_ranges: list[tuple[int, int]], context_lines: int) -> list[ResultLine]:
    """The lines with matches, and those around them; each line once."""
    lines, number, counted, shown = list[ResultLine](), 1, 0, 0
    for place, (at, end) in enumerate(match_ranges):
        start = data.rfind(b"\n", 0, at) + 1
        number, counted = number + data.count(b"\n", counted, start), start
        stop = _line_end(data, start)
        lines += _lines_before(data, start, number, min(context_lines, number - shown - 1))
        lines.append(match_line(number, data[start:stop], at - start, data[at : min(end, at + EXCERPT_REACH_BYTES)]))
        following = match_ranges[place + 1][0] if place + 1 < len(match_ranges) else len(data) + 1
        more = min(data.count(b"\n", at, end), _MAX_MATCH_LINES)  # a match may go on in the next lines
        after = _lines_after(data, at, number, more + context_lines, following)
        lines += after
        shown = after[-1].line_number if after else number
    return lines


def _line_end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _lines_before(data: bytes, start: int, line_number: int, count: int) -> list[ResultLine]:
    lines: list[ResultLine] = []
    while count > 0 and start > 0:
        end = start - 1
        start = data.rfind(b"\n", 0, end) + 1
        line_number, count = line_number - 1, count - 1
        lines.append(context_line(line_number, data[start:end]))
    return lines[::-1]


def _lines_after(
    data: bytes, match_start: int, line_number: int, count: int, next_match_start: int
) -> list[ResultLine]:
    """Lines behind a match, up to the one with the next match."""
    lines: list[ResultLine] = []
    start = _line_end(data, match_start) + 1
    while count > 0 and start < len(data) and (end := _line_end(data, start)) < next_match_start:
        line_number, count = line_number + 1, count - 1
        lines.append(context_line(line_number, data[start:end]))
        start = end + 1
    return lines
