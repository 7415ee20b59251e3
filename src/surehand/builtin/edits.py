"""Edits: what is to be replaced, deleted or inserted in a text, and where that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from surehand.builtin.document import Span
from surehand.builtin.matching import Match, Text
from surehand.core.errors import InvalidArguments, ToolError

MOST_EDITS, MOST_PLACES = 1000, 100_000
"""Edits in one step, and places that one of them changes."""
_Anchor: TypeAlias = str | Annotated[int, Field(ge=1)]

Edit = TypedDict(  # one of its keys is a keyword
    "Edit",
    {
        "old": Annotated[str, Field(description="Text that stands in the file.")],
        "new": Annotated[str, Field(description="What to put in place of `old`.")],
        "all": Annotated[bool, Field(description="Every place where `old` stands.")],
        "delete": Annotated[bool, Field(description="Delete `old`.")],
        "insert": Annotated[
            Literal["before", "after", "start", "end"],
            Field(description="Insert `content` as lines before or after `old`, or at the file's start or end."),
        ],
        "content": Annotated[str, Field(description="What to insert, or to put in place of a range.")],
        "from": Annotated[_Anchor, Field(description="Where a range begins: a line's number, or text.")],
        "to": Annotated[_Anchor, Field(description="Where it ends, included: a line's number, or text.")],
    },
    total=False,
)


def spans_of(text: str, edits: Sequence[Edit], *, tolerant: bool = False) -> list[Span]:
    """What the edits come to in a text, in order; all are meant in the text as it is before any of them."""
    found, placed = Text(text), list[tuple[Span, int]]()
    for number, edit in enumerate(edits, 1):
        placed += [(span, number) for span in _Place(found, number, tolerant).of(edit)]
    placed.sort(key=lambda pair: (pair[0].start, pair[0].end))
    return _apart(found, placed)


def _apart(text: Text, placed: list[tuple[Span, int]]) -> list[Span]:
    apart: list[Span] = []
    for at, (span, number) in enumerate(placed):
        over = apart[-1].end - span.start if apart else 0
        if over == 1 and not (span.content or apart[-1].content):  # both deletions take the newline between them
            span = Span(apart[-1].end, span.end, "")
        elif over > 0:
            line, other = text.line_at(span.start), placed[at - 1][1]
            raise InvalidArguments(f"Edits {other} and {number} overlap on line {line}. Make them one edit.")
        apart.append(span)
    return apart


def replacements(text: str, old: str, new: str, *, every: bool) -> list[Span]:
    """The places where `old` stands exactly so; the only one, unless every one is meant."""
    found = Text(text)
    one = () if every and old in text else (found.one(old, "old_string"),)
    return [Span(match.start, match.end, new) for match in one or _every(found, old)]


def _every(text: Text, old: str) -> list[Match]:
    matches = [match for match, _ in zip(text.every(old), range(MOST_PLACES + 1), strict=False)]
    if len(matches) > MOST_PLACES:
        raise ToolError(f"It stands in more than {MOST_PLACES:,} places. Name more of it.", code="too_large")
    return matches


class _Place:
    """Where one edit takes place. Its mode is told from the fields that it has."""

    def __init__(self, text: Text, number: int, tolerant: bool) -> None:
        self._text, self._name, self._tolerant = text, f"Edit {number}", tolerant

    def of(self, edit: Edit) -> list[Span]:
        given: dict[str, Any] = {
            key: value.replace("\r\n", "\n") if isinstance(value, str) else value for key, value in edit.items()
        }
        if "from" in given or "to" in given:
            return [self._range(**self._needed(given, "from", "to", "content"))]
        if (where := given.get("insert")) in ("start", "end"):
            return [self._at_end(where, **self._needed(given, "content"))]
        if where is not None:
            wanted = self._needed(given, "old", "content")
            return [self._beside(where, match, wanted["content"]) for match in self._matches(given)]
        if given.get("delete"):
            self._needed(given, "old")
            return [self._deleted(match.start, match.end) for match in self._matches(given)]
        new = self._needed(given, "old", "new")["new"]
        return [self._replaced(match, new) for match in self._matches(given)]

    def _needed(self, given: dict[str, Any], *names: str) -> dict[str, Any]:
        if missing := [name for name in names if name not in given]:
            raise InvalidArguments(f"{self._name} lacks {' and '.join(f'`{name}`' for name in missing)}.")
        if "old" in names and not given["old"]:
            raise InvalidArguments(f"{self._name}: `old` is empty. Give text that stands in the file.")
        return {name: given[name] for name in names}

    def _matches(self, given: dict[str, Any]) -> list[Match]:
        """Every place is an exact one, and there may be none."""
        if given.get("all"):
            return _every(self._text, given["old"])
        return [self._text.one(given["old"], f"{self._name}: `old`", tolerant=self._tolerant)]

    def _replaced(self, match: Match, new: str) -> Span:
        content = match.indented(new)
        return Span(match.start, match.end, content) if content else self._deleted(match.start, match.end)

    def _deleted(self, start: int, end: int) -> Span:
        """Whole lines go with their newline, so that no empty line is left."""
        text = self._text.text
        if text[start - 1 : start] not in ("", "\n") or text[start:end].endswith("\n"):
            return Span(start, end, "")
        if text[end : end + 1] == "\n":
            return Span(start, end + 1, "")
        return Span(start - (start > 0), end, "") if end == len(text) else Span(start, end, "")

    def _beside(self, where: str, match: Match, content: str) -> Span:
        """As lines of their own, before or after the lines in which it was found."""
        text, lines = self._text.text, match.indented(content).removesuffix("\n")
        if where == "before":
            at = text.rfind("\n", 0, match.start) + 1
            return Span(at, at, f"{lines}\n")
        end = match.end - 1 if text[match.end - 1] == "\n" else text.find("\n", match.end)
        at = end + 1 if end >= 0 else len(text)
        return Span(at, at, f"{lines}\n" if end >= 0 else f"\n{lines}")

    def _at_end(self, where: str, content: str) -> Span:
        text = self._text.text
        ended = content if content.endswith("\n") or not text else f"{content}\n"
        if where == "start":
            return Span(0, 0, ended)
        return Span(len(text), len(text), f"\n{content}" if text and not text.endswith("\n") else ended)

    # Ranges

    def _range(self, *, content: str, **ends: Any) -> Span:
        start, after = self._first(ends["from"])
        end = self._last(ends["to"], start, after)
        if not content:
            return self._deleted(start, end)
        text = self._text.text
        whole = text[start - 1 : start] in ("", "\n") and text[end - 1 : end] == "\n"
        return Span(start, end, f"{content}\n" if whole and not content.endswith("\n") else content)

    def _first(self, anchor: str | int) -> tuple[int, int]:
        if isinstance(anchor, int):
            start = self._line(anchor)[0]
            return start, start
        match = self._text.one(self._filled(anchor), f"{self._name}: `from`", tolerant=self._tolerant)
        return match.start, match.end

    def _last(self, anchor: str | int, start: int, after: int) -> int:
        if isinstance(anchor, str):
            name = f"{self._name}: `to`"
            return self._text.first(self._filled(anchor), name, tolerant=self._tolerant, start=after).end
        end = self._line(anchor)[1]
        if end <= start:
            raise InvalidArguments(f"{self._name}: the range ends on line {anchor}, before it begins.")
        return end

    def _filled(self, anchor: str) -> str:
        if not anchor:
            raise InvalidArguments(f"{self._name}: an end of the range is empty. Give text or a line's number.")
        return anchor

    def _line(self, number: int) -> tuple[int, int]:
        """Where a line begins and ends, its newline included."""
        starts, length = self._text.starts, len(self._text.text)
        lines = len(starts) - (starts[-1] == length)
        if number > lines:
            raise self._no_line(number, lines)
        return starts[number - 1], starts[number] if number < len(starts) else length

    def _no_line(self, number: int, lines: int) -> InvalidArguments:
        has = "1 line" if lines == 1 else f"{lines:,} lines"
        return InvalidArguments(f"{self._name}: there is no line {number:,}; the file has {has}.")
