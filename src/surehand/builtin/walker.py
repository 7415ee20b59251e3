"""Walker: a search of this process's own, from one folder's descriptor to the next. Links are never followed."""

from __future__ import annotations

import codecs
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from stat import S_ISREG

from surehand.builtin.excerpt import REACH, around, line
from surehand.builtin.found import Found, InFile, Line, Want
from surehand.builtin.ignore import Ignore
from surehand.builtin.needle import Matcher, Needle
from surehand.builtin.scope import DEEPEST, LARGEST, Scope
from surehand.core.errors import Unavailable

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FULL = (errno.ENFILE, errno.EMFILE)
_MORE = 1 << 16
_TALLEST = 10
"""Lines of one match that are shown."""
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class File:
    """A file that was come across."""

    folder: int
    """The open folder; only while the walk stands still here."""
    path: str
    """From the root."""
    entry: os.DirEntry[str]
    secret: bool

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))

    def modified(self) -> int | None:
        """In nanoseconds; None if it is gone."""
        try:
            return self.entry.stat(follow_symlinks=False).st_mtime_ns
        except OSError:
            return None


def walk(scope: Scope) -> Iterator[File]:
    """Every regular file of a scope, by name, folder by folder."""
    if scope.empty:
        return
    with scope.start.opened(os.O_RDONLY | os.O_DIRECTORY) as folder:
        rules = _outer_rules(scope)
        yield from _below(scope, folder, scope.start.parts, rules, scope.secret(scope.start.parts))


def _outer_rules(scope: Scope) -> Ignore:
    """What the folders around the first one leave out."""
    rules, spot = Ignore(), scope.start
    for depth in range(len(spot.parts)):
        outer = type(spot)(spot.workspace, spot.root, spot.parts[:depth])
        with outer.opened(os.O_RDONLY | os.O_DIRECTORY) as folder:
            rules = rules.inside(folder, depth)
    return rules


def _below(scope: Scope, folder: int, parts: tuple[str, ...], rules: Ignore, secret: bool) -> Iterator[File]:
    rules = rules.inside(folder, len(parts))
    folders: list[str] = []
    hidden, ignores = scope.glob.hidden, rules.ignores
    fits = None if scope.glob.everything and not hidden else scope.glob
    path, below = ("".join(f"{part}/" for part in some) for some in (parts, parts[len(scope.start.parts) :]))
    for entry in _entries(folder):
        scope.check()
        name = entry.name
        if name.startswith(".") and not hidden:
            continue
        if entry.is_dir(follow_symlinks=False):
            if not ignores(parts, name, True):
                folders.append(name)
        elif not entry.is_file(follow_symlinks=False) or (fits is not None and not fits(below + name)):
            continue
        elif not ignores(parts, name, False):
            yield File(folder, path + name, entry, secret or scope.secret((name,)))
    if len(parts) - len(scope.start.parts) >= DEEPEST:
        return
    for name in folders:
        if (inner := _open(name, folder, os.O_DIRECTORY)) is not None:
            try:
                yield from _below(scope, inner, (*parts, name), rules, secret or scope.secret((name,)))
            finally:
                os.close(inner)


def _entries(folder: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        _refuse_full(error)
        return []


def _open(name: str, folder: int, flags: int = 0) -> int | None:
    """None for what is gone, or may not be read."""
    try:
        return os.open(name, _OPEN | flags, dir_fd=folder)
    except OSError as error:
        _refuse_full(error)
        return None


def _refuse_full(error: OSError) -> None:
    if error.errno in _FULL:
        raise Unavailable("The search had to stop: too many files are open. Try again.") from None


def search(scope: Scope, needle: Needle, want: Want) -> Found:
    """Look for something in the files of a scope."""
    matcher, found = needle.matcher(scope.stop), Found()
    for file in walk(scope):
        if file.secret or scope.private(file.parts):
            found.left_out += 1
            continue
        if (descriptor := _open(file.entry.name, file.folder)) is None:
            continue
        try:
            search_in(found, file.parts, descriptor, matcher, needle, want)
        finally:
            os.close(descriptor)
        if found.truncated:
            break
    found.by_path()
    found.slow_lines = matcher.slow_lines
    return found


def search_in(
    found: Found, parts: tuple[str, ...], descriptor: int, matcher: Matcher, needle: Needle, want: Want
) -> bool:
    """Look for something in one open file; False if it is no text."""
    found.searched += 1
    if (data := text_of(descriptor)) is None:
        return False
    spans = _across(data, matcher) if needle.across else _by_line(data, matcher)
    if want.mode == "content":
        some = list(islice(spans, want.most - found.count + 1))
        file = InFile(parts, len(some), _lines(data, some, want.context))
    else:
        file = InFile(parts, sum(1 for _ in (spans if want.mode == "count" else islice(spans, 1))))
    if file.count:
        found.add(file, want)
    return True


# One file


def text_of(descriptor: int) -> bytes | None:
    """A file's text in UTF-8, its lines ending in `\\n`; None for a file that is too large, binary or none at all."""
    try:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return None
        data = unmarked(all_of(descriptor, status.st_size))
    except OSError:
        return None
    if b"\0" in data:
        return None
    return data.replace(b"\r\n", b"\n") if b"\r\n" in data else data


def all_of(descriptor: int, size: int = 0) -> bytes:
    """What an open file holds; it may grow while it is read, but not without end."""
    data = os.read(descriptor, size + 1)
    while len(data) <= LARGEST and (more := os.read(descriptor, _MORE)):
        data += more
    return data


def unmarked(data: bytes) -> bytes:
    """In UTF-8 and without the mark that a file may begin with, which says how it is encoded."""
    for mark, codec in _MARKS:
        if data.startswith(mark):
            data = data[len(mark) :]
            return data if codec == "utf-8" else data.decode(codec, "replace").encode()
    return data


def _by_line(data: bytes, matcher: Matcher) -> Iterator[tuple[int, int]]:
    """The first match of every line that has one."""
    if b"\r" in data:
        yield from _by_piece(data, matcher)
        return
    at, last = 0, len(data) - data.endswith(b"\n")  # behind the last line's end there is no line
    while at < len(data) and (span := matcher.find(data, at)) is not None and span[0] <= last:
        yield span
        at = _line_end(data, span[0]) + 1


def _by_piece(data: bytes, matcher: Matcher) -> Iterator[tuple[int, int]]:
    """The same where there are carriage returns without a newline: no match goes over one."""
    at, end, within = 0, _line_end(data, 0), False
    while at < len(data) or within:  # behind a last carriage return there is an empty piece
        cut = data.find(b"\r", at, end)
        span = matcher.find(data[at : end if cut < 0 else cut])
        if span is not None:
            yield at + span[0], at + span[1]
        within = span is None and cut >= 0
        at, end = (cut + 1, end) if within else (end + 1, _line_end(data, end + 1))


def _across(data: bytes, matcher: Matcher) -> Iterator[tuple[int, int]]:
    at, last = 0, len(data) - data.endswith(b"\n")
    while at < len(data) and (span := matcher.find(data, at)) is not None and span[0] <= last:
        yield span
        at = max(span[1], span[0] + 1)


def _lines(data: bytes, spans: list[tuple[int, int]], context: int) -> list[Line]:
    """The lines with matches, and those around them; each line once."""
    lines, number, counted, shown = list[Line](), 1, 0, 0
    for place, (at, end) in enumerate(spans):
        start = data.rfind(b"\n", 0, at) + 1
        number, counted = number + data.count(b"\n", counted, start), start
        stop = _line_end(data, start)
        lines += _before(data, start, number, min(context, number - shown - 1))
        lines.append(line(number, data[start:stop], at - start, data[at : min(end, at + REACH)]))
        following = spans[place + 1][0] if place + 1 < len(spans) else len(data) + 1
        more = min(data.count(b"\n", at, end), _TALLEST)  # a match may go on in the next lines
        after = _after(data, at, number, more + context, following)
        lines += after
        shown = after[-1].number if after else number
    return lines


def _line_end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _before(data: bytes, start: int, number: int, count: int) -> list[Line]:
    lines: list[Line] = []
    while count > 0 and start > 0:
        end = start - 1
        start = data.rfind(b"\n", 0, end) + 1
        number, count = number - 1, count - 1
        lines.append(around(number, data[start:end]))
    return lines[::-1]


def _after(data: bytes, at: int, number: int, count: int, following: int) -> list[Line]:
    """Lines behind a match, up to the one with the next match."""
    lines: list[Line] = []
    start = _line_end(data, at) + 1
    while count > 0 and start < len(data) and (end := _line_end(data, start)) < following:
        number, count = number + 1, count - 1
        lines.append(around(number, data[start:end]))
        start = end + 1
    return lines
