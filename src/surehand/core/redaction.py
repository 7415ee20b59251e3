"""Redaction: masks known secrets in texts, in all usual encodings.

Runtimes mask the secrets that their developer names, and MCP connections those of their server's configuration. A
secret is searched for in many forms: as it is, and as each usual encoding writes it (`_encoded_forms` has the list). It
is also found where line breaks, colours or the frame of a table stand within it. A program that hides a secret on
purpose, for example reversed or in two texts, is not stopped.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from surehand.core.sanitize import ANSI_SEQUENCE, HIDDEN_CHARACTERS

REDACTION_MASK = "[redacted]"
MIN_LINE_CHARS = 8
"""A secret of several lines, such as a private key, is also masked line by line: every line of at least this length."""
MIN_SPLIT_CHARS = 8
"""A form of at least this length is also found with white space in it; a shorter one would match ordinary words."""
_MIN_FRAGMENT_CHARS = 8
"""Shortest piece of base64 or base32 that is searched for; a shorter one occurs by chance."""
_MAX_FORM_CHARS = 20_000

# Rows of these may stand within a secret that was wrapped, coloured or framed: box drawing is that of rich tracebacks.
_IGNORED_CHARACTERS = rf"[\s\u2500-\u257f{HIDDEN_CHARACTERS}]"
_IGNORED_RUN = re.compile(rf"(?:{ANSI_SEQUENCE}|{_IGNORED_CHARACTERS})+")
# A sequence may hold a secret, such as the address of a link, or take the first letter of one that stands after a lone
# ESC: so a text with sequences is searched a second time, with only their controls left out.
_IGNORED_CHARACTER_RUN = re.compile(f"{_IGNORED_CHARACTERS}+")
_SEQUENCE_START = re.compile("[\x1b\x90\x98\x9b\x9d-\x9f]")

_WITHOUT_SPACES = dict.fromkeys(map(ord, " \t\n\v\f\r"))
_WITHOUT_CONTROLS = dict.fromkeys((*range(0x21), 0x7F))
_ASCII_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f]")


class Redactor:
    """Masks the secrets that were added to it."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self._forms: tuple[str, ...] = ()
        """In lower case; those of at least `MIN_SPLIT_CHARS` without white space."""
        self._short_forms: tuple[str, ...] = ()
        self._words: set[str] = set()
        """In lower case; masked only where they stand alone."""
        self._word_pattern: re.Pattern[str] | None = None
        self._min_form_chars = 0
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Mask these from now on; empty texts are ignored."""
        new = {secret for secret in secrets if secret.strip()} - self._secrets
        if not new:
            return
        self._secrets |= new
        forms = {_lower_same_length(form) for secret in new for form in _all_forms(secret)}
        squeezed = {form: _IGNORED_RUN.sub("", form) for form in forms}
        candidates = (*squeezed.values(), *(_IGNORED_CHARACTER_RUN.sub("", form) for form in forms))
        long_forms = {short for short in candidates if len(short) >= MIN_SPLIT_CHARS}
        short_forms = {form for form, short in squeezed.items() if len(short) < MIN_SPLIT_CHARS}
        self._forms = _longest_first({*self._forms, *long_forms})
        self._short_forms = _longest_first({*self._short_forms, *short_forms})
        self._min_form_chars = min(map(len, (*self._forms, *self._short_forms, *self._words)))

    def add_word(self, secret: str) -> None:
        """Mask a short secret from now on, but only where no letter or digit is next to it: not `prod` in `product`."""
        if not secret.strip():
            return
        spellings = (secret, json.dumps(secret)[1:-1], quote(secret, safe=""), html.escape(secret))
        self._words |= {_lower_same_length(each) for each in spellings}
        choices = "|".join(map(re.escape, _longest_first(self._words)))
        self._word_pattern = re.compile(rf"(?<![^\W_])(?:{choices})(?![^\W_])")
        self._min_form_chars = min(map(len, (*self._forms, *self._short_forms, *self._words)))

    def __bool__(self) -> bool:
        return bool(self._secrets or self._words)

    @property
    def max_form_chars(self) -> int:
        """Characters of the longest form in which a secret is found."""
        return max((len(forms[0]) for forms in (self._forms, self._short_forms) if forms), default=0)

    def __call__(self, text: str) -> str:
        """The text with all secrets masked; the same object if it has none."""
        if not self or len(text) < self._min_form_chars or not self._may_hold_secret(text):
            return text
        return mask_spans(text, self.find_spans(text))

    def occurs_in(self, data: bytes) -> bool:
        """Whether a secret stands as it is in bytes that are no text, in which it cannot be masked."""
        return any(secret.encode(errors="surrogatepass") in data for secret in self._secrets)

    def redact_json(self, value: Any) -> Any:
        """A JSON value with the secrets in its texts and keys masked; the same object if it has none."""
        if isinstance(value, str):
            return self(value)
        if not self:
            return value
        if isinstance(value, Mapping):
            redacted = {self(str(key)): self.redact_json(item) for key, item in value.items()}
            is_same = all(redacted.get(key, redacted) is item for key, item in value.items())
            return value if is_same else redacted
        if isinstance(value, (list, tuple)):
            items = [self.redact_json(item) for item in value]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        return value

    def _may_hold_secret(self, text: str) -> bool:
        """Whether a form of a secret occurs in the text."""
        # One search for each form: on long texts that is much faster than one regular expression for all forms.
        lowered = _lower_same_length(text)
        if any(form in lowered for form in self._short_forms):
            return True
        if self._word_pattern is not None and self._word_pattern.search(lowered):
            return True
        for ignored in _ignored_patterns(lowered):
            squeezed = _strip_ignored(lowered, ignored)
            if any(form in squeezed for form in self._forms):
                return True
        return False

    def find_spans(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each secret in a text, in order and without overlap."""
        lowered = _lower_same_length(text)
        spans = [span for form in self._short_forms for span in _occurrences(form, lowered)]
        if self._word_pattern is not None:
            spans += [match.span() for match in self._word_pattern.finditer(lowered)]
        for ignored in _ignored_patterns(lowered):
            squeezed = _strip_ignored(lowered, ignored)
            found = [span for form in self._forms for span in _occurrences(form, squeezed)]
            places = (place for start, end in found for place in (start, end - 1))
            positions = _original_positions(lowered, places, ignored)
            spans += [(positions[start], positions[end - 1] + 1) for start, end in found]
        return _merge_spans(spans)

    def find_beginning(self, text: str) -> int | None:
        """Where, at the end of a text, at least half of a secret begins; None if there is no such beginning."""
        lowered = _lower_same_length(text)
        beginnings = (self._find_beginning(lowered, ignored) for ignored in _ignored_patterns(lowered))
        return min((start for start in beginnings if start is not None), default=None)

    def _find_beginning(self, lowered: str, ignored: re.Pattern[str]) -> int | None:
        squeezed = _strip_ignored(lowered, ignored)
        starts: list[int] = []
        for form in self._forms:
            half = form[: (len(form) + 1) // 2]
            start = squeezed.find(half, max(0, len(squeezed) - len(form)))
            while start >= 0 and not form.startswith(squeezed[start:]):
                start = squeezed.find(half, start + 1)
            if start >= 0:
                starts.append(start)
        return min(_original_positions(lowered, starts, ignored).values(), default=None)


class LineRedactor:
    """Masks secrets in the lines of a stream, also those that continue in the next line.

    A line is returned at once. If it ends with half of a secret or more, that part is masked, and so is the rest of it
    at the beginning of the next line.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._previous = ""

    def __call__(self, line: str) -> str:
        """The next line, masked."""
        if not self._redactor:
            return line
        previous = f"{self._previous}\n" if self._previous else ""
        joined = previous + line
        spans = self._redactor.find_spans(joined)  # may begin in the line before
        beginning = self._redactor.find_beginning(joined)
        if beginning is not None:
            spans = _merge_spans([*spans, (beginning, len(joined))])
        self._previous = joined[-self._redactor.max_form_chars :]
        start = len(previous)
        own = [(max(begin - start, 0), end - start) for begin, end in spans if end > start]
        return mask_spans(line, own)


def build_redactor(secrets: Iterable[str]) -> Callable[[str], str]:
    """Build a function that masks the secrets."""
    return Redactor(secrets)


def mask_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A text with these parts masked."""
    parts: list[str] = []
    last = 0
    for start, end in spans:
        parts += (text[last:start], REDACTION_MASK)
        last = end
    return "".join((*parts, text[last:]))


def _all_forms(secret: str) -> Iterator[str]:
    yield from _encoded_forms(secret)
    lines = [line.strip() for line in secret.splitlines()]
    if len(lines) > 1:  # a private key is printed, and logged, line by line
        for line in lines:
            if len(line) >= MIN_LINE_CHARS:
                yield from _encoded_forms(line)


def _encoded_forms(secret: str) -> Iterator[str]:
    """The spellings of a secret in the usual encodings. Case does not matter."""
    secret = secret[:_MAX_FORM_CHARS]
    raw = secret.encode(errors="surrogatepass")
    as_json = json.dumps(secret)[1:-1]
    yield from (secret, secret.strip(), as_json, as_json.replace("/", "\\/"))
    yield from (json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1], secret.replace("'", "'\"'\"'"))
    yield from (quote(raw, safe=""), quote(raw), quote_plus(raw), "".join(f"%{byte:02x}" for byte in raw))
    escaped = html.escape(secret)
    yield from (escaped, escaped.replace("&#x27;", "&#39;"), html.escape(secret, quote=False))
    yield from (raw.hex(), raw.hex(":"), "".join(f"\\x{byte:02x}" for byte in raw))
    for fragment in (*_fragments(raw, base64.b64encode, 6), *_fragments(raw, base64.b32encode, 5)):
        yield fragment
        yield fragment.replace("+", "-").replace("/", "_")
        yield quote(fragment, safe="")
        yield fragment.replace("/", "\\/")


def _fragments(raw: bytes, encode: Callable[[bytes], bytes], bits_per_char: int) -> Iterator[str]:
    """The characters of base64 or base32 that are the same whatever stands around a secret.

    They depend on the position of the secret in the encoded bytes: there is one form for each of the three, or five,
    positions that a group of characters can begin at.
    """
    for offset in range(3 if bits_per_char == 6 else 5):
        encoded = encode(b"\0" * offset + raw).decode()
        first = -(-offset * 8 // bits_per_char)
        end = (offset + len(raw)) * 8 // bits_per_char
        if end - first >= _MIN_FRAGMENT_CHARS:
            yield encoded[first:end]


def _lower_same_length(text: str) -> str:
    """Lower case of the same length, character by character, so that a position is the same in both."""
    # Lower case may be longer: U+0130, a dotted capital I, becomes two characters. That of a sigma depends on what
    # follows it, which is not the same for a secret and for a text that it stands in.
    lowered = text.replace("\u03a3", "\u03c3").lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(lower if len(lower := character.lower()) == 1 else character for character in text)


def _ignored_patterns(text: str) -> tuple[re.Pattern[str], ...]:
    """What is left out of a text when secrets are searched for: two ways if it may have escape sequences."""
    return (_IGNORED_RUN, _IGNORED_CHARACTER_RUN) if _SEQUENCE_START.search(text) else (_IGNORED_RUN,)


def _strip_ignored(text: str, ignored: re.Pattern[str]) -> str:
    """The text without white space and everything else that the pattern matches."""
    if text.isascii():  # a hundred times as fast, and the same
        if ignored is _IGNORED_CHARACTER_RUN:
            return text.translate(_WITHOUT_CONTROLS)
        if not _ASCII_CONTROL.search(text):
            return text.translate(_WITHOUT_SPACES)
    return ignored.sub("", text)


def _original_positions(text: str, stripped_positions: Iterable[int], ignored: re.Pattern[str]) -> dict[int, int]:
    """Where characters of the text that `_strip_ignored` leaves stand in the text itself, by where they stand there."""
    # Only those that are asked for: the positions of all characters take forty times the memory of the text.
    wanted = sorted(set(stripped_positions), reverse=True)
    positions: dict[int, int] = {}
    ignored_count = 0
    for start, end in _ignored_spans(text, ignored) if wanted else ():
        while wanted and wanted[-1] < start - ignored_count:
            positions[wanted[-1]] = wanted[-1] + ignored_count
            wanted.pop()
        if not wanted:
            break
        ignored_count += end - start
    return positions


def _ignored_spans(text: str, ignored: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """What `_strip_ignored` leaves out, and the end of the text."""
    yield from (match.span() for match in ignored.finditer(text))
    yield len(text), len(text)


def _occurrences(form: str, text: str) -> Iterator[tuple[int, int]]:
    start = text.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = text.find(form, start + 1)


def _merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _longest_first(forms: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(forms, key=len, reverse=True))
