"""Walks and searches files in this process: the fallback without ripgrep, and the search of a single file.

The walk opens each directory relative to its parent's descriptor and never follows a link.
"""

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

# No links, and no waiting: opening a FIFO without O_NONBLOCK waits for a writer.
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OUT_OF_DESCRIPTORS = (errno.ENFILE, errno.EMFILE)
_READ_BYTES = 1 << 16
_MAX_MATCH_LINES = 10
"""Lines that are shown of a match over several lines."""
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class WalkedFile:
    """A file found by the walk."""

    directory_descriptor: int
    """The open directory; valid only until the walk moves on."""
    path: str
    """Relative to the workspace root."""
    entry: os.DirEntry[str]
    is_excluded: bool

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the path."""
        return tuple(self.path.split("/"))

    def modified_ns(self) -> int | None:
        """When the file was changed, in nanoseconds; None if it no longer exists."""
        try:
            return self.entry.stat(follow_symlinks=False).st_mtime_ns
        except OSError:
            return None


def walk_files(scope: SearchScope) -> Iterator[WalkedFile]:
    """Every regular file of a scope, sorted by name within each directory."""
    if scope.is_empty:
        return
    base_parts = scope.base_path.parts
    with scope.base_path.open_context(os.O_RDONLY | os.O_DIRECTORY) as directory:
        rules = IgnoreRules.above(scope.base_path)
        yield from _walk_directory(scope, directory, base_parts, rules, scope.is_excluded(base_parts))


def _walk_directory(
    scope: SearchScope, directory: int, parts: tuple[str, ...], rules: IgnoreRules, is_excluded: bool
) -> Iterator[WalkedFile]:
    rules = rules.for_directory(directory, len(parts))
    base_depth = len(scope.base_path.parts)
    subdirectories: list[str] = []
    include_hidden = scope.glob.matches_hidden
    glob = None if scope.glob.matches_everything and not include_hidden else scope.glob
    prefix = "".join(f"{part}/" for part in parts)
    prefix_below_base = "".join(f"{part}/" for part in parts[base_depth:])
    for entry in _sorted_entries(directory):
        scope.raise_if_cancelled()
        name = entry.name
        if name.startswith(".") and not include_hidden:
            continue
        if entry.is_dir(follow_symlinks=False):
            if not rules.ignores(parts, name, True):
                subdirectories.append(name)
        elif not entry.is_file(follow_symlinks=False) or (glob is not None and not glob(prefix_below_base + name)):
            continue
        elif not rules.ignores(parts, name, False):
            yield WalkedFile(directory, prefix + name, entry, is_excluded or scope.is_excluded((name,)))
    if len(parts) - base_depth >= MAX_DEPTH:
        return
    for name in subdirectories:
        child = _open_or_none(name, directory, os.O_DIRECTORY)
        if child is None:
            continue
        try:
            child_is_excluded = is_excluded or scope.is_excluded((name,))
            yield from _walk_directory(scope, child, (*parts, name), rules, child_is_excluded)
        finally:
            os.close(child)


def _sorted_entries(directory: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as iterator:
            return sorted(iterator, key=lambda entry: entry.name)
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        return []


def _open_or_none(name: str, directory: int, flags: int = 0) -> int | None:
    """A descriptor, or None for an entry that was deleted or may not be read."""
    try:
        return os.open(name, _OPEN_FLAGS | flags, dir_fd=directory)
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        return None


def _raise_if_out_of_descriptors(error: OSError) -> None:
    if error.errno in _OUT_OF_DESCRIPTORS:
        raise Unavailable("The search had to stop: too many files are open. Try again.") from None


def search(scope: SearchScope, pattern: SearchPattern, result_format: ResultFormat) -> SearchResults:
    """Search the files of a scope."""
    matcher = pattern.build_matcher(scope.is_cancelled)
    results = SearchResults()
    for file in walk_files(scope):
        if file.is_excluded or scope.is_private(file.parts):
            results.skipped_sensitive += 1
            continue
        descriptor = _open_or_none(file.entry.name, file.directory_descriptor)
        if descriptor is None:
            continue
        try:
            search_file(results, file.parts, descriptor, matcher, pattern, result_format)
        finally:
            os.close(descriptor)
        if results.truncated:
            break
    results.sort_by_path()
    results.slow_lines = matcher.slow_lines
    return results


def search_file(
    results: SearchResults,
    parts: tuple[str, ...],
    descriptor: int,
    matcher: TextMatcher,
    pattern: SearchPattern,
    result_format: ResultFormat,
) -> bool:
    """Search one open file and add its matches to the results; False if it is not text."""
    results.searched_files += 1
    data = read_text(descriptor)
    if data is None:
        return False
    ranges = _matches_across_lines(data, matcher) if pattern.crosses_lines else _matches_by_line(data, matcher)
    match result_format.mode:
        case "content":
            found = list(islice(ranges, result_format.limit - results.match_count + 1))
            file = FileMatches(parts, len(found), _result_lines(data, found, result_format.context_lines))
        case "count":
            file = FileMatches(parts, sum(1 for _ in ranges))
        case "files":
            file = FileMatches(parts, sum(1 for _ in islice(ranges, 1)))
    if file.match_count:
        results.add(file, result_format)
    return True


# One file: its text, the matches, and the lines around them


def read_text(descriptor: int) -> bytes | None:
    """A file's text as UTF-8 with `\\n` line ends; None for a binary, irregular or too large file."""
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
    """The whole content of an open file; one that keeps growing is read up to `MAX_FILE_BYTES`."""
    data = os.read(descriptor, size + 1)
    while len(data) <= MAX_FILE_BYTES and (more := os.read(descriptor, _READ_BYTES)):
        data += more
    return data


def normalize_to_utf8(data: bytes) -> bytes:
    """The text as UTF-8 without its byte order mark."""
    for mark, codec in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            data = data[len(mark) :]
            return data if codec == "utf-8" else data.decode(codec, "replace").encode()
    return data


def _matches_by_line(data: bytes, matcher: TextMatcher) -> Iterator[tuple[int, int]]:
    """The first match of each matching line."""
    if b"\r" in data:
        yield from _matches_between_carriage_returns(data, matcher)
        return
    position = 0
    last_start = len(data) - data.endswith(b"\n")  # no line begins after the final newline
    while position < len(data):
        match = matcher.find(data, position)
        if match is None or match[0] > last_start:
            return
        yield match
        position = _line_end(data, match[0]) + 1


def _matches_between_carriage_returns(data: bytes, matcher: TextMatcher) -> Iterator[tuple[int, int]]:
    """The first match of each line, for data with lone carriage returns, which no match may cross."""
    position = 0
    line_end = _line_end(data, 0)
    in_line = False
    while position < len(data) or in_line:  # after a final carriage return there is one more, empty piece
        carriage_return = data.find(b"\r", position, line_end)
        piece_end = line_end if carriage_return < 0 else carriage_return
        match = matcher.find(data[position:piece_end])
        if match is not None:
            yield position + match[0], position + match[1]
        in_line = match is None and carriage_return >= 0
        if in_line:
            position = carriage_return + 1
        else:
            position = line_end + 1
            line_end = _line_end(data, position)


def _matches_across_lines(data: bytes, matcher: TextMatcher) -> Iterator[tuple[int, int]]:
    position = 0
    last_start = len(data) - data.endswith(b"\n")
    while position < len(data):
        match = matcher.find(data, position)
        if match is None or match[0] > last_start:
            return
        yield match
        position = max(match[1], match[0] + 1)


def _result_lines(data: bytes, match_ranges: list[tuple[int, int]], context_lines: int) -> list[ResultLine]:
    """The lines with matches and their context lines, each line once."""
    lines: list[ResultLine] = []
    number = 1
    counted_to = 0
    last_shown = 0
    for index, (match_start, match_end) in enumerate(match_ranges):
        start = data.rfind(b"\n", 0, match_start) + 1
        number += data.count(b"\n", counted_to, start)
        counted_to = start
        lines += _lines_before(data, start, number, min(context_lines, number - last_shown - 1))
        line = data[start : _line_end(data, start)]
        matched = data[match_start : min(match_end, match_start + EXCERPT_REACH_BYTES)]
        lines.append(match_line(number, line, match_start - start, matched))
        has_next = index + 1 < len(match_ranges)
        next_start = match_ranges[index + 1][0] if has_next else len(data) + 1
        further_lines = min(data.count(b"\n", match_start, match_end), _MAX_MATCH_LINES)
        after = _lines_after(data, match_start, number, further_lines + context_lines, next_start)
        lines += after
        last_shown = after[-1].line_number if after else number
    return lines


def _line_end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _lines_before(data: bytes, start: int, line_number: int, count: int) -> list[ResultLine]:
    lines: list[ResultLine] = []
    while count > 0 and start > 0:
        end = start - 1
        start = data.rfind(b"\n", 0, end) + 1
        line_number -= 1
        count -= 1
        lines.append(context_line(line_number, data[start:end]))
    return lines[::-1]


def _lines_after(
    data: bytes, match_start: int, line_number: int, count: int, next_match_start: int
) -> list[ResultLine]:
    """The lines after a match's first line, up to the line of the next match."""
    lines: list[ResultLine] = []
    start = _line_end(data, match_start) + 1
    while count > 0 and start < len(data):
        end = _line_end(data, start)
        if end >= next_match_start:
            break
        line_number += 1
        count -= 1
        lines.append(context_line(line_number, data[start:end]))
        start = end + 1
    return lines
