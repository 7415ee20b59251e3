"""Grep: a search by content, from what is asked to what is told."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from surehand.builtin import places, ripgrep, walker
from surehand.builtin.found import Found, InFile, Want
from surehand.builtin.globs import Glob
from surehand.builtin.needle import Needle
from surehand.builtin.scope import LARGEST, Scope, is_folder, scope
from surehand.builtin.sizes import size
from surehand.builtin.spot import Spot
from surehand.builtin.trouble import told
from surehand.builtin.workspace import Workspace
from surehand.core.errors import InvalidArguments, ToolError, Unavailable
from surehand.core.sanitize import escape_line

log = logging.getLogger("surehand")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is looked for, where, and how much of it."""

    pattern: str
    path: str
    include: str
    regex: bool
    case_sensitive: bool
    multiline: bool
    want: Want


@dataclass(frozen=True, slots=True)
class Hits:
    """What was found, to be shown."""

    asked: Asked
    where: Spot
    found: Found

    @property
    def shown_files(self) -> list[InFile]:
        """At most as many as asked for."""
        return self.found.files if self.asked.want.mode == "content" else self.found.files[: self.asked.want.most]

    @property
    def truncated(self) -> bool:
        """Whether there is more."""
        return self.found.truncated or len(self.shown_files) < len(self.found.files)

    def name(self, file: InFile) -> str:
        """A file's path, as models are shown it."""
        return Spot(self.where.workspace, self.where.root, file.parts).shown

    def metadata(self) -> dict[str, Any]:
        """In numbers."""
        found = self.found
        return {
            "pattern": self.asked.pattern, "filesSearched": found.searched, "matchCount": found.count,
            "truncated": self.truncated,
        }  # fmt: skip

    def data(self) -> dict[str, Any]:
        """For programs."""
        files, total = self.shown_files, self.found.count
        told = {"leftOut": self.found.left_out, "slowLines": self.found.slow_lines}
        rest = {"truncated": self.truncated, **{name: number for name, number in told.items() if number}}
        match self.asked.want.mode:
            case "files":
                return {"files": [self.name(file) for file in files], "totalFiles": len(self.found.files), **rest}
            case "count":
                counts = [{"file": self.name(file), "count": file.count} for file in files]
                return {"counts": counts, "totalMatches": total, **rest}
            case "content":
                return {
                    "matches": [match for file in files for match in self._matches(file)],
                    "totalMatches": total,
                    **rest,
                }

    def _matches(self, file: InFile) -> Iterator[dict[str, Any]]:
        name, context = self.name(file), self.asked.want.context
        for line in file.lines:
            if line.match is None:
                continue
            match = {"file": name, "line": line.text, "lineNumber": line.number, "match": line.match}
            if context:
                near = [other for other in file.lines if 0 < abs(other.number - line.number) <= context]
                match["before"] = [other.text for other in near if other.number < line.number]
                match["after"] = [other.text for other in near if other.number > line.number]
            yield match

    def lines(self) -> list[str]:
        """For models."""
        files = self.shown_files
        if not files:
            pattern, place = escape_line(self.asked.pattern, 200), told(self.where)
            searched = "1 file" if self.found.searched == 1 else f"{self.found.searched:,} files"
            return [f"No matches for '{pattern}' in {place} ({searched} searched)."]
        if self.asked.want.mode == "files":
            return [self.name(file) for file in files]
        if self.asked.want.mode == "count":
            return [f"{self.name(file)}: {file.count}" for file in files]
        groups = [self._group(file) for file in files]
        return [line for group in groups for line in ([*group, "--"] if self.asked.want.context else group)][
            : -1 if self.asked.want.context else None
        ]

    def _group(self, file: InFile) -> list[str]:
        name, numbers, lines = self.name(file), [line.number for line in file.lines], list[str]()
        gaps = {other for one, other in pairwise(numbers) if other > one + 1} if self.asked.want.context else set()
        for line in file.lines:
            lines += ["--"] if line.number in gaps else []
            mark = "-" if line.match is None else ":"
            lines.append(f"{name}{mark}{line.number}{mark} {line.text}")
        return lines

    def notes(self) -> list[str]:
        """What a model should know besides."""
        notes = list[str]()
        if self.truncated and self.asked.want.mode == "content":
            notes.append(
                f"{self.found.count:,} matches shown, and there are more. Narrow the search with path or include."
            )
        elif self.truncated:
            notes.append(
                f"{len(self.shown_files):,} files shown, and there are more. Narrow the search with path or include."
            )
        if self.found.slow_lines:
            notes.append("Very long lines were not searched: the pattern is too slow for them.")
        return notes


def grepped(workspace: Workspace, asked: Asked, stop: Callable[[], bool]) -> Hits:
    """Search as asked."""
    needle = Needle(asked.pattern, asked.regex, asked.case_sensitive, asked.multiline)
    spot = workspace.spot(asked.path)
    if not is_folder(spot):
        return Hits(asked, spot, _in_one(spot, needle, asked, stop))
    where = scope(workspace, asked.path, asked.include, stop)
    return Hits(asked, where.start, _in_many(where, needle, asked))


def _in_many(where: Scope, needle: Needle, asked: Asked) -> Found:
    if ripgrep.works() and not where.empty:
        try:
            return places.search(where, needle, asked.want)
        except ripgrep.NotRun as error:
            log.warning("Files are searched without ripgrep: %s", error)
    return walker.search(where, needle, asked.want)


def _in_one(spot: Spot, needle: Needle, asked: Asked, stop: Callable[[], bool]) -> Found:
    """One file needs no other process, unless that is the only one that knows regular expressions."""
    with spot.reader() as file:
        length = os.fstat(file.fileno()).st_size
        if length > LARGEST:
            raise ToolError(
                f"{told(spot)} has {size(length)}; files of up to {size(LARGEST)} are searched.", code="too_large"
            )
        try:
            matcher = needle.matcher(stop)
        except Unavailable:
            if not ripgrep.works():
                raise
            return _in_many(Scope(spot, Glob("**/*"), True, stop), needle, asked)
        found = Found()
        if not walker.search_in(found, spot.parts, file.fileno(), matcher, needle, asked.want):
            raise InvalidArguments(f"{told(spot)} is binary: there is no text to search.")
    found.slow_lines = matcher.slow_lines
    return found
