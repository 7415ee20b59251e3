"""Places: what ripgrep finds. It tells of files, lines and offsets; what is shown is read through descriptors."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from math import inf
from stat import S_ISREG

from surehand.builtin.search import ripgrep
from surehand.builtin.search.python_search import normalize_to_utf8, read_all, search_file
from surehand.builtin.search.results import (
    EXCERPT_REACH_BYTES,
    FileMatches,
    ResultFormat,
    ResultLine,
    SearchResults,
    context_line,
    match_line,
)
from surehand.builtin.search.search_pattern import SearchPattern, TextMatcher, invalid_regex_message
from surehand.builtin.search.search_scope import MAX_DEPTH, MAX_FILE_BYTES, SearchScope
from surehand.core.errors import InvalidArguments, ToolError

_COMMON_OPTIONS = (
    "--no-config", "--no-require-git", "--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global", "--no-messages",
    "--color=never", "--null", f"--max-depth={MAX_DEPTH + 1}",
)  # fmt: skip
_SEARCH_OPTIONS = (
    "--no-mmap",
    "--no-heading",
    "--with-filename",
    f"--max-filesize={MAX_FILE_BYTES}",
    "--regex-size-limit=16M",
)
_LINE_OPTIONS = ("--line-number", "--column", "--byte-offset", "--max-columns=1", "--no-context-separator")
_LIST_AND_SEARCH_SCRIPT = """
pattern=$1 start=$2; shift 2
"$@" --files -- "$start"
printf '\\0'
exec "$@" {options} "--regexp=$pattern" -- "$start"
"""
"""The files are counted first: how many there are, and how many are left out, must not hang on what they hold."""
_LISTING_SILENCE_SECONDS = 5.0
"""Seconds without a file while they are listed."""
_BINARY_NOTICE = re.compile(rb"(?s).* byte around offset \d+\)\r?\n")
_COUNT_RECORD = re.compile(rb"(?s)([^\0]*)\0(\d+)\r?\n")
_MATCH_RECORD = re.compile(rb"(\d+):(?:(\d+):)?(\d+):")
_CONTEXT_RECORD = re.compile(rb"(\d+)-(\d+)-")


def _base_command(scope: SearchScope) -> list[str]:
    """Options say which names are looked at. They leave out too little, and the scope the rest."""
    glob = scope.glob
    words = [ripgrep.find_program() or "", *_COMMON_OPTIONS, *(["--hidden"] if glob.matches_hidden else [])]
    if glob.has_simple_names:
        words += [f"--type-add=wanted:{name}" for name in glob.name_globs] + ["--type=wanted"]
    return words


def _start_argument(scope: SearchScope) -> str:
    return "./" + "/".join(scope.base_path.parts)


# Listing


def list_paths(scope: SearchScope) -> Generator[list[str]]:
    """The files of a scope by their paths from the root, the latest first, many at a time."""
    with closing(
        ripgrep.read_output(
            scope,
            [*_base_command(scope), "--files", "--sortr=modified", "--", _start_argument(scope)],
            lambda: 4 * _LISTING_SILENCE_SECONDS,
        )
    ) as chunks:
        rest = b""
        for chunk in chunks:
            whole, nul, rest = (rest + chunk).rpartition(b"\0")
            if nul:
                yield _parse_paths(scope, whole)


def _parse_paths(scope: SearchScope, listing: bytes) -> list[str]:
    return scope.select_matching(
        [path[2:] for path in os.fsdecode(listing).split("\0") if path]
    )  # each begins with "./"


class _FileCounter:
    """Counts the files of a scope, from the beginning of an output, and gives the rest of it."""

    def __init__(self, scope: SearchScope) -> None:
        self._scope, self._find_excluded = scope, scope.excluded_path_finder()
        self.file_count = self.excluded_count = 0
        self.listing_ended = False

    def consume_listing(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Paths end in NUL, and an empty one ends the list."""
        rest = b""
        while not self.listing_ended and (chunk := next(chunks, b"")):
            rest += chunk
            self.listing_ended = rest.startswith(b"\0")
            if not self.listing_ended:
                whole, self.listing_ended, rest = _split_listing(rest)
                self._count(_parse_paths(self._scope, whole))
            if self.listing_ended:
                yield rest.removeprefix(b"\0")
        yield from chunks
        if not self.listing_ended:
            raise ripgrep.RipgrepUnavailable("ripgrep ended before it had begun.")

    def _count(self, paths: list[str]) -> None:
        self.file_count += len(paths)
        self.excluded_count += len(self._find_excluded(paths))


def _split_listing(listing: bytes) -> tuple[bytes, bool, bytes]:
    """The whole paths; whether they are all; and what comes after them."""
    end = listing.find(b"\0\0")
    if end >= 0:
        return listing[:end], True, listing[end + 1 :]
    whole, _, rest = listing.rpartition(b"\0")
    return whole, False, rest


# Searching


def search(scope: SearchScope, pattern: SearchPattern, result_format: ResultFormat) -> SearchResults:
    """Look for something in the files of a scope; raises `ripgrep.NotRun` where that cannot be done so."""
    found, census = SearchResults(), _FileCounter(scope)
    try:
        with closing(_search_files(scope, pattern, census, result_format)) as files:
            for file in files:
                found.add(file, result_format)
                if found.truncated:
                    break
    except InvalidArguments as error:
        raise InvalidArguments(invalid_regex_message(pattern.source, _error_reason(str(error)))) from None
    found.sort_by_path()
    found.searched_files, found.skipped_sensitive = census.file_count - census.excluded_count, census.excluded_count
    return found


def _error_reason(stderr_text: str) -> str:
    """The one line of a complaint that says what is wrong."""
    lines = [text.strip() for text in stderr_text.splitlines() if text.strip()]
    errors = [text.removeprefix("error: ") for text in lines if text.startswith("error: ")]
    return (errors[-1] if errors else lines[0].removeprefix("rg: ")).rstrip(".")


def _run_search(
    scope: SearchScope, pattern: SearchPattern, counter: _FileCounter, options: Iterable[str]
) -> Generator[bytes]:
    script = _LIST_AND_SEARCH_SCRIPT.format(options=" ".join((*_SEARCH_OPTIONS, *options, *pattern.ripgrep_options)))
    words = ["/bin/sh", "-c", script, "sh", pattern.ripgrep_pattern, _start_argument(scope), *_base_command(scope)]
    with closing(
        ripgrep.read_output(scope, words, lambda: inf if counter.listing_ended else _LISTING_SILENCE_SECONDS)
    ) as chunks:
        yield from counter.consume_listing(chunks)


def _search_files(
    scope: SearchScope, pattern: SearchPattern, counter: _FileCounter, result_format: ResultFormat
) -> Generator[FileMatches]:
    if pattern.crosses_lines:
        yield from _search_across_lines(scope, pattern, counter, result_format)
    elif result_format.mode == "content":
        matcher = _matcher_or_none(scope, pattern)
        for parts, places in _line_locations(scope, pattern, counter, result_format):
            if (file := _read_matches(scope, parts, places, matcher)) is not None:
                yield file
    else:
        for parts, count in _match_counts(scope, pattern, counter):
            yield FileMatches(parts, count if result_format.mode == "count" else 1)


def _wanted_parts(scope: SearchScope, path: bytes) -> tuple[str, ...] | None:
    parts = tuple(os.fsdecode(path[2:]).split("/"))
    return parts if scope.matches(parts) and not scope.is_excluded(parts) else None


def _match_counts(
    scope: SearchScope, pattern: SearchPattern, counter: _FileCounter
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each file with its number of matching lines; what is binary anywhere is no text, and does not appear."""
    with closing(_run_search(scope, pattern, counter, ["--count"])) as chunks:
        rest = b""
        for chunk in chunks:
            rest, at = rest + chunk, 0
            while (told := _COUNT_RECORD.match(rest, at)) is not None:
                at = told.end()
                if (parts := _wanted_parts(scope, told[1])) is not None:
                    yield parts, int(told[2])
            rest = rest[at:]


def _search_across_lines(
    scope: SearchScope, pattern: SearchPattern, counter: _FileCounter, result_format: ResultFormat
) -> Iterator[FileMatches]:
    """Matches over several lines: ripgrep says in which files, and they are looked for there again."""
    matcher = pattern.build_matcher(scope.is_cancelled)
    for parts, _ in _match_counts(scope, pattern, counter):
        inside = SearchResults()
        with suppress(ToolError), scope.resolve(parts).open_context() as descriptor:  # it may be gone, or a link by now
            search_file(
                inside, parts, descriptor, matcher, pattern, replace(result_format, limit=result_format.limit + 1)
            )
        yield from inside.files


def _matcher_or_none(scope: SearchScope, pattern: SearchPattern) -> TextMatcher | None:
    """Says where a match ends, which ripgrep does not; None where there is none here."""
    try:
        return pattern.build_matcher(scope.is_cancelled)
    except ToolError:
        return None


# Lines


@dataclass(frozen=True, slots=True)
class _LineLocation:
    """A line of a file."""

    line_number: int
    offset: int
    column: int | None = None
    """Where the match begins in it; -1 for an empty one at the end of the file; None for a line around one."""


def _line_locations(
    scope: SearchScope, pattern: SearchPattern, counter: _FileCounter, result_format: ResultFormat
) -> Iterator[tuple[tuple[str, ...], list[_LineLocation]]]:
    """Each file with its matching lines; a file that turns out to be binary is left out."""
    current, places = b"", list[_LineLocation]()
    options = [*_LINE_OPTIONS, f"--max-count={result_format.limit + 1}", f"--context={result_format.context_lines}"]
    with closing(_run_search(scope, pattern, counter, options)) as chunks:
        for path, where in _parse_records(chunks):
            if (binary := _BINARY_NOTICE.match(path)) is not None:
                path, places = path[binary.end() :], []
            if path != current:
                if places and (parts := _wanted_parts(scope, current)) is not None:
                    yield parts, places
                current, places = path, []
            places += _parse_location(where)


def _parse_location(record: bytes) -> Iterator[_LineLocation]:
    if (match := _MATCH_RECORD.match(record)) is not None:
        yield _LineLocation(int(match[1]), int(match[3]), int(match[2] or 0) - 1)
    elif (near := _CONTEXT_RECORD.match(record)) is not None:
        yield _LineLocation(int(near[1]), int(near[2]))


def _parse_records(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Pairs of a path and of where in the file; and at the end what is left, which is no pair."""
    rest = b""
    for chunk in chunks:
        rest, at = rest + chunk, 0
        while (nul := rest.find(b"\0", at)) >= 0 and (end := rest.find(b"\n", nul)) >= 0:
            yield rest[at:nul], rest[nul + 1 : end]
            at = end + 1
        rest = rest[at:]
    yield rest, b""


def _read_matches(
    scope: SearchScope, parts: tuple[str, ...], locations: list[_LineLocation], matcher: TextMatcher | None
) -> FileMatches | None:
    """The lines themselves, read through a descriptor; None if the file is gone, or not what it was."""
    try:
        with scope.resolve(parts).open_context() as descriptor:
            if not S_ISREG(os.fstat(descriptor).st_mode):
                return None
            text = _FileText(descriptor)
            lines = [_read_line(text, place, matcher) for place in locations]
    except ToolError:
        return None
    return FileMatches(parts, sum(line.matched_text is not None for line in lines), lines)


class _FileText:
    """Pieces of a file's text, by offsets into it as UTF-8."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        head = os.pread(descriptor, 4, 0)
        self._content = None if normalize_to_utf8(head) == head else normalize_to_utf8(read_all(descriptor))

    def read(self, start: int, length: int) -> bytes:
        if self._content is None:
            return os.pread(self._descriptor, length, start)
        return self._content[start : start + length]


def _read_line(text: _FileText, location: _LineLocation, matcher: TextMatcher | None) -> ResultLine:
    at = location.offset + max(location.column or 0, 0)
    low = max(location.offset, at - 2 * EXCERPT_REACH_BYTES)
    length = at - low + 2 * EXCERPT_REACH_BYTES
    window = text.read(low, length)
    end = window.find(b"\n", at - low)
    to_end = end >= 0 or len(window) < length
    window = window[:end].removesuffix(b"\r") if end >= 0 else window
    if location.column is None:
        return context_line(location.line_number, window, has_line_end=to_end)
    if location.column < 0:
        return match_line(location.line_number, window, len(window), b"", has_line_end=to_end)
    match = _matched_bytes(window, at - low, matcher)
    return match_line(
        location.line_number, window, at - low, match, has_line_start=low == location.offset, has_line_end=to_end
    )


def _matched_bytes(window: bytes, match_start: int, matcher: TextMatcher | None) -> bytes:
    """The match itself; and where no matcher here sees one, all from where it begins."""
    window = window[:end] if (end := window.find(b"\r", match_start)) >= 0 else window  # no match goes over one
    span = matcher.find(window, match_start) if matcher is not None else None
    return window[match_start : span[1] if span is not None and span[0] == match_start else len(window)]
