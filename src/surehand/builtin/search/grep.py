"""Grep: a search by content, from what is asked to what is told."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from surehand.builtin.files.file_description import format_byte_count
from surehand.builtin.search import python_search, ripgrep, ripgrep_search
from surehand.builtin.search.globs import GlobPattern
from surehand.builtin.search.results import FileMatches, ResultFormat, SearchResults
from surehand.builtin.search.search_pattern import SearchPattern
from surehand.builtin.search.search_scope import MAX_FILE_BYTES, SearchScope, build_search_scope, is_directory
from surehand.core.errors import InvalidArguments, ToolError, Unavailable
from surehand.core.sanitize import escape_line
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import WorkspacePath
from surehand.workspace.workspace import Workspace

log = logging.getLogger("surehand")


@dataclass(frozen=True, slots=True)
class ContentQuery:
    """What is looked for, where, and how much of it."""

    pattern: str
    path: str
    include: str
    is_regex: bool
    case_sensitive: bool
    multiline: bool
    result_format: ResultFormat


@dataclass(frozen=True, slots=True)
class SearchReport:
    """What was found, to be shown."""

    query: ContentQuery
    base_path: WorkspacePath
    results: SearchResults

    @property
    def listed_files(self) -> list[FileMatches]:
        """At most as many as asked for."""
        return (
            self.results.files
            if self.query.result_format.mode == "content"
            else self.results.files[: self.query.result_format.limit]
        )

    @property
    def is_truncated(self) -> bool:
        """Whether there is more."""
        return self.results.truncated or len(self.listed_files) < len(self.results.files)

    def file_path(self, file: FileMatches) -> str:
        """A file's path, as models are shown it."""
        return WorkspacePath(self.base_path.workspace, self.base_path.root, file.parts).display_path

    def metadata(self) -> dict[str, Any]:
        """In numbers."""
        found = self.results
        return {
            "pattern": self.query.pattern, "filesSearched": found.searched_files, "matchCount": found.match_count,
            "truncated": self.is_truncated,
        }  # fmt: skip

    def data(self) -> dict[str, Any]:
        """For programs."""
        files, total = self.listed_files, self.results.match_count
        told = {"leftOut": self.results.skipped_sensitive, "slowLines": self.results.slow_lines}
        rest = {"truncated": self.is_truncated, **{name: number for name, number in told.items() if number}}
        match self.query.result_format.mode:
            case "files":
                return {
                    "files": [self.file_path(file) for file in files],
                    "totalFiles": len(self.results.files),
                    **rest,
                }
            case "count":
                counts = [{"file": self.file_path(file), "count": file.match_count} for file in files]
                return {"counts": counts, "totalMatches": total, **rest}
            case "content":
                return {
                    "matches": [match for file in files for match in self._match_records(file)],
                    "totalMatches": total,
                    **rest,
                }

    def _match_records(self, file: FileMatches) -> Iterator[dict[str, Any]]:
        name, context = self.file_path(file), self.query.result_format.context_lines
        for line in file.lines:
            if line.matched_text is None:
                continue
            match = {"file": name, "line": line.text, "lineNumber": line.line_number, "match": line.matched_text}
            if context:
                near = [other for other in file.lines if 0 < abs(other.line_number - line.line_number) <= context]
                match["before"] = [other.text for other in near if other.line_number < line.line_number]
                match["after"] = [other.text for other in near if other.line_number > line.line_number]
            yield match

    def render_lines(self) -> list[str]:
        """For models."""
        files = self.listed_files
        if not files:
            pattern, place = escape_line(self.query.pattern, 200), path_for_message(self.base_path)
            searched = "1 file" if self.results.searched_files == 1 else f"{self.results.searched_files:,} files"
            return [f"No matches for '{pattern}' in {place} ({searched} searched)."]
        if self.query.result_format.mode == "files":
            return [self.file_path(file) for file in files]
        if self.query.result_format.mode == "count":
            return [f"{self.file_path(file)}: {file.match_count}" for file in files]
        groups = [self._render_file_lines(file) for file in files]
        return [
            line for group in groups for line in ([*group, "--"] if self.query.result_format.context_lines else group)
        ][: -1 if self.query.result_format.context_lines else None]

    def _render_file_lines(self, file: FileMatches) -> list[str]:
        name, numbers, lines = self.file_path(file), [line.line_number for line in file.lines], list[str]()
        gaps = (
            {other for one, other in pairwise(numbers) if other > one + 1}
            if self.query.result_format.context_lines
            else set()
        )
        for line in file.lines:
            lines += ["--"] if line.line_number in gaps else []
            mark = "-" if line.matched_text is None else ":"
            lines.append(f"{name}{mark}{line.line_number}{mark} {line.text}")
        return lines

    def notes(self) -> list[str]:
        """What a model should know besides."""
        notes = list[str]()
        if self.is_truncated and self.query.result_format.mode == "content":
            notes.append(
                f"{self.results.match_count:,} matches shown, and there are more. Narrow the search with path or include."
            )
        elif self.is_truncated:
            notes.append(
                f"{len(self.listed_files):,} files shown, and there are more. Narrow the search with path or include."
            )
        if self.results.slow_lines:
            notes.append("Very long lines were not searched: the pattern is too slow for them.")
        return notes


def search_content(workspace: Workspace, query: ContentQuery, is_cancelled: Callable[[], bool]) -> SearchReport:
    """Search as asked."""
    needle = SearchPattern(query.pattern, query.is_regex, query.case_sensitive, query.multiline)
    spot = workspace.resolve(query.path)
    if not is_directory(spot):
        return SearchReport(query, spot, _search_file(spot, needle, query, is_cancelled))
    where = build_search_scope(workspace, query.path, query.include, is_cancelled)
    return SearchReport(query, where.base_path, _search_directory(where, needle, query))


def _search_directory(search_scope: SearchScope, pattern: SearchPattern, query: ContentQuery) -> SearchResults:
    if ripgrep.is_available() and not search_scope.is_empty:
        try:
            return ripgrep_search.search(search_scope, pattern, query.result_format)
        except ripgrep.RipgrepUnavailable as error:
            log.warning("Files are searched without ripgrep: %s", error)
    return python_search.search(search_scope, pattern, query.result_format)


def _search_file(
    path: WorkspacePath, pattern: SearchPattern, query: ContentQuery, is_cancelled: Callable[[], bool]
) -> SearchResults:
    """One file needs no other process, unless that is the only one that knows regular expressions."""
    with path.open_reader() as file:
        length = os.fstat(file.fileno()).st_size
        if length > MAX_FILE_BYTES:
            raise ToolError(
                f"{path_for_message(path)} has {format_byte_count(length)}; files of up to {format_byte_count(MAX_FILE_BYTES)} are searched.",
                code="too_large",
            )
        try:
            matcher = pattern.build_matcher(is_cancelled)
        except Unavailable:
            if not ripgrep.is_available():
                raise
            return _search_directory(SearchScope(path, GlobPattern("**/*"), True, is_cancelled), pattern, query)
        found = SearchResults()
        if not python_search.search_file(found, path.parts, file.fileno(), matcher, pattern, query.result_format):
            raise InvalidArguments(f"{path_for_message(path)} is binary: there is no text to search.")
    found.slow_lines = matcher.slow_lines
    return found
