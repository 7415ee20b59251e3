"""Searches files by content, with ripgrep where it is available, and renders the results for models and programs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from time import monotonic
from typing import Any

from surehand.builtin.file_description import format_byte_count
from surehand.builtin.search import python_search, ripgrep, ripgrep_search
from surehand.builtin.search.globs import GlobPattern
from surehand.builtin.search.regex_translation import InvalidRegex
from surehand.builtin.search.results import FileMatches, ResultFormat, SearchResults
from surehand.builtin.search.search_pattern import SearchPattern, has_regex_characters, looks_like_regex
from surehand.builtin.search.search_scope import MAX_FILE_BYTES, SearchScope, build_search_scope, is_directory
from surehand.core.errors import InvalidArguments, ToolError, Unavailable
from surehand.core.sanitize import escape_line
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import WorkspacePath
from surehand.workspace.workspace import Workspace

log = logging.getLogger("surehand")
_MAX_COUNTED_MATCHES = 100
"""Matches that are counted for a hint."""
_MAX_SECONDS_BEFORE_HINT = 5.0
"""A search that took longer than this is not repeated to find a hint."""


@dataclass(frozen=True, slots=True)
class ContentQuery:
    """A content search as a model asked for it."""

    pattern: str
    path: str
    include: str
    literal: bool
    case_sensitive: bool
    multiline: bool
    result_format: ResultFormat

    @property
    def may_match_if_toggled(self) -> bool:
        """Whether a pattern that matches nothing may match something if `literal` is toggled."""
        # Text that matches `a.b` literally also matches it as a regex, so there a dot alone makes no difference.
        return has_regex_characters(self.pattern if self.literal else self.pattern.replace(".", ""))

    def with_literal_toggled(self) -> ContentQuery:
        """The same search with the pattern as plain text instead of a regex, or the other way round."""
        result_format = ResultFormat("content", _MAX_COUNTED_MATCHES)
        return replace(self, literal=not self.literal, result_format=result_format)


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The results of a query, and their renderings."""

    query: ContentQuery
    base_path: WorkspacePath
    results: SearchResults
    hint: str = ""
    """Without matches: whether the pattern was perhaps meant as plain text instead of a regex, or as the opposite."""

    @property
    def listed_files(self) -> list[FileMatches]:
        """The files to show, within the query's limit."""
        result_format = self.query.result_format
        if result_format.mode == "content":  # the limit counts matches, and is applied already
            return self.results.files
        return self.results.files[: result_format.limit]

    @property
    def is_truncated(self) -> bool:
        """Whether there are more results than are listed."""
        return self.results.truncated or len(self.listed_files) < len(self.results.files)

    def file_path(self, file: FileMatches) -> str:
        """A file's path as models see it."""
        return WorkspacePath(self.base_path.workspace, self.base_path.root, file.parts).display_path

    def metadata(self) -> dict[str, Any]:
        """The numbers of the search."""
        return {
            "pattern": self.query.pattern,
            "filesSearched": self.results.searched_files,
            "matchCount": self.results.match_count,
            "truncated": self.is_truncated,
        }

    def data(self) -> dict[str, Any]:
        """The results for programs."""
        files = self.listed_files
        counts = {"leftOut": self.results.skipped_sensitive, "slowLines": self.results.slow_lines}
        rest: dict[str, Any] = {"truncated": self.is_truncated}
        rest |= {name: count for name, count in counts.items() if count}
        if self.hint:
            rest["hint"] = self.hint
        match self.query.result_format.mode:
            case "files":
                paths = [self.file_path(file) for file in files]
                return {"files": paths, "totalFiles": len(self.results.files), **rest}
            case "count":
                file_counts = [{"file": self.file_path(file), "count": file.match_count} for file in files]
                return {"counts": file_counts, "totalMatches": self.results.match_count, **rest}
            case "content":
                matches = [match for file in files for match in self._match_records(file)]
                return {"matches": matches, "totalMatches": self.results.match_count, **rest}

    def _match_records(self, file: FileMatches) -> Iterator[dict[str, Any]]:
        path = self.file_path(file)
        context = self.query.result_format.context_lines
        for line in file.lines:
            if line.matched_text is None:
                continue
            number = line.line_number
            record = {"file": path, "line": line.text, "lineNumber": number, "match": line.matched_text}
            if context:
                near = [other for other in file.lines if 0 < abs(other.line_number - number) <= context]
                record["before"] = [other.text for other in near if other.line_number < number]
                record["after"] = [other.text for other in near if other.line_number > number]
            yield record

    def render_lines(self) -> list[str]:
        """The results as lines for a model."""
        files = self.listed_files
        result_format = self.query.result_format
        if not files:
            count = self.results.searched_files
            searched = "1 file" if count == 1 else f"{count:,} files"
            pattern = escape_line(self.query.pattern, 200)
            problem = f"No matches for '{pattern}' in {path_for_message(self.base_path)} ({searched} searched)."
            return [f"{problem} {self.hint}".rstrip()]
        if result_format.mode == "files":
            return [self.file_path(file) for file in files]
        if result_format.mode == "count":
            return [f"{self.file_path(file)}: {file.match_count}" for file in files]
        lines: list[str] = []
        for file in files:
            if lines and result_format.context_lines:
                lines.append("--")
            lines += self._render_file_lines(file)
        return lines

    def _render_file_lines(self, file: FileMatches) -> list[str]:
        """A file's lines; with context, `--` stands between groups of lines."""
        path = self.file_path(file)
        numbers = [line.line_number for line in file.lines]
        after_gap: set[int] = set()
        if self.query.result_format.context_lines:
            after_gap = {number for previous, number in pairwise(numbers) if number > previous + 1}
        rendered: list[str] = []
        for line in file.lines:
            if line.line_number in after_gap:
                rendered.append("--")
            mark = "-" if line.matched_text is None else ":"
            rendered.append(f"{path}{mark}{line.line_number}{mark} {line.text}")
        return rendered

    def notes(self) -> list[str]:
        """Remarks on the results for a model."""
        notes: list[str] = []
        if self.is_truncated:
            if self.query.result_format.mode == "content":
                shown = f"{self.results.match_count:,} matches"
            else:
                shown = f"{len(self.listed_files):,} files"
            notes.append(f"{shown} shown, and there are more. Narrow the search with path or include.")
        if self.results.slow_lines:
            notes.append("Very long lines were not searched: the pattern is too slow for them.")
        return notes


def search_content(workspace: Workspace, query: ContentQuery, is_cancelled: Callable[[], bool]) -> SearchReport:
    """Search a file, or the files below a directory; without matches, search with `literal` toggled for a hint."""
    started_at = monotonic()
    try:
        report = _search(workspace, query, is_cancelled)
    except InvalidRegex as error:
        matches = _describe_matches(workspace, query.with_literal_toggled(), is_cancelled)
        found = f": that matches {matches}" if matches else ""
        raise InvalidRegex(f"{error} Mend it, or set literal=true to search for it as plain text{found}.") from None
    was_slow = monotonic() - started_at > _MAX_SECONDS_BEFORE_HINT
    if report.results.files or was_slow or not query.may_match_if_toggled:
        return report
    return replace(report, hint=_literal_hint(workspace, query, is_cancelled))


def check_search(workspace: Workspace, path: str, include: str) -> None:
    """Raise for a path that does not exist or cannot be searched, and for an invalid glob."""
    start = workspace.resolve(path)
    if is_directory(start):
        build_search_scope(workspace, path, include, lambda: False)
        return
    with start.open_reader():
        pass


def _literal_hint(workspace: Workspace, query: ContentQuery, is_cancelled: Callable[[], bool]) -> str:
    """What a search without matches would find with `literal` toggled, and how to ask for that."""
    matches = _describe_matches(workspace, query.with_literal_toggled(), is_cancelled)
    is_probably_regex = looks_like_regex(query.pattern)
    if query.literal:
        if matches:
            return f"As a regular expression it matches {matches}: leave literal out."
        meant = "It looks like a regular expression, and was taken as plain text because literal=true was set."
        return meant if is_probably_regex else ""
    if matches:
        return f"As plain text it matches {matches}: set literal=true."
    return "" if is_probably_regex else "As plain text (literal=true) it matches nothing either."


def _describe_matches(workspace: Workspace, query: ContentQuery, is_cancelled: Callable[[], bool]) -> str:
    """How many lines a query matches, in words; empty if none, or if it cannot be searched for."""
    try:
        results = _search(workspace, query, is_cancelled).results
    except (InvalidArguments, Unavailable):
        return ""
    count = results.match_count
    if not count:
        return ""
    return f"{count:,} line{'' if count == 1 else 's'}{' or more' if results.truncated else ''}"


def _search(workspace: Workspace, query: ContentQuery, is_cancelled: Callable[[], bool]) -> SearchReport:
    # A regex without special characters is found faster, and without a regex engine, as plain text.
    is_regex = not query.literal and (query.multiline or has_regex_characters(query.pattern))
    pattern = SearchPattern(query.pattern, is_regex, query.case_sensitive, query.multiline)
    path = workspace.resolve(query.path)
    if not is_directory(path):
        return SearchReport(query, path, _search_file(path, pattern, query, is_cancelled))
    scope = build_search_scope(workspace, query.path, query.include, is_cancelled)
    return SearchReport(query, scope.base_path, _search_directory(scope, pattern, query))


def _search_directory(scope: SearchScope, pattern: SearchPattern, query: ContentQuery) -> SearchResults:
    if ripgrep.is_available() and not scope.is_empty:
        try:
            return ripgrep_search.search(scope, pattern, query.result_format)
        except ripgrep.RipgrepUnavailable as error:
            log.warning("Searched without ripgrep: %s", error)
    return python_search.search(scope, pattern, query.result_format)


def _search_file(
    path: WorkspacePath, pattern: SearchPattern, query: ContentQuery, is_cancelled: Callable[[], bool]
) -> SearchResults:
    """Search one file in this process; with ripgrep only if no regex engine is installed here."""
    with path.open_reader() as file:
        length = os.fstat(file.fileno()).st_size
        if length > MAX_FILE_BYTES:
            size = format_byte_count(length)
            limit = format_byte_count(MAX_FILE_BYTES)
            problem = f"{path_for_message(path)} has {size}; files of up to {limit} are searched."
            raise ToolError(problem, code="too_large")
        try:
            matcher = pattern.build_matcher(is_cancelled)
        except Unavailable:
            if not ripgrep.is_available():
                raise
            scope = SearchScope(path, GlobPattern("**/*"), True, is_cancelled)
            return _search_directory(scope, pattern, query)
        results = SearchResults()
        if not python_search.search_file(results, path.parts, file.fileno(), matcher, pattern, query.result_format):
            raise InvalidArguments(f"{path_for_message(path)} is binary: there is no text to search.")
    results.slow_lines = matcher.slow_lines
    return results
