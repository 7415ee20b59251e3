"""Ignore: what the `.gitignore` files of a tree leave out, asked entry by entry on the way down."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from stat import S_ISREG

from surehand.builtin.search.globs import path_regex, segment_regex
from surehand.core.errors import ToolError

GITIGNORE_NAME = ".gitignore"
_MAX_GITIGNORE_BYTES = 1 << 20
_PLAIN_NAME = re.compile(r"[^*?\[\]\\/]+")
_SUFFIX_GLOB = re.compile(r"\*\.([^*?\[\]\\/.]+)")


@dataclass(frozen=True, slots=True)
class _IgnoreRule:
    line_number: int
    is_negated: bool
    directories_only: bool
    is_anchored: bool = False
    regex: re.Pattern[str] | None = None

    def matches(self, name: str, path: str, is_directory: bool) -> bool:
        if self.directories_only and not is_directory:
            return False
        return self.regex is None or self.regex.fullmatch(path if self.is_anchored else name) is not None


class IgnoreRules:
    """The rules of one folder and of those around it. Later lines win, and so do inner folders."""

    def __init__(self, text: str = "", depth: int = 0, outer: IgnoreRules | None = None) -> None:
        self._depth, self.outer = depth, outer
        self._rules_by_name: dict[str, list[_IgnoreRule]] = defaultdict(list)
        self._rules_by_suffix: dict[str, list[_IgnoreRule]] = defaultdict(list)
        self._other_rules: list[_IgnoreRule] = []
        for number, line in enumerate(text.removeprefix("\ufeff").split("\n")):
            with suppress(ToolError, re.error):  # a line that makes no sense is as good as none
                self._add_line(number, line.removesuffix("\r"))

    def for_directory(self, directory: int, depth: int) -> IgnoreRules:
        """The rules within a folder, whose own file may add some."""
        text = _read_gitignore(directory)
        return IgnoreRules(text, depth, self) if text else self

    def ignores(self, directory_parts: tuple[str, ...], name: str, is_directory: bool) -> bool:
        """Whether an entry of a folder, itself not ignored, is left out."""
        rules: IgnoreRules | None = self
        while rules is not None:
            if (verdict := rules.own_decision(directory_parts, name, is_directory)) is not None:
                return verdict
            rules = rules.outer
        return False

    def own_decision(self, directory_parts: tuple[str, ...], name: str, is_directory: bool) -> bool | None:
        """What the rules of this folder alone say: ignored, kept, or nothing."""
        last, path = None, ""
        for rule in self._candidates(name):
            if rule.is_anchored and not path:
                path = "/".join((*directory_parts[self._depth :], name))
            if (last is None or rule.line_number > last.line_number) and rule.matches(name, path, is_directory):
                last = rule
        return None if last is None else not last.is_negated

    def _candidates(self, name: str) -> Iterator[_IgnoreRule]:
        if self._rules_by_name:
            yield from self._rules_by_name.get(name, ())
        if self._rules_by_suffix and "." in name:
            yield from self._rules_by_suffix.get(name.rpartition(".")[2], ())
        yield from self._other_rules

    def _add_line(self, line_number: int, line: str) -> None:
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
            self._add_name(_IgnoreRule(line_number, keeps, folders_only), segments[0])
        else:
            regex = re.compile(path_regex(segments, match_hidden=True), re.DOTALL)
            self._other_rules.append(_IgnoreRule(line_number, keeps, folders_only, True, regex))

    def _add_name(self, rule: _IgnoreRule, glob: str) -> None:
        if _PLAIN_NAME.fullmatch(glob):
            self._rules_by_name[glob].append(rule)
        elif suffix := _SUFFIX_GLOB.fullmatch(glob):
            self._rules_by_suffix[suffix[1]].append(rule)
        else:
            regex = re.compile(segment_regex(glob, match_hidden=True), re.DOTALL)
            self._other_rules.append(
                _IgnoreRule(rule.line_number, rule.is_negated, rule.directories_only, False, regex)
            )


def _without_trailing_spaces(line: str) -> str:
    bare = line.rstrip(" \t")
    return f"{bare} " if bare.endswith("\\") and bare != line else bare


def _read_gitignore(directory: int) -> str:
    """The folder's own file; nothing where there is none, or it is a link or a FIFO."""
    try:
        file = os.open(GITIGNORE_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return ""
    try:
        return (
            os.read(file, _MAX_GITIGNORE_BYTES).decode("utf-8", "surrogateescape")
            if S_ISREG(os.fstat(file).st_mode)
            else ""
        )
    except OSError:
        return ""
    finally:
        os.close(file)
