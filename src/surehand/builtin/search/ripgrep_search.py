"""Lists and searches files with ripgrep.

ripgrep reports paths, line numbers and offsets; the lines themselves are read through the workspace, so that a link
that appears meanwhile cannot leak a file.
"""

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
from surehand.builtin.search.search_pattern import SearchPattern, TextMatcher, invalid_regex_error
from surehand.builtin.search.search_scope import MAX_DEPTH, MAX_FILE_BYTES, SearchScope
from surehand.core.errors import InvalidArguments, ToolError

# No configuration and no ignore files but `.gitignore`, as in the search in this process. NUL ends a path: it may hold
# line breaks.
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
"""Lists all files before the search: the numbers of searched and skipped files must not depend on the matches."""
_LISTING_SILENCE_SECONDS = 5.0
"""Time without output after which listing files counts as blocked."""
_BINARY_NOTICE = re.compile(rb"(?s).* byte around offset \d+\)\r?\n")
_COUNT_RECORD = re.compile(rb"(?s)([^\0]*)\0(\d+)\r?\n")
_MATCH_RECORD = re.compile(rb"(\d+):(?:(\d+):)?(\d+):")
_CONTEXT_RECORD = re.compile(rb"(\d+)-(\d+)-")


def _base_command(scope: SearchScope) -> list[str]:
    """ripgrep with options that select names roughly; `scope.select_matching` then selects exactly."""
    glob = scope.glob
    command = [ripgrep.find_program() or "", *_COMMON_OPTIONS]
    if glob.matches_hidden:
        command.append("--hidden")
    if glob.has_simple_names:
        command += [f"--type-add=wanted:{name}" for name in glob.name_globs]
        command.append("--type=wanted")
    return command


def _start_argument(scope: SearchScope) -> str:
    return "./" + "/".join(scope.base_path.parts)


# Listing


def list_paths(scope: SearchScope) -> Generator[list[str]]:
    """The files of a scope, relative to the workspace root, newest first, in batches."""
    command = [*_base_command(scope), "--files", "--sortr=modified", "--", _start_argument(scope)]
    # ripgrep prints nothing before it has sorted all files, so it may stay silent for longer.
    with closing(ripgrep.read_output(scope, command, lambda: 4 * _LISTING_SILENCE_SECONDS)) as chunks:
        rest = b""
        for chunk in chunks:
            listing, nul, rest = (rest + chunk).rpartition(b"\0")
            if nul:
                yield _parse_paths(scope, listing)


def _parse_paths(scope: SearchScope, listing: bytes) -> list[str]:
    paths = [path[2:] for path in os.fsdecode(listing).split("\0") if path]  # each begins with "./"
    return scope.select_matching(paths)


class _FileCounter:
    """Counts the files of the listing at the start of ripgrep's output, and passes on the rest."""

    def __init__(self, scope: SearchScope) -> None:
        self._scope = scope
        self._find_excluded = scope.excluded_path_finder()
        self.file_count = 0
        self.excluded_count = 0
        self.listing_ended = False

    def consume_listing(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Count the listed files and yield the output after the listing, which an empty path ends."""
        rest = b""
        while not self.listing_ended and (chunk := next(chunks, b"")):
            rest += chunk
            self.listing_ended = rest.startswith(b"\0")
            if not self.listing_ended:
                listing, self.listing_ended, rest = _split_listing(rest)
                self._count(_parse_paths(self._scope, listing))
            if self.listing_ended:
                yield rest.removeprefix(b"\0")
        yield from chunks
        if not self.listing_ended:
            raise ripgrep.RipgrepUnavailable("ripgrep ended before it had listed the files.")

    def _count(self, paths: list[str]) -> None:
        self.file_count += len(paths)
        self.excluded_count += len(self._find_excluded(paths))


def _split_listing(listing: bytes) -> tuple[bytes, bool, bytes]:
    """The complete paths, whether the listing ends with them, and the rest of the output."""
    end = listing.find(b"\0\0")
    if end >= 0:
        return listing[:end], True, listing[end + 1 :]
    complete, _, rest = listing.rpartition(b"\0")
    return complete, False, rest


# Searching


def search(scope: SearchScope, pattern: SearchPattern, result_format: ResultFormat) -> SearchResults:
    """Search the files of a scope; raises `RipgrepUnavailable` if ripgrep cannot run."""
    results = SearchResults()
    counter = _FileCounter(scope)
    try:
        with closing(_search_files(scope, pattern, counter, result_format)) as files:
            for file in files:
                results.add(file, result_format)
                if results.truncated:
                    break
    except InvalidArguments as error:
        raise invalid_regex_error(pattern.source, _error_reason(str(error))) from None
    results.sort_by_path()
    results.searched_files = counter.file_count - counter.excluded_count
    results.skipped_sensitive = counter.excluded_count
    return results


def _error_reason(stderr_text: str) -> str:
    """The line of ripgrep's error output that states the reason."""
    lines = [line.strip() for line in stderr_text.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    reason = errors[-1] if errors else lines[0].removeprefix("rg: ")
    return reason.rstrip(".")


def _run_search(
    scope: SearchScope, pattern: SearchPattern, counter: _FileCounter, options: Iterable[str]
) -> Generator[bytes]:
    """Yield the output of a search, after the counter has consumed the listing before it."""
    search_options = " ".join((*_SEARCH_OPTIONS, *options, *pattern.ripgrep_options))
    script = _LIST_AND_SEARCH_SCRIPT.format(options=search_options)
    command = ["/bin/sh", "-c", script, "sh", pattern.ripgrep_pattern, _start_argument(scope), *_base_command(scope)]

    def max_silence_seconds() -> float:
        # A search without matches is silent for as long as it takes.
        return inf if counter.listing_ended else _LISTING_SILENCE_SECONDS

    with closing(ripgrep.read_output(scope, command, max_silence_seconds)) as chunks:
        yield from counter.consume_listing(chunks)


def _search_files(
    scope: SearchScope, pattern: SearchPattern, counter: _FileCounter, result_format: ResultFormat
) -> Generator[FileMatches]:
    if pattern.crosses_lines:
        yield from _search_across_lines(scope, pattern, counter, result_format)
    elif result_format.mode == "content":
        matcher = _matcher_or_none(scope, pattern)
        for parts, locations in _line_locations(scope, pattern, counter, result_format):
            file = _read_matches(scope, parts, locations, matcher)
            if file is not None:
                yield file
    else:
        for parts, count in _match_counts(scope, pattern, counter):
            yield FileMatches(parts, count if result_format.mode == "count" else 1)


def _wanted_parts(scope: SearchScope, path: bytes) -> tuple[str, ...] | None:
    """The parts of a path that ripgrep printed; None if the scope does not contain it."""
    parts = tuple(os.fsdecode(path[2:]).split("/"))
    return parts if scope.matches(parts) and not scope.is_excluded(parts) else None


def _match_counts(
    scope: SearchScope, pattern: SearchPattern, counter: _FileCounter
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each file with its number of matching lines; `--count` omits files with a NUL anywhere."""
    with closing(_run_search(scope, pattern, counter, ["--count"])) as chunks:
        rest = b""
        for chunk in chunks:
            rest += chunk
            position = 0
            while (record := _COUNT_RECORD.match(rest, position)) is not None:
                position = record.end()
                parts = _wanted_parts(scope, record[1])
                if parts is not None:
                    yield parts, int(record[2])
            rest = rest[position:]


def _search_across_lines(
    scope: SearchScope, pattern: SearchPattern, counter: _FileCounter, result_format: ResultFormat
) -> Iterator[FileMatches]:
    """Find the files with matches over several lines by ripgrep, and the matches in this process."""
    matcher = pattern.build_matcher(scope.is_cancelled)
    one_more = replace(result_format, limit=result_format.limit + 1)
    for parts, _ in _match_counts(scope, pattern, counter):
        results = SearchResults()
        # ToolError: the file was deleted meanwhile, or replaced by a link.
        with suppress(ToolError), scope.resolve(parts).open_context() as descriptor:
            search_file(results, parts, descriptor, matcher, pattern, one_more)
        yield from results.files


def _matcher_or_none(scope: SearchScope, pattern: SearchPattern) -> TextMatcher | None:
    """A matcher to find where a match ends, which ripgrep does not report; None without a regex engine here."""
    try:
        return pattern.build_matcher(scope.is_cancelled)
    except ToolError:
        return None


# Lines


@dataclass(frozen=True, slots=True)
class _LineLocation:
    """Where a line of a file is."""

    line_number: int
    offset: int
    """Byte offset of the line in the file's text as UTF-8."""
    column: int | None = None
    """Byte offset of the match in the line; -1 for an empty match at the end of the file; None for a context line."""


def _line_locations(
    scope: SearchScope, pattern: SearchPattern, counter: _FileCounter, result_format: ResultFormat
) -> Iterator[tuple[tuple[str, ...], list[_LineLocation]]]:
    """Each file with its matching lines; a file that turns out to be binary is dropped."""
    current = b""
    locations: list[_LineLocation] = []
    options = [*_LINE_OPTIONS, f"--max-count={result_format.limit + 1}", f"--context={result_format.context_lines}"]
    with closing(_run_search(scope, pattern, counter, options)) as chunks:
        for path, record in _parse_records(chunks):
            notice = _BINARY_NOTICE.match(path)
            if notice is not None:
                path = path[notice.end() :]
                locations = []
            if path != current:
                parts = _wanted_parts(scope, current) if locations else None
                if parts is not None:
                    yield parts, locations
                current = path
                locations = []
            locations += _parse_location(record)


def _parse_location(record: bytes) -> Iterator[_LineLocation]:
    if (match := _MATCH_RECORD.match(record)) is not None:
        yield _LineLocation(int(match[1]), int(match[3]), int(match[2] or 0) - 1)
    elif (context := _CONTEXT_RECORD.match(record)) is not None:
        yield _LineLocation(int(context[1]), int(context[2]))


def _parse_records(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Pairs of a path and a line's record; the last pair holds the rest of the output and an empty record."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        position = 0
        while (nul := rest.find(b"\0", position)) >= 0 and (end := rest.find(b"\n", nul)) >= 0:
            yield rest[position:nul], rest[nul + 1 : end]
            position = end + 1
        rest = rest[position:]
    yield rest, b""


def _read_matches(
    scope: SearchScope, parts: tuple[str, ...], locations: list[_LineLocation], matcher: TextMatcher | None
) -> FileMatches | None:
    """Read the lines through the workspace; None if the file was deleted or replaced meanwhile."""
    try:
        with scope.resolve(parts).open_context() as descriptor:
            if not S_ISREG(os.fstat(descriptor).st_mode):
                return None
            text = _FileText(descriptor)
            lines = [_read_line(text, location, matcher) for location in locations]
    except ToolError:
        return None
    return FileMatches(parts, sum(line.matched_text is not None for line in lines), lines)


class _FileText:
    """Reads parts of a file's text by their offsets in it as UTF-8, which are the ones that ripgrep reports."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        head = os.pread(descriptor, 4, 0)
        self._content = None if normalize_to_utf8(head) == head else normalize_to_utf8(read_all(descriptor))

    def read(self, start: int, length: int) -> bytes:
        if self._content is None:
            return os.pread(self._descriptor, length, start)
        return self._content[start : start + length]


def _read_line(text: _FileText, location: _LineLocation, matcher: TextMatcher | None) -> ResultLine:
    """Read a line around its match, and cut the excerpt."""
    match_offset = location.offset + max(location.column or 0, 0)
    window_offset = max(location.offset, match_offset - 2 * EXCERPT_REACH_BYTES)
    match_start = match_offset - window_offset
    length = match_start + 2 * EXCERPT_REACH_BYTES
    window = text.read(window_offset, length)
    newline = window.find(b"\n", match_start)
    has_line_end = newline >= 0 or len(window) < length
    if newline >= 0:
        window = window[:newline].removesuffix(b"\r")
    if location.column is None:
        return context_line(location.line_number, window, has_line_end=has_line_end)
    if location.column < 0:
        return match_line(location.line_number, window, len(window), b"", has_line_end=has_line_end)
    return match_line(
        location.line_number,
        window,
        match_start,
        _matched_bytes(window, match_start, matcher),
        has_line_start=window_offset == location.offset,
        has_line_end=has_line_end,
    )


def _matched_bytes(window: bytes, match_start: int, matcher: TextMatcher | None) -> bytes:
    """The match itself; without a matcher that finds it, everything from its start."""
    carriage_return = window.find(b"\r", match_start)
    if carriage_return >= 0:  # no match crosses a carriage return
        window = window[:carriage_return]
    match = matcher.find(window, match_start) if matcher is not None else None
    if match is None or match[0] != match_start:
        return window[match_start:]
    return window[match_start : match[1]]
