"""Ignore: what the `.gitignore` files of a tree leave out, asked entry by entry on the way down."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from stat import S_ISREG

from surehand.builtin.globs import path_regex, segment_regex
from surehand.core.errors import ToolError

NAME = ".gitignore"
_LARGEST = 1 << 20
_PLAIN_NAME = re.compile(r"[^*?\[\]\\/]+")
_SUFFIX = re.compile(r"\*\.([^*?\[\]\\/.]+)")


@dataclass(frozen=True, slots=True)
class _Rule:
    number: int
    keeps: bool
    folders_only: bool
    anchored: bool = False
    regex: re.Pattern[str] | None = None

    def fits(self, name: str, path: str, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        return self.regex is None or self.regex.fullmatch(path if self.anchored else name) is not None


class Ignore:
    """The rules of one folder and of those around it. Later lines win, and so do inner folders."""

    def __init__(self, text: str = "", depth: int = 0, outer: Ignore | None = None) -> None:
        self._depth, self.outer = depth, outer
        self._names: dict[str, list[_Rule]] = defaultdict(list)
        self._suffixes: dict[str, list[_Rule]] = defaultdict(list)
        self._others: list[_Rule] = []
        for number, line in enumerate(text.removeprefix("\ufeff").split("\n")):
            with suppress(ToolError, re.error):  # a line that makes no sense is as good as none
                self._add(number, line.removesuffix("\r"))

    def inside(self, folder: int, depth: int) -> Ignore:
        """The rules within a folder, whose own file may add some."""
        text = _read(folder)
        return Ignore(text, depth, self) if text else self

    def ignores(self, folder: tuple[str, ...], name: str, is_folder: bool) -> bool:
        """Whether an entry of a folder, itself not ignored, is left out."""
        rules: Ignore | None = self
        while rules is not None:
            if (verdict := rules.own_verdict(folder, name, is_folder)) is not None:
                return verdict
            rules = rules.outer
        return False

    def own_verdict(self, folder: tuple[str, ...], name: str, is_folder: bool) -> bool | None:
        """What the rules of this folder alone say: ignored, kept, or nothing."""
        last, path = None, ""
        for rule in self._candidates(name):
            if rule.anchored and not path:
                path = "/".join((*folder[self._depth :], name))
            if (last is None or rule.number > last.number) and rule.fits(name, path, is_folder):
                last = rule
        return None if last is None else not last.keeps

    def _candidates(self, name: str) -> Iterator[_Rule]:
        if self._names:
            yield from self._names.get(name, ())
        if self._suffixes and "." in name:
            yield from self._suffixes.get(name.rpartition(".")[2], ())
        yield from self._others

    def _add(self, number: int, line: str) -> None:
        line = _without_trailing_spaces(line)
        keeps = line.startswith("!")
        if not line or line.startswith("#"):
            return
        line = line[keeps:].replace("\\/", "/")
        folders_only, line = line.endswith("/"), line.removesuffix("/")
        anchored, line = "/" in line, line.removeprefix("/")
        segments = line.split("/")
        if segments[0] == "**" and len(segments) == 2 and segments[1] != "**":
            anchored, segments = False, segments[1:]  # any folder: the name decides
        if not line:
            return
        if not anchored:
            self._add_name(_Rule(number, keeps, folders_only), segments[0])
        else:
            regex = re.compile(path_regex(segments, dots=True), re.DOTALL)
            self._others.append(_Rule(number, keeps, folders_only, True, regex))

    def _add_name(self, rule: _Rule, glob: str) -> None:
        if _PLAIN_NAME.fullmatch(glob):
            self._names[glob].append(rule)
        elif suffix := _SUFFIX.fullmatch(glob):
            self._suffixes[suffix[1]].append(rule)
        else:
            regex = re.compile(segment_regex(glob, dots=True), re.DOTALL)
            self._others.append(_Rule(rule.number, rule.keeps, rule.folders_only, False, regex))


def _without_trailing_spaces(line: str) -> str:
    bare = line.rstrip(" \t")
    return f"{bare} " if bare.endswith("\\") and bare != line else bare


def _read(folder: int) -> str:
    """The folder's own file; nothing where there is none, or it is a link or a FIFO."""
    try:
        file = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return ""
    try:
        return os.read(file, _LARGEST).decode("utf-8", "surrogateescape") if S_ISREG(os.fstat(file).st_mode) else ""
    except OSError:
        return ""
    finally:
        os.close(file)
