"""Shown: what a person is shown of a call, so that nothing in it can hide, or look like something else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from surehand.core.sanitize import BLANK_LINES, WIDE_SPACES, escape_line, escape_unprintable

LONGEST = 4_000
"""Characters of a message, or of a preview."""
VALUE, VALUES, SIZES = 1_500, 12_000, 2_000
"""Characters of one argument, of all of them, and of those that are only named."""
NAME, TITLE = 100, 200
BY_DEFAULT = "Not sent, so by default:"
"""No argument can pass for this line: theirs are indented."""


def words(text: str, most: int = LONGEST) -> str:
    """Somebody's words. Each line but the first is marked as theirs, so that none can pass for one of ours."""
    return "\n".join(f"| {line}" if number else line for number, line in enumerate(_lines(text, most)))


def quoted(text: str, most: int = LONGEST) -> str:
    """The same with every line marked."""
    return "\n".join(f"| {line}" for line in _lines(text, most))


def line(text: str, most: int = TITLE) -> str:
    """A text on one line; of a long one, how it begins and how it ends."""
    return " ".join(_parts(text, most, _flat))


def call(tool: str, arguments: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """What would run, with each argument on a line of its own: those that were sent, then the defaults that hold."""
    sent = {str(name): written(value) for name, value in arguments.items()}
    unsent = {name: written(value) for name, value in defaults.items() if name not in sent}
    without = "" if sent else ", without arguments."
    return "\n".join([f"This would run: {line(tool)}{without}", *_told(sent, unsent)])


def form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a form with titles and descriptions that can be shown; names and values are as they were."""
    return {key: _part(key, value) for key, value in schema.items()}


def written(value: Any) -> str:
    """A value as text: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return str.__str__(value) or '""'
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        return f"(a value that cannot be shown: {error})"


def _plain(value: Any) -> Any:
    return to_jsonable_python(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings")


def _lines(text: str, most: int) -> list[str]:
    return "\n".join(_parts(text, most, _folded)).split("\n")


def _parts(text: str, most: int, shown: Callable[[str], str]) -> list[str]:
    """All of it; or how it begins, how much is left out, and how it ends."""
    parts = list[str]()
    for part in (most, most // 5, most // 10):  # what is written out takes up to ten times the room
        parts = [shown(text)] if len(text) <= part else _ends(text, part, shown)
        if sum(map(len, parts)) <= 2 * most:
            break
    return parts


def _ends(text: str, most: int, shown: Callable[[str], str]) -> list[str]:
    head, tail = most * 2 // 3, most // 3
    left_out = f"... ({len(text) - head - tail:,} characters left out) ..."
    return [shown(text[:head]), left_out, shown(text[-tail:])]


def _folded(text: str) -> str:
    """With its own breaks, but for many at once: what stands far below or far to the right is hidden as well."""
    return escape_unprintable(WIDE_SPACES.sub(_counted, BLANK_LINES.sub("\n\n", text.strip()))).replace("\t", "    ")


def _flat(text: str) -> str:
    return escape_line(WIDE_SPACES.sub(_counted, text))


def _counted(found: re.Match[str]) -> str:
    return f" ({len(found[0]):,} spaces) "


def _told(sent: Mapping[str, str], unsent: Mapping[str, str]) -> Iterable[str]:
    """A line for each. Where that is too much, the shortest are shown, and of the others how long they are.

    Defaults come last, whatever their length: none takes the place of what was sent.
    """
    values = {**sent, **unsent}
    order = sorted(values, key=lambda name: (name in unsent, len(values[name])))
    shown = _fitting(order, VALUES, lambda name: f"  {line(name, NAME)}: {line(values[name], VALUE)}")
    left = order[len(shown) :]
    sizes = _fitting(left, SIZES, lambda name: f"  {line(name, NAME)}: ({len(values[name]):,} characters, not shown)")
    told = shown | sizes
    by_default = [told[name] for name in unsent if name in told]
    yield from (told[name] for name in sent if name in told)
    yield from [BY_DEFAULT, *by_default] if by_default else []
    if left:
        yield _warning(len(values), len(left), len(left) - len(sizes))


def _fitting(names: Iterable[str], room: int, told: Callable[[str], str]) -> dict[str, str]:
    """Lines for the first of them, as many as there is room for."""
    lines = dict[str, str]()
    for name in names:
        lines[name] = told(name)
        if (room := room - len(lines[name])) < 0:
            del lines[name]
            break
    return lines


def _warning(number: int, unshown: int, unnamed: int) -> str:
    names = f", and the names of {unnamed:,}" if unnamed else ""
    return f"NOT ALL IS SHOWN: the values of {unshown:,} of {number:,} arguments are left out{names}."


def _part(key: str, value: Any) -> Any:
    match value:
        case str():
            return line(value) if key == "title" else words(value) if key == "description" else value
        case Mapping():
            return {str(name): _part(name, each) for name, each in value.items()}
        case list() | tuple() if key == "enumNames":
            return [line(each) if isinstance(each, str) else each for each in value]
        case list() | tuple():
            return [_part("", each) for each in value]
    return value
