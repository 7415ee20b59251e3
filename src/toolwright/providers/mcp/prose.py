"""Prose: words that a server wrote, with nothing in them that a person could not see."""

from __future__ import annotations

import re

MOST, MOST_TITLE = 4_000, 200
"""Characters of a description, and of a title."""

_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, the cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # titles, links and so on
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
_BREAKS = re.compile("\r\n?|[\x85\u2028\u2029]")
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_TURNS = "\u202a-\u202e\u2066-\u2069"
_TAGS = "\U000e0000-\U000e0fff"
_UNSEEN = (  # no width, no ink, or only a direction; variation selectors too: texts are hidden in rows of them
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028\u2029\u2060-\u2065\u206a-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
_JOINERS, _VARIANTS = "\u200c-\u200f", "\ufe00-\ufe0f"
_BLANK = (  # of those, the ones that no script and no emoji needs
    "\xad\u034f\u061c\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a"
)
_FAINT = re.compile(f"[{_BLANK}{_JOINERS}{_VARIANTS}]")
_IDLE = re.compile(
    f"[{_BLANK}]"
    f"|[{_JOINERS}{_VARIANTS}]{{3,}}|(?<=[{_VARIANTS}])[{_VARIANTS}]"  # in rows
    f'|(?<![^\\x00-"$-)+-/:-\x7f])[{_VARIANTS}]'  # behind what comes in one form only; digits, # and * have two
    "|(?<=[\x00-\x7f])[\u200c\u200d](?=[\x00-\x7f])"
)
_LONE = re.compile("[\ud800-\udfff]")
_COVERT = re.compile(f"[{_CONTROLS}{_TURNS}{_TAGS}]")
_HIDDEN = re.compile(f"[{_CONTROLS}{_TURNS}{_TAGS}{_UNSEEN}]")
_SMUGGLED = re.compile(f"[\x1b\x9b{_TURNS}{_TAGS}]")
_NAME = re.compile(f"[\t\n{_CONTROLS}{_TURNS}{_TAGS}{_UNSEEN}\ud800-\udfff]")
_SPACES, _LINES = re.compile(r"[^\S\n]{40,}"), re.compile(r"\n(?:[^\S\n]*\n){2,}")


def plain(text: str) -> str:
    """A result as a model may read it: every character that can be seen, nothing that steers, turns about or hides.

    What has no ink and yet is needed, in scripts and in emoji, stays where it is needed: joiners, marks of direction
    and variation selectors, one at a time.
    """
    if text.isascii() and text.isprintable():
        return text
    seen = _COVERT.sub("", _steady(text))
    return seen if seen.isascii() or not _FAINT.search(seen) else _IDLE.sub("", seen)


def told(text: object, most: int = MOST) -> str:
    """A description as a model may trust it to be what a person sees; what is cut off is told."""
    if not isinstance(text, str):
        return ""
    cut = text[: 4 * most]  # so that a flood is not looked through to its end
    seen = _HIDDEN.sub("", _steady(cut))
    # What stands far to the right or far below is hidden from people, too.
    seen = _LINES.sub("\n\n", _SPACES.sub(" ", seen)).strip()
    if len(seen) <= most and len(cut) == len(text):
        return seen
    return f"{seen[:most].rstrip()} [cut: {len(text):,} characters in all]"


def line(text: object, most: int = MOST_TITLE) -> str:
    """The same on one line, for titles, labels and addresses."""
    words = " ".join(_HIDDEN.sub("", _steady(text[: 4 * most])).split()) if isinstance(text, str) else ""
    return words if len(words) <= most else f"{words[: most - 3].rstrip()}..."


def hides(name: str) -> bool:
    """Whether a name has characters in it that cannot be seen."""
    return bool(_NAME.search(name))


def smuggles(text: str) -> bool:
    """Whether a value, which must be taken as it is, has in it what no honest value needs."""
    return bool(_SMUGGLED.search(text))


def _steady(text: str) -> str:
    return _LONE.sub("\ufffd", _BREAKS.sub("\n", _ANSI.sub("", text)))
