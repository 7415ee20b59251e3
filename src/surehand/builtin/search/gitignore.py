"""IgnoreRules: which entries the `.gitignore` files of a tree exclude. Used by the walks of searches and of `list`."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from stat import S_ISREG

from surehand.builtin.search.globs import path_regex, segment_regex
from surehand.core.errors import ToolError
from surehand.workspace.path import WorkspacePath

GITIGNORE_NAME = ".gitignore"
_MAX_GITIGNORE_BYTES = 1 << 20
_PLAIN_NAME = re.compile(r"[^*?\[\]\\/]+")
_SUFFIX_GLOB = re.compile(r"\*\.([^*?\[\]\\/.]+)")


@dataclass(frozen=True, slots=True)
class _IgnoreRule:
    """One line of a `.gitignore` file."""

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
    """The rules of a directory and of its parents. Later lines win over earlier ones, inner directories over outer."""

    def __init__(self, text: str = "", depth: int = 0, outer: IgnoreRules | None = None) -> None:
        self._depth = depth
        self.outer = outer
        self._rules_by_name: dict[str, list[_IgnoreRule]] = defaultdict(list)
        self._rules_by_suffix: dict[str, list[_IgnoreRule]] = defaultdict(list)
        self._other_rules: list[_IgnoreRule] = []
        for number, line in enumerate(text.removeprefix("\ufeff").split("\n")):
            with suppress(ToolError, re.error):  # an invalid line is ignored, as git does
                self._add_line(number, line.removesuffix("\r"))

    @classmethod
    def above(cls, path: WorkspacePath) -> IgnoreRules:
        """The rules of the directories above a directory, from the root of the workspace on."""
        rules = cls()
        for depth in range(len(path.parts)):
            parent = replace(path, parts=path.parts[:depth])
            with parent.open_context(os.O_RDONLY | os.O_DIRECTORY) as directory:
                rules = rules.for_directory(directory, depth)
        return rules

    def for_directory(self, directory: int, depth: int) -> IgnoreRules:
        """The rules inside a directory: these, and those of its own `.gitignore`."""
        text = _read_gitignore(directory)
        return IgnoreRules(text, depth, self) if text else self

    def ignores(self, directory_parts: tuple[str, ...], name: str, is_directory: bool) -> bool:
        """Whether an entry is excluded; its directory is not excluded itself."""
        rules: IgnoreRules | None = self
        while rules is not None:
            decision = rules.own_decision(directory_parts, name, is_directory)
            if decision is not None:
                return decision
            rules = rules.outer
        return False

    def own_decision(self, directory_parts: tuple[str, ...], name: str, is_directory: bool) -> bool | None:
        """The decision of this directory's rules alone: excluded, included again, or None."""
        last: _IgnoreRule | None = None
        path = ""
        # Of all lines that match, the last one decides, as in git.
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
        if not line or line.startswith("#"):
            return
        is_negated = line.startswith("!")
        line = line[is_negated:].replace("\\/", "/")
        directories_only = line.endswith("/")
        line = line.removesuffix("/")
        is_anchored = "/" in line
        line = line.removeprefix("/")
        if not line:
            return
        segments = line.split("/")
        if segments[0] == "**" and len(segments) == 2 and segments[1] != "**":
            # `**/name` matches in every directory, so the name alone decides.
            is_anchored = False
            segments = segments[1:]
        if not is_anchored:
            self._add_name(_IgnoreRule(line_number, is_negated, directories_only), segments[0])
        else:
            regex = re.compile(path_regex(segments, match_hidden=True), re.DOTALL)
            self._other_rules.append(_IgnoreRule(line_number, is_negated, directories_only, True, regex))

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
    stripped = line.rstrip(" \t")
    is_escaped = stripped.endswith("\\") and stripped != line  # `\ ` at the end is a space of the name
    return f"{stripped} " if is_escaped else stripped


def _read_gitignore(directory: int) -> str:
    """The text of a directory's `.gitignore`; empty if it is missing, a link or a FIFO."""
    try:
        file = os.open(GITIGNORE_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return ""
    try:
        if not S_ISREG(os.fstat(file).st_mode):
            return ""
        return os.read(file, _MAX_GITIGNORE_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    finally:
        os.close(file)
