"""Found: what a search brings back, whichever way it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

Mode: TypeAlias = Literal["content", "files", "count"]


@dataclass(frozen=True, slots=True)
class Want:
    """What form of an answer is wanted, and how much of it."""

    mode: Mode
    most: int
    """Matches, or files where only those are named."""
    context: int = 0
    """Lines around each match."""


class Line(NamedTuple):
    """A line to show."""

    number: int
    text: str
    match: str | None = None
    """The text that was found in it; None for a line around one."""


@dataclass(slots=True)
class InFile:
    """What was found in one file."""

    parts: tuple[str, ...]
    count: int = 0
    """Lines with a match; or matches, where they may go over several lines."""
    lines: list[Line] = field(default_factory=list)


@dataclass(slots=True)
class Found:
    """What was found in all files, by path."""

    files: list[InFile] = field(default_factory=list)
    searched: int = 0
    left_out: int = 0
    """Files that look like keys or credentials."""
    truncated: bool = False
    slow_lines: int = 0
    count: int = 0
    """Matches in all files."""

    def add(self, file: InFile, want: Want) -> None:
        """Take what fits; in `count` mode everything does."""
        if want.mode == "content":
            self._add_lines(file, want.most - self.count)
        elif want.mode == "files" and len(self.files) >= want.most:
            self.truncated = True
        else:
            self._append(file)

    def by_path(self) -> None:
        """Put the files in order."""
        self.files.sort(key=lambda file: file.parts)

    def _append(self, file: InFile) -> None:
        self.files.append(file)
        self.count += file.count

    def _add_lines(self, file: InFile, room: int) -> None:
        if file.count > room:
            self.truncated = True
            file.lines, file.count = _first(file.lines, room), room
        if file.count:
            self._append(file)


def _first(lines: list[Line], most: int) -> list[Line]:
    """Up to the last match that there is room for."""
    kept: list[Line] = []
    for line in lines:
        most -= line.match is not None
        if most < 0:
            break
        kept.append(line)
    return kept
