"""Edits: what is to be replaced, deleted or inserted in a text, and where that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from surehand.builtin.files.text_document import TextReplacement
from surehand.builtin.files.text_match import SearchableText, TextMatch
from surehand.core.errors import InvalidArguments, ToolError

MAX_EDITS, MAX_REPLACEMENTS_PER_EDIT = 1000, 100_000
"""Edits in one step, and places that one of them changes."""
_RangeAnchor: TypeAlias = str | Annotated[int, Field(ge=1)]

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
        "from": Annotated[_RangeAnchor, Field(description="Where a range begins: a line's number, or text.")],
        "to": Annotated[_RangeAnchor, Field(description="Where it ends, included: a line's number, or text.")],
    },
    total=False,
)


def resolve_edits(text: str, edits: Sequence[Edit], *, whitespace_tolerant: bool = False) -> list[TextReplacement]:
    """What the edits come to in a text, in order; all are meant in the text as it is before any of them."""
    found, placed = SearchableText(text), list[tuple[TextReplacement, int]]()
    for number, edit in enumerate(edits, 1):
        placed += [(span, number) for span in _EditResolver(found, number, whitespace_tolerant).resolve(edit)]
    placed.sort(key=lambda pair: (pair[0].start, pair[0].end))
    return _refuse_overlaps(found, placed)


def _refuse_overlaps(
    text: SearchableText, numbered_replacements: list[tuple[TextReplacement, int]]
) -> list[TextReplacement]:
    apart: list[TextReplacement] = []
    for at, (span, number) in enumerate(numbered_replacements):
        over = apart[-1].end - span.start if apart else 0
        if over == 1 and not (span.content or apart[-1].content):  # both deletions take the newline between them
            span = TextReplacement(apart[-1].end, span.end, "")
        elif over > 0:
            line, other = text.line_number_at(span.start), numbered_replacements[at - 1][1]
            raise InvalidArguments(f"Edits {other} and {number} overlap on line {line}. Make them one edit.")
        apart.append(span)
    return apart


def find_replacements(text: str, old: str, new: str, *, replace_all: bool) -> list[TextReplacement]:
    """The places where `old` stands exactly so; the only one, unless every one is meant."""
    found = SearchableText(text)
    one = () if replace_all and old in text else (found.find_unique(old, "old_string"),)
    return [TextReplacement(match.start, match.end, new) for match in one or _find_all(found, old)]


def _find_all(text: SearchableText, old: str) -> list[TextMatch]:
    matches = [match for match, _ in zip(text.find_all(old), range(MAX_REPLACEMENTS_PER_EDIT + 1), strict=False)]
    if len(matches) > MAX_REPLACEMENTS_PER_EDIT:
        raise ToolError(
            f"It stands in more than {MAX_REPLACEMENTS_PER_EDIT:,} places. Name more of it.", code="too_large"
        )
    return matches


class _EditResolver:
    """Where one edit takes place. Its mode is told from the fields that it has."""

    def __init__(self, text: SearchableText, number: int, whitespace_tolerant: bool) -> None:
        self._text, self._label, self._whitespace_tolerant = text, f"Edit {number}", whitespace_tolerant

    def resolve(self, edit: Edit) -> list[TextReplacement]:
        given: dict[str, Any] = {
            key: value.replace("\r\n", "\n") if isinstance(value, str) else value for key, value in edit.items()
        }
        if "from" in given or "to" in given:
            return [self._range_replacement(**self._require_fields(given, "from", "to", "content"))]
        if (where := given.get("insert")) in ("start", "end"):
            return [self._insertion_at_edge(where, **self._require_fields(given, "content"))]
        if where is not None:
            wanted = self._require_fields(given, "old", "content")
            return [self._insertion_beside(where, match, wanted["content"]) for match in self._find_matches(given)]
        if given.get("delete"):
            self._require_fields(given, "old")
            return [self._deletion(match.start, match.end) for match in self._find_matches(given)]
        new = self._require_fields(given, "old", "new")["new"]
        return [self._replacement_for(match, new) for match in self._find_matches(given)]

    def _require_fields(self, fields: dict[str, Any], *names: str) -> dict[str, Any]:
        if missing := [name for name in names if name not in fields]:
            raise InvalidArguments(f"{self._label} lacks {' and '.join(f'`{name}`' for name in missing)}.")
        if "old" in names and not fields["old"]:
            raise InvalidArguments(f"{self._label}: `old` is empty. Give text that stands in the file.")
        return {name: fields[name] for name in names}

    def _find_matches(self, fields: dict[str, Any]) -> list[TextMatch]:
        """Every place is an exact one, and there may be none."""
        if fields.get("all"):
            return _find_all(self._text, fields["old"])
        return [
            self._text.find_unique(
                fields["old"], f"{self._label}: `old`", whitespace_tolerant=self._whitespace_tolerant
            )
        ]

    def _replacement_for(self, match: TextMatch, new: str) -> TextReplacement:
        content = match.reindent(new)
        return TextReplacement(match.start, match.end, content) if content else self._deletion(match.start, match.end)

    def _deletion(self, start: int, end: int) -> TextReplacement:
        """Whole lines go with their newline, so that no empty line is left."""
        text = self._text.text
        if text[start - 1 : start] not in ("", "\n") or text[start:end].endswith("\n"):
            return TextReplacement(start, end, "")
        if text[end : end + 1] == "\n":
            return TextReplacement(start, end + 1, "")
        return TextReplacement(start - (start > 0), end, "") if end == len(text) else TextReplacement(start, end, "")

    def _insertion_beside(self, side: str, match: TextMatch, content: str) -> TextReplacement:
        """As lines of their own, before or after the lines in which it was found."""
        text, lines = self._text.text, match.reindent(content).removesuffix("\n")
        if side == "before":
            at = text.rfind("\n", 0, match.start) + 1
            return TextReplacement(at, at, f"{lines}\n")
        end = match.end - 1 if text[match.end - 1] == "\n" else text.find("\n", match.end)
        at = end + 1 if end >= 0 else len(text)
        return TextReplacement(at, at, f"{lines}\n" if end >= 0 else f"\n{lines}")

    def _insertion_at_edge(self, edge: str, content: str) -> TextReplacement:
        text = self._text.text
        ended = content if content.endswith("\n") or not text else f"{content}\n"
        if edge == "start":
            return TextReplacement(0, 0, ended)
        return TextReplacement(len(text), len(text), f"\n{content}" if text and not text.endswith("\n") else ended)

    # Ranges

    def _range_replacement(self, *, content: str, **ends: Any) -> TextReplacement:
        start, after = self._range_start(ends["from"])
        end = self._range_end(ends["to"], start, after)
        if not content:
            return self._deletion(start, end)
        text = self._text.text
        whole = text[start - 1 : start] in ("", "\n") and text[end - 1 : end] == "\n"
        return TextReplacement(start, end, f"{content}\n" if whole and not content.endswith("\n") else content)

    def _range_start(self, anchor: str | int) -> tuple[int, int]:
        if isinstance(anchor, int):
            start = self._line_bounds(anchor)[0]
            return start, start
        match = self._text.find_unique(
            self._require_text(anchor), f"{self._label}: `from`", whitespace_tolerant=self._whitespace_tolerant
        )
        return match.start, match.end

    def _range_end(self, anchor: str | int, start: int, search_from: int) -> int:
        if isinstance(anchor, str):
            name = f"{self._label}: `to`"
            return self._text.find_first(
                self._require_text(anchor), name, whitespace_tolerant=self._whitespace_tolerant, start=search_from
            ).end
        end = self._line_bounds(anchor)[1]
        if end <= start:
            raise InvalidArguments(f"{self._label}: the range ends on line {anchor}, before it begins.")
        return end

    def _require_text(self, anchor: str) -> str:
        if not anchor:
            raise InvalidArguments(f"{self._label}: an end of the range is empty. Give text or a line's number.")
        return anchor

    def _line_bounds(self, line_number: int) -> tuple[int, int]:
        """Where a line begins and ends, its newline included."""
        starts, length = self._text.line_starts, len(self._text.text)
        lines = len(starts) - (starts[-1] == length)
        if line_number > lines:
            raise self._missing_line_error(line_number, lines)
        return starts[line_number - 1], starts[line_number] if line_number < len(starts) else length

    def _missing_line_error(self, line_number: int, line_count: int) -> InvalidArguments:
        has = "1 line" if line_count == 1 else f"{line_count:,} lines"
        return InvalidArguments(f"{self._label}: there is no line {line_number:,}; the file has {has}.")
