"""The edits of `edit_file`: their schema, and the text replacements that they amount to. Pure text, no file access."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from surehand.builtin.files.text_document import TextReplacement
from surehand.builtin.files.text_match import SearchableText, TextMatch
from surehand.core.errors import InvalidArguments, ToolError

MAX_EDITS = 1000
MAX_REPLACEMENTS_PER_EDIT = 100_000
_RangeAnchor: TypeAlias = str | Annotated[int, Field(ge=1)]

Edit = TypedDict(  # in functional form, because `from` is a Python keyword
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
    """The replacements that the edits amount to, in order; every edit refers to the text before all of them."""
    searchable = SearchableText(text)
    numbered: list[tuple[TextReplacement, int]] = []
    for number, edit in enumerate(edits, 1):
        resolver = _EditResolver(searchable, number, whitespace_tolerant)
        numbered += [(replacement, number) for replacement in resolver.resolve(edit)]
    numbered.sort(key=lambda pair: (pair[0].start, pair[0].end))
    return _refuse_overlaps(searchable, numbered)


def _refuse_overlaps(
    text: SearchableText, numbered_replacements: list[tuple[TextReplacement, int]]
) -> list[TextReplacement]:
    """Raise `InvalidArguments` for overlapping replacements; two adjacent deletions may share the newline between."""
    accepted: list[TextReplacement] = []
    for index, (replacement, number) in enumerate(numbered_replacements):
        overlap = accepted[-1].end - replacement.start if accepted else 0
        if overlap == 1 and not (replacement.content or accepted[-1].content):
            replacement = TextReplacement(accepted[-1].end, replacement.end, "")
        elif overlap > 0:
            line = text.line_number_at(replacement.start)
            other = numbered_replacements[index - 1][1]
            raise InvalidArguments(f"Edits {other} and {number} overlap on line {line}. Make them one edit.")
        accepted.append(replacement)
    return accepted


def find_replacements(text: str, old: str, new: str, *, replace_all: bool) -> list[TextReplacement]:
    """Replace the only exact occurrence of `old`, or all of them."""
    searchable = SearchableText(text)
    has_several = replace_all and old in text
    matches = _find_all(searchable, old) if has_several else [searchable.find_unique(old, "old_string")]
    return [TextReplacement(match.start, match.end, new) for match in matches]


def _find_all(text: SearchableText, old: str) -> list[TextMatch]:
    matches = list(islice(text.find_all(old), MAX_REPLACEMENTS_PER_EDIT + 1))
    if len(matches) > MAX_REPLACEMENTS_PER_EDIT:
        problem = f"It stands in more than {MAX_REPLACEMENTS_PER_EDIT:,} places. Name more of it."
        raise ToolError(problem, code="too_large")
    return matches


class _EditResolver:
    """Turns one edit into replacements. The fields that an edit has decide what it does."""

    def __init__(self, text: SearchableText, number: int, whitespace_tolerant: bool) -> None:
        self._text = text
        self._label = f"Edit {number}"
        self._whitespace_tolerant = whitespace_tolerant

    def resolve(self, edit: Edit) -> list[TextReplacement]:
        """The replacements of the edit; raises `InvalidArguments`."""
        fields: dict[str, Any] = {
            key: value.replace("\r\n", "\n") if isinstance(value, str) else value for key, value in edit.items()
        }
        if "from" in fields or "to" in fields:
            return [self._range_replacement(**self._require_fields(fields, "from", "to", "content"))]
        position = fields.get("insert")
        if position in ("start", "end"):
            return [self._insertion_at_edge(position, **self._require_fields(fields, "content"))]
        if position is not None:
            content = self._require_fields(fields, "old", "content")["content"]
            return [self._insertion_beside(position, match, content) for match in self._find_matches(fields)]
        if fields.get("delete"):
            self._require_fields(fields, "old")
            return [self._deletion(match.start, match.end) for match in self._find_matches(fields)]
        new = self._require_fields(fields, "old", "new")["new"]
        return [self._replacement_for(match, new) for match in self._find_matches(fields)]

    def _require_fields(self, fields: dict[str, Any], *names: str) -> dict[str, Any]:
        missing = [name for name in names if name not in fields]
        if missing:
            raise InvalidArguments(f"{self._label} lacks {' and '.join(f'`{name}`' for name in missing)}.")
        if "old" in names and not fields["old"]:
            raise InvalidArguments(f"{self._label}: `old` is empty. Give text that stands in the file.")
        return {name: fields[name] for name in names}

    def _find_matches(self, fields: dict[str, Any]) -> list[TextMatch]:
        """The only match of `old`; with `all`, every exact match, of which there may be none."""
        old = fields["old"]
        if fields.get("all"):
            return _find_all(self._text, old)
        label = f"{self._label}: `old`"
        return [self._text.find_unique(old, label, whitespace_tolerant=self._whitespace_tolerant)]

    def _replacement_for(self, match: TextMatch, new: str) -> TextReplacement:
        content = match.reindent(new)
        return TextReplacement(match.start, match.end, content) if content else self._deletion(match.start, match.end)

    def _deletion(self, start: int, end: int) -> TextReplacement:
        """Delete a range; whole lines are deleted with their newline, so that no empty line remains."""
        text = self._text.text
        starts_line = text[start - 1 : start] in ("", "\n")
        if starts_line and not text[start:end].endswith("\n"):
            if text[end : end + 1] == "\n":
                end += 1
            elif end == len(text) and start > 0:
                start -= 1  # the last line has no newline of its own: delete the one before it
        return TextReplacement(start, end, "")

    def _insertion_beside(self, side: str, match: TextMatch, content: str) -> TextReplacement:
        """Insert lines of their own, before or after the lines of the match."""
        text = self._text.text
        lines = match.reindent(content).removesuffix("\n")
        if side == "before":
            line_start = text.rfind("\n", 0, match.start) + 1
            return TextReplacement(line_start, line_start, f"{lines}\n")
        newline = match.end - 1 if text[match.end - 1] == "\n" else text.find("\n", match.end)
        if newline < 0:
            return TextReplacement(len(text), len(text), f"\n{lines}")
        return TextReplacement(newline + 1, newline + 1, f"{lines}\n")

    def _insertion_at_edge(self, edge: str, content: str) -> TextReplacement:
        text = self._text.text
        with_newline = content if content.endswith("\n") or not text else f"{content}\n"
        if edge == "start":
            return TextReplacement(0, 0, with_newline)
        if text and not text.endswith("\n"):
            return TextReplacement(len(text), len(text), f"\n{content}")
        return TextReplacement(len(text), len(text), with_newline)

    # Ranges

    def _range_replacement(self, *, content: str, **ends: Any) -> TextReplacement:
        start, search_from = self._range_start(ends["from"])
        end = self._range_end(ends["to"], start, search_from)
        if not content:
            return self._deletion(start, end)
        text = self._text.text
        is_whole_lines = text[start - 1 : start] in ("", "\n") and text[end - 1 : end] == "\n"
        if is_whole_lines and not content.endswith("\n"):
            content = f"{content}\n"
        return TextReplacement(start, end, content)

    def _range_start(self, anchor: str | int) -> tuple[int, int]:
        """Where the range begins, and from where its end is searched."""
        if isinstance(anchor, int):
            start = self._line_bounds(anchor)[0]
            return start, start
        label = f"{self._label}: `from`"
        wanted = self._require_text(anchor)
        match = self._text.find_unique(wanted, label, whitespace_tolerant=self._whitespace_tolerant)
        return match.start, match.end

    def _range_end(self, anchor: str | int, start: int, search_from: int) -> int:
        if isinstance(anchor, str):
            label = f"{self._label}: `to`"
            wanted = self._require_text(anchor)
            match = self._text.find_first(
                wanted, label, whitespace_tolerant=self._whitespace_tolerant, start=search_from
            )
            return match.end
        end = self._line_bounds(anchor)[1]
        if end <= start:
            raise InvalidArguments(f"{self._label}: the range ends on line {anchor}, before it begins.")
        return end

    def _require_text(self, anchor: str) -> str:
        if not anchor:
            raise InvalidArguments(f"{self._label}: an end of the range is empty. Give text or a line's number.")
        return anchor

    def _line_bounds(self, line_number: int) -> tuple[int, int]:
        """Start and end of a line, its newline included."""
        starts = self._text.line_starts
        length = len(self._text.text)
        line_count = len(starts) - (starts[-1] == length)
        if line_number > line_count:
            raise self._missing_line_error(line_number, line_count)
        end = starts[line_number] if line_number < len(starts) else length
        return starts[line_number - 1], end

    def _missing_line_error(self, line_number: int, line_count: int) -> InvalidArguments:
        lines = "1 line" if line_count == 1 else f"{line_count:,} lines"
        return InvalidArguments(f"{self._label}: there is no line {line_number:,}; the file has {lines}.")
