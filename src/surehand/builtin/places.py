"""Places: what ripgrep finds. It tells of files, lines and offsets; what is shown is read through descriptors."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from math import inf
from stat import S_ISREG

from surehand.builtin import ripgrep
from surehand.builtin.excerpt import REACH, around, line
from surehand.builtin.found import Found, InFile, Line, Want
from surehand.builtin.needle import Matcher, Needle, bad_regex
from surehand.builtin.scope import DEEPEST, LARGEST, Scope
from surehand.builtin.walker import all_of, search_in, unmarked
from surehand.core.errors import InvalidArguments, ToolError

_ALWAYS = (
    "--no-config", "--no-require-git", "--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global", "--no-messages",
    "--color=never", "--null", f"--max-depth={DEEPEST + 1}",
)  # fmt: skip
_SEARCH = ("--no-mmap", "--no-heading", "--with-filename", f"--max-filesize={LARGEST}", "--regex-size-limit=16M")
_LINES = ("--line-number", "--column", "--byte-offset", "--max-columns=1", "--no-context-separator")
_BOTH = """
pattern=$1 start=$2; shift 2
"$@" --files -- "$start"
printf '\\0'
exec "$@" {options} "--regexp=$pattern" -- "$start"
"""
"""The files are counted first: how many there are, and how many are left out, must not hang on what they hold."""
_SILENCE = 5.0
"""Seconds without a file while they are listed."""
_BINARY = re.compile(rb"(?s).* byte around offset \d+\)\r?\n")
_COUNT = re.compile(rb"(?s)([^\0]*)\0(\d+)\r?\n")
_MATCH = re.compile(rb"(\d+):(?:(\d+):)?(\d+):")
_AROUND = re.compile(rb"(\d+)-(\d+)-")


def _words(scope: Scope) -> list[str]:
    """Options say which names are looked at. They leave out too little, and the scope the rest."""
    glob = scope.glob
    words = [ripgrep.program() or "", *_ALWAYS, *(["--hidden"] if glob.hidden else [])]
    if glob.simple:
        words += [f"--type-add=wanted:{name}" for name in glob.names] + ["--type=wanted"]
    return words


def _start(scope: Scope) -> str:
    return "./" + "/".join(scope.start.parts)


# Listing


def paths(scope: Scope) -> Generator[list[str]]:
    """The files of a scope by their paths from the root, the latest first, many at a time."""
    with closing(
        ripgrep.output(
            scope, [*_words(scope), "--files", "--sortr=modified", "--", _start(scope)], lambda: 4 * _SILENCE
        )
    ) as chunks:
        rest = b""
        for chunk in chunks:
            whole, nul, rest = (rest + chunk).rpartition(b"\0")
            if nul:
                yield _listed(scope, whole)


def _listed(scope: Scope, whole: bytes) -> list[str]:
    return scope.chosen([path[2:] for path in os.fsdecode(whole).split("\0") if path])  # each begins with "./"


class _Census:
    """Counts the files of a scope, from the beginning of an output, and gives the rest of it."""

    def __init__(self, scope: Scope) -> None:
        self._scope, self._secrets = scope, scope.secrets()
        self.files = self.left_out = 0
        self.ended = False

    def rest(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Paths end in NUL, and an empty one ends the list."""
        rest = b""
        while not self.ended and (chunk := next(chunks, b"")):
            rest += chunk
            self.ended = rest.startswith(b"\0")
            if not self.ended:
                whole, self.ended, rest = _cut(rest)
                self._count(_listed(self._scope, whole))
            if self.ended:
                yield rest.removeprefix(b"\0")
        yield from chunks
        if not self.ended:
            raise ripgrep.NotRun("ripgrep ended before it had begun.")

    def _count(self, paths: list[str]) -> None:
        self.files += len(paths)
        self.left_out += len(self._secrets(paths))


def _cut(listing: bytes) -> tuple[bytes, bool, bytes]:
    """The whole paths; whether they are all; and what comes after them."""
    end = listing.find(b"\0\0")
    if end >= 0:
        return listing[:end], True, listing[end + 1 :]
    whole, _, rest = listing.rpartition(b"\0")
    return whole, False, rest


# Searching


def search(scope: Scope, needle: Needle, want: Want) -> Found:
    """Look for something in the files of a scope; raises `ripgrep.NotRun` where that cannot be done so."""
    found, census = Found(), _Census(scope)
    try:
        with closing(_files(scope, needle, census, want)) as files:
            for file in files:
                found.add(file, want)
                if found.truncated:
                    break
    except InvalidArguments as error:
        raise InvalidArguments(bad_regex(needle.pattern, _reason(str(error)))) from None
    found.by_path()
    found.searched, found.left_out = census.files - census.left_out, census.left_out
    return found


def _reason(told: str) -> str:
    """The one line of a complaint that says what is wrong."""
    lines = [text.strip() for text in told.splitlines() if text.strip()]
    errors = [text.removeprefix("error: ") for text in lines if text.startswith("error: ")]
    return (errors[-1] if errors else lines[0].removeprefix("rg: ")).rstrip(".")


def _run(scope: Scope, needle: Needle, census: _Census, options: Iterable[str]) -> Generator[bytes]:
    script = _BOTH.format(options=" ".join((*_SEARCH, *options, *needle.options)))
    words = ["/bin/sh", "-c", script, "sh", needle.for_ripgrep, _start(scope), *_words(scope)]
    with closing(ripgrep.output(scope, words, lambda: inf if census.ended else _SILENCE)) as chunks:
        yield from census.rest(chunks)


def _files(scope: Scope, needle: Needle, census: _Census, want: Want) -> Generator[InFile]:
    if needle.across:
        yield from _searched_again(scope, needle, census, want)
    elif want.mode == "content":
        matcher = _matcher(scope, needle)
        for parts, places in _places(scope, needle, census, want):
            if (file := _in_file(scope, parts, places, matcher)) is not None:
                yield file
    else:
        for parts, count in _counts(scope, needle, census):
            yield InFile(parts, count if want.mode == "count" else 1)


def _wanted(scope: Scope, path: bytes) -> tuple[str, ...] | None:
    parts = tuple(os.fsdecode(path[2:]).split("/"))
    return parts if scope.fits(parts) and not scope.secret(parts) else None


def _counts(scope: Scope, needle: Needle, census: _Census) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each file with its number of matching lines; what is binary anywhere is no text, and does not appear."""
    with closing(_run(scope, needle, census, ["--count"])) as chunks:
        rest = b""
        for chunk in chunks:
            rest, at = rest + chunk, 0
            while (told := _COUNT.match(rest, at)) is not None:
                at = told.end()
                if (parts := _wanted(scope, told[1])) is not None:
                    yield parts, int(told[2])
            rest = rest[at:]


def _searched_again(scope: Scope, needle: Needle, census: _Census, want: Want) -> Iterator[InFile]:
    """Matches over several lines: ripgrep says in which files, and they are looked for there again."""
    matcher = needle.matcher(scope.stop)
    for parts, _ in _counts(scope, needle, census):
        inside = Found()
        with suppress(ToolError), scope.spot(parts).opened() as descriptor:  # it may be gone, or a link by now
            search_in(inside, parts, descriptor, matcher, needle, replace(want, most=want.most + 1))
        yield from inside.files


def _matcher(scope: Scope, needle: Needle) -> Matcher | None:
    """Says where a match ends, which ripgrep does not; None where there is none here."""
    try:
        return needle.matcher(scope.stop)
    except ToolError:
        return None


# Lines


@dataclass(frozen=True, slots=True)
class _Place:
    """A line of a file."""

    number: int
    offset: int
    column: int | None = None
    """Where the match begins in it; -1 for an empty one at the end of the file; None for a line around one."""


def _places(
    scope: Scope, needle: Needle, census: _Census, want: Want
) -> Iterator[tuple[tuple[str, ...], list[_Place]]]:
    """Each file with its matching lines; a file that turns out to be binary is left out."""
    current, places = b"", list[_Place]()
    options = [*_LINES, f"--max-count={want.most + 1}", f"--context={want.context}"]
    with closing(_run(scope, needle, census, options)) as chunks:
        for path, where in _records(chunks):
            if (binary := _BINARY.match(path)) is not None:
                path, places = path[binary.end() :], []
            if path != current:
                if places and (parts := _wanted(scope, current)) is not None:
                    yield parts, places
                current, places = path, []
            places += _place(where)


def _place(where: bytes) -> Iterator[_Place]:
    if (match := _MATCH.match(where)) is not None:
        yield _Place(int(match[1]), int(match[3]), int(match[2] or 0) - 1)
    elif (near := _AROUND.match(where)) is not None:
        yield _Place(int(near[1]), int(near[2]))


def _records(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Pairs of a path and of where in the file; and at the end what is left, which is no pair."""
    rest = b""
    for chunk in chunks:
        rest, at = rest + chunk, 0
        while (nul := rest.find(b"\0", at)) >= 0 and (end := rest.find(b"\n", nul)) >= 0:
            yield rest[at:nul], rest[nul + 1 : end]
            at = end + 1
        rest = rest[at:]
    yield rest, b""


def _in_file(scope: Scope, parts: tuple[str, ...], places: list[_Place], matcher: Matcher | None) -> InFile | None:
    """The lines themselves, read through a descriptor; None if the file is gone, or not what it was."""
    try:
        with scope.spot(parts).opened() as descriptor:
            if not S_ISREG(os.fstat(descriptor).st_mode):
                return None
            text = _Text(descriptor)
            lines = [_line(text, place, matcher) for place in places]
    except ToolError:
        return None
    return InFile(parts, sum(line.match is not None for line in lines), lines)


class _Text:
    """Pieces of a file's text, by offsets into it as UTF-8."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        head = os.pread(descriptor, 4, 0)
        self._whole = None if unmarked(head) == head else unmarked(all_of(descriptor))

    def piece(self, start: int, length: int) -> bytes:
        if self._whole is None:
            return os.pread(self._descriptor, length, start)
        return self._whole[start : start + length]


def _line(text: _Text, place: _Place, matcher: Matcher | None) -> Line:
    at = place.offset + max(place.column or 0, 0)
    low = max(place.offset, at - 2 * REACH)
    length = at - low + 2 * REACH
    window = text.piece(low, length)
    end = window.find(b"\n", at - low)
    to_end = end >= 0 or len(window) < length
    window = window[:end].removesuffix(b"\r") if end >= 0 else window
    if place.column is None:
        return around(place.number, window, to_end=to_end)
    if place.column < 0:
        return line(place.number, window, len(window), b"", to_end=to_end)
    match = _match(window, at - low, matcher)
    return line(place.number, window, at - low, match, from_start=low == place.offset, to_end=to_end)


def _match(window: bytes, at: int, matcher: Matcher | None) -> bytes:
    """The match itself; and where no matcher here sees one, all from where it begins."""
    window = window[:end] if (end := window.find(b"\r", at)) >= 0 else window  # no match goes over one
    span = matcher.find(window, at) if matcher is not None else None
    return window[at : span[1] if span is not None and span[0] == at else len(window)]
