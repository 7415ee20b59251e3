"""Sanitizing of text from outside, for models, for people at a terminal, for logs and for JSON.

There are three ways to treat an invisible character. `escape_*` writes it as an escape (`\\u202e`), for people who have
to judge a text; `clean_*` and `strip_*` remove it, for models; `has_*` only finds it, for names and values that must be
refused instead of changed.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

MAX_TEXT_CHARS = 4_000
"""Characters of a description."""
MAX_TITLE_CHARS = 200
"""Characters of a title, a label or an address."""
MAX_LOG_CHARS = 500
"""Characters of one line that another program printed, in our log."""

# Character classes, to stand inside the brackets of a regular expression.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 without tab and line feed
_BIDI = "\u202a-\u202e\u2066-\u2069"  # embeddings, overrides, isolates: a text reads in another order than it is stored
_TAGS = "\U000e0000-\U000e0fff"  # tags, variation selectors 17 to 256: text that models read and no screen shows
_SEPARATORS = "\u2028\u2029"  # line breaks that most programs do not show as breaks
_SURROGATES = "\ud800-\udfff"  # halves of a pair: no UTF-8 can hold them
_VARIATIONS = "\ufe00-\ufe0f"  # variation selectors; emoji need one, and rows of them carry hidden text
_MARKS = "\u061c\u200e\u200f"  # marks of direction: they move punctuation on a screen, and models do not need them
_JOINERS = "\u200b-\u200d"  # word break, non-joiner and joiner, which some scripts and emoji need
_NEEDLESS = (  # no width or no ink, and neither scripts nor emoji need them: soft hyphen, word joiner, BOM ...
    "\xad\u034f\u17b4\u17b5\u180e\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d159\U0001d173-\U0001d17a"
)
_FILLERS = "\u115f\u1160\u180b-\u180d\u180f\u2800"  # without ink, and needed by old Korean, Mongolian and braille only
_INVISIBLE = _NEEDLESS + _MARKS + _JOINERS + _SEPARATORS + _VARIATIONS + _FILLERS
_BLANK_BUT_PRINTABLE = (
    "\u034f\u17b4\u17b5\u180e\u3164\uffa0" + _FILLERS + _VARIATIONS + _TAGS
)  # str.isprintable() is true
HIDDEN_CHARACTERS = _CONTROLS + _BIDI + _TAGS + _INVISIBLE
"""A character class without its brackets: all characters that a screen does not show."""

# Where an invisible character changes how its neighbours are read or drawn:
_JOINING_SCRIPTS = (  # Arabic, Syriac, N'Ko and the scripts of India, Tibet, Mongolia and their neighbours
    "\u0600-\u06ff\u0700-\u07ff\u0840-\u08ff\u0900-\u0dff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1820-\u18aa"
    "\u1980-\u19df\ua840-\ua87f\ua8e0-\ua8ff\uaa00-\uaadf\ufb50-\ufdff\ufe70-\ufefe\U00011000-\U00011fff"
)
_UNSPACED_SCRIPTS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u1aaf"  # Thai, Lao, Myanmar, Khmer, Tai Tham ...
_PICTURES = (
    "\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
# The flags of England, Scotland and Wales, the only emoji that are written with tags.
_TAGGED_FLAG = (
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f"
)

ANSI_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, the cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS: titles, links ...
    r"|\x1b[ -/]*[0-Z\\^-~]"  # all other sequences of ESC
)
"""A regular expression of the escape sequences that terminals take for commands."""
_ANSI = re.compile(ANSI_SEQUENCE)
_ANSI_START = re.compile("[\x1b\x90\x98\x9b\x9d-\x9f]")
_RETURNS = re.compile("\r\n?")
_LINE_BREAKS = re.compile("\r\n?|[\x85\u2028\u2029]")
_CONTROL = re.compile(f"[{_CONTROLS}]")
_ASCII_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_SURROGATE = re.compile(f"[{_SURROGATES}]")
_HIDDEN_IN_NAME = re.compile(f"[\t\n{HIDDEN_CHARACTERS}{_SURROGATES}]")
_SMUGGLED = re.compile(f"[\x1b\x9b{_BIDI}{_TAGS}]")
_SUSPECT = re.compile(f"[{HIDDEN_CHARACTERS}{_SURROGATES}]")
# All hidden characters but controls, except where one is needed. Each needs a neighbour that is visible, so that no two
# of them stand in a row.
_NEEDLESS_HIDDEN = re.compile(
    f"(?P<flag>{_TAGGED_FLAG})|[{_BIDI}{_TAGS}{_SEPARATORS}{_MARKS}{_NEEDLESS}\ufe00-\ufe0d]"
    f"|(?<![{_PICTURES}])(?!(?<=[0-9#*])\ufe0f\u20e3)[\ufe0e\ufe0f]"  # also needed in a keycap, such as 1 + FE0F + 20E3
    f"|(?<![{_JOINING_SCRIPTS}])(?!(?:(?<=[{_PICTURES}])|(?<=[{_PICTURES}]\ufe0f))\u200d[{_PICTURES}])\u200d"
    f"|(?<![{_JOINING_SCRIPTS}])\u200c|\u200c(?![{_JOINING_SCRIPTS}])"
    f"|(?<![{_UNSPACED_SCRIPTS}])\u200b|\u200b(?![{_UNSPACED_SCRIPTS}])"
    "|(?<![\u1820-\u18aa])[\u180b-\u180d\u180f]"
    "|(?<![\u1100-\u115e])\u1160|\u115f(?![\u1161-\u11ff])"
    "|(?<![\u2800-\u28ff])\u2800+(?![\u2800-\u28ff])"
)
_BLANK = re.compile(f"[{_BLANK_BUT_PRINTABLE}]")
_NOT_ASCII_TEXT = re.compile("[^\n\t\x20-\x7e]+")
_NOT_ASCII_LINE = re.compile("[^\x20-\x7e]+")

WIDE_SPACES = re.compile(r"[^\S\n]{40,}")
"""Spaces that push text out of sight to the right."""
BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n){2,}")
"""Empty lines that push text out of sight below."""

_JOINER = "\u200d"
_TEXT_STYLE = "\ufe0e"
_EMOJI_STYLE = "\ufe0f"
_KEYCAPS = frozenset("0123456789#*")
_PICTURE_CATEGORIES = ("So", "Sk", "Sm", "Po")
# Between these are pictures only, also those that this Python does not know yet.
_FIRST_PICTURE = "\U0001f000"
_LAST_PICTURE = "\U0001faff"


def escape_unprintable(text: str) -> str:
    """Escape all control, bidirectional and invisible characters, as `\\u202e`; line breaks and tabs stay."""
    return text if _is_visible(text) else _NOT_ASCII_TEXT.sub(_escape_run, text)


def escape_line(text: str | bytes, max_chars: int | None = None) -> str:
    """One line for a log or a person: `escape_unprintable`, with line breaks and tabs escaped too, and cut if long."""
    if isinstance(text, bytes):
        # A character has at most four bytes, so this much is enough to see whether the text is too long.
        start = text if max_chars is None else text[: 4 * (max_chars + 1)]
        text = start.decode(errors="backslashreplace")
    if max_chars is not None and len(text) > max_chars:
        text = f"{text[:max_chars]}..."
    return escape_unprintable(text).replace("\n", "\\n").replace("\t", "\\t")


def escape_as_json(text: str) -> str:
    """Escape all invisible characters as JSON does, also joiners in emoji and unusual spaces.

    JSON text stays the same JSON, and two texts that differ never look alike only because a difference has no ink.
    """
    return text if text.isascii() and text.isprintable() else _NOT_ASCII_LINE.sub(_escape_run_as_json, text)


def escape_terminal_output(text: str) -> str:
    """The output of a command, without ANSI sequences; other controls are U+FFFD, invisible characters `\\u{202e}`."""
    if not _is_suspect(text):
        return text
    text = _CONTROL.sub("\ufffd", _RETURNS.sub("\n", strip_ansi(text)))
    return _NEEDLESS_HIDDEN.sub(_escape_hidden, text)


def strip_hidden(text: str) -> str:
    """Text for a model, without control, bidirectional and invisible characters.

    Invisible characters stay where a script or an emoji needs them, one at a time: joiners in Arabic, Persian and the
    scripts of India, word breaks in Thai and Khmer, joiners and variation selectors within emoji. Marks of direction
    are removed everywhere: they only move punctuation on a screen.
    """
    if not _is_suspect(text):
        return text
    seen = _CONTROL.sub("", _normalize(text))
    return seen if seen.isascii() else _NEEDLESS_HIDDEN.sub(_remove_hidden, seen)


def clean_text(text: object, max_chars: int = MAX_TEXT_CHARS) -> str:
    """A description that a model reads as a person sees it. A long one is cut, with a note. Other types give "".

    Stricter than `strip_hidden`: it also removes space that pushes words out of sight.
    """
    if not isinstance(text, str):
        return ""
    start = text[: 4 * max_chars]  # a very long text is not scanned to its end
    seen = BLANK_LINES.sub("\n\n", WIDE_SPACES.sub(" ", strip_hidden(start))).strip()
    if len(seen) <= max_chars and len(start) == len(text):
        return seen
    return f"{seen[:max_chars].rstrip()} [cut: {len(text):,} characters in all]"


def clean_line(text: object, max_chars: int = MAX_TITLE_CHARS) -> str:
    """`clean_text` on one line, for titles, labels and addresses; a long line ends with dots."""
    if not isinstance(text, str):
        return ""
    words = " ".join(strip_hidden(text[: 4 * max_chars]).split())
    return words if len(words) <= max_chars else f"{words[: max_chars - 3].rstrip()}..."


def strip_ansi(text: str) -> str:
    """Remove ANSI escape sequences."""
    return _ANSI.sub("", text) if _ANSI_START.search(text) else text


def has_hidden_characters(name: str) -> bool:
    """Whether a name has invisible characters; in a name, line breaks and tabs count as such."""
    return _HIDDEN_IN_NAME.search(name) is not None


def has_smuggling_characters(value: str) -> bool:
    """Whether a value that must not be changed has characters that no honest value needs: ESC, overrides or tags."""
    return _SMUGGLED.search(value) is not None


def replace_surrogates(text: str) -> str:
    """Text that JSON and UTF-8 can hold: each lone surrogate becomes a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def replace_surrogates_in(value: Any) -> Any:
    """`replace_surrogates` for all strings and keys of a value that is plain JSON otherwise."""
    match value:
        case str():
            return replace_surrogates(value)
        case Mapping():
            return {replace_surrogates(str(key)): replace_surrogates_in(each) for key, each in value.items()}
        case list() | tuple():
            return [replace_surrogates_in(each) for each in value]
    return value


def _is_suspect(text: str) -> bool:
    """Whether anything may have to be changed. Most texts are clean, and this check takes a tenth of the time."""
    return (_ASCII_CONTROL if text.isascii() else _SUSPECT).search(text) is not None


def _normalize(text: str) -> str:
    """Remove ANSI sequences, make all line breaks `\\n`, and replace lone surrogates by U+FFFD."""
    return _SURROGATE.sub("\ufffd", _LINE_BREAKS.sub("\n", strip_ansi(text)))


def _remove_hidden(match: re.Match[str]) -> str:
    if match["flag"]:
        return match[0]
    return " " if match[0][0] == "\u2800" else ""  # a blank braille cell is a space


def _escape_hidden(match: re.Match[str]) -> str:
    return match[0] if match["flag"] else "".join(f"\\u{{{ord(character):x}}}" for character in match[0])


def _is_visible(text: str) -> bool:
    return text.isprintable() and (text.isascii() or not _BLANK.search(text))


def _escape_run(match: re.Match[str]) -> str:
    if _is_visible(match[0]):
        return match[0]
    return "".join(_escape_character(match.string, place) for place in range(*match.span()))


def _escape_run_as_json(match: re.Match[str]) -> str:
    if _is_visible(match[0]):
        return match[0]
    return "".join(character if _is_visible(character) else json.dumps(character)[1:-1] for character in match[0])


def _escape_character(text: str, place: int) -> str:
    character = text[place]
    if _is_visible(character) or unicodedata.category(character) == "Zs" or _is_part_of_emoji(text, place):
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _is_part_of_emoji(text: str, place: int) -> bool:
    """Whether a character is a pictograph, a joiner between two, or a variation selector behind one."""
    character = text[place]
    before = text[place - 1 : place]
    after = text[place + 1 : place + 2]
    if _FIRST_PICTURE <= character <= _LAST_PICTURE:
        return True
    if character == _JOINER:
        return _is_picture(after) and (_is_picture(before) or before == _EMOJI_STYLE)
    return character in (_TEXT_STYLE, _EMOJI_STYLE) and (_is_picture(before) or before in _KEYCAPS)


def _is_picture(character: str) -> bool:
    return character != "" and unicodedata.category(character) in _PICTURE_CATEGORIES and not character.isascii()
