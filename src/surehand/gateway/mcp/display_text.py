"""Shown: what a person is shown of a call, so that nothing in it can hide, or look like something else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from surehand.core.sanitize import BLANK_LINES, WIDE_SPACES, escape_line, escape_unprintable

MAX_MESSAGE_LENGTH = 4_000
"""Characters of a message, or of a preview."""
MAX_ARGUMENT_LENGTH, MAX_ALL_ARGUMENTS_LENGTH, MAX_OMITTED_ARGUMENTS_LENGTH = 1_500, 12_000, 2_000
"""Characters of one argument, of all of them, and of those that are only named."""
MAX_ARGUMENT_NAME_LENGTH, MAX_TITLE_LENGTH = 100, 200
DEFAULTS_HEADING = "Not sent, so by default:"
"""No argument can pass for this line: theirs are indented."""


def render_message(text: str, max_length: int = MAX_MESSAGE_LENGTH) -> str:
    """Somebody's words. Each line but the first is marked as theirs, so that none can pass for one of ours."""
    return "\n".join(f"| {line}" if number else line for number, line in enumerate(_clipped_lines(text, max_length)))


def quote_lines(text: str, max_length: int = MAX_MESSAGE_LENGTH) -> str:
    """The same with every line marked."""
    return "\n".join(f"| {line}" for line in _clipped_lines(text, max_length))


def render_line(text: str, max_length: int = MAX_TITLE_LENGTH) -> str:
    """A text on one line; of a long one, how it begins and how it ends."""
    return " ".join(_clip(text, max_length, _escape_one_line))


def render_call(tool_name: str, arguments: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """What would run, with each argument on a line of its own: those that were sent, then the defaults that hold."""
    sent = {str(name): render_value(value) for name, value in arguments.items()}
    unsent = {name: render_value(value) for name, value in defaults.items() if name not in sent}
    without = "" if sent else ", without arguments."
    return "\n".join([f"This would run: {render_line(tool_name)}{without}", *_argument_lines(sent, unsent)])


def sanitize_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a form with titles and descriptions that can be shown; names and values are as they were."""
    return {key: _sanitize_form_part(key, value) for key, value in schema.items()}


def render_value(value: Any) -> str:
    """A value as text: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return str.__str__(value) or '""'
    try:
        return json.dumps(value, ensure_ascii=False, default=_to_jsonable)
    except (TypeError, ValueError, RecursionError) as error:
        return f"(a value that cannot be shown: {error})"


def _to_jsonable(value: Any) -> Any:
    return to_jsonable_python(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings")


def _clipped_lines(text: str, max_length: int) -> list[str]:
    return "\n".join(_clip(text, max_length, _escape_multiline)).split("\n")


def _clip(text: str, max_length: int, escape: Callable[[str], str]) -> list[str]:
    """All of it; or how it begins, how much is left out, and how it ends."""
    parts = list[str]()
    for part in (max_length, max_length // 5, max_length // 10):  # what is written out takes up to ten times the room
        parts = [escape(text)] if len(text) <= part else _head_and_tail(text, part, escape)
        if sum(map(len, parts)) <= 2 * max_length:
            break
    return parts


def _head_and_tail(text: str, max_length: int, escape: Callable[[str], str]) -> list[str]:
    head, tail = max_length * 2 // 3, max_length // 3
    left_out = f"... ({len(text) - head - tail:,} characters left out) ..."
    return [escape(text[:head]), left_out, escape(text[-tail:])]


def _escape_multiline(text: str) -> str:
    """With its own breaks, but for many at once: what stands far below or far to the right is hidden as well."""
    return escape_unprintable(WIDE_SPACES.sub(_space_count, BLANK_LINES.sub("\n\n", text.strip()))).replace(
        "\t", "    "
    )


def _escape_one_line(text: str) -> str:
    return escape_line(WIDE_SPACES.sub(_space_count, text))


def _space_count(found: re.Match[str]) -> str:
    return f" ({len(found[0]):,} spaces) "


def _argument_lines(sent: Mapping[str, str], defaults: Mapping[str, str]) -> Iterable[str]:
    """A line for each. Where that is too much, the shortest are shown, and of the others how long they are.

    Defaults come last, whatever their length: none takes the place of what was sent.
    """
    values = {**sent, **defaults}
    order = sorted(values, key=lambda name: (name in defaults, len(values[name])))
    shown = _lines_that_fit(
        order,
        MAX_ALL_ARGUMENTS_LENGTH,
        lambda name: (
            f"  {render_line(name, MAX_ARGUMENT_NAME_LENGTH)}: {render_line(values[name], MAX_ARGUMENT_LENGTH)}"
        ),
    )
    left = order[len(shown) :]
    sizes = _lines_that_fit(
        left,
        MAX_OMITTED_ARGUMENTS_LENGTH,
        lambda name: f"  {render_line(name, MAX_ARGUMENT_NAME_LENGTH)}: ({len(values[name]):,} characters, not shown)",
    )
    told = shown | sizes
    by_default = [told[name] for name in defaults if name in told]
    yield from (told[name] for name in sent if name in told)
    yield from [DEFAULTS_HEADING, *by_default] if by_default else []
    if left:
        yield _omission_warning(len(values), len(left), len(left) - len(sizes))


def _lines_that_fit(names: Iterable[str], room: int, render: Callable[[str], str]) -> dict[str, str]:
    """Lines for the first of them, as many as there is room for."""
    lines = dict[str, str]()
    for name in names:
        lines[name] = render(name)
        if (room := room - len(lines[name])) < 0:
            del lines[name]
            break
    return lines


def _omission_warning(total: int, hidden_values: int, hidden_names: int) -> str:
    names = f", and the names of {hidden_names:,}" if hidden_names else ""
    return f"NOT ALL IS SHOWN: the values of {hidden_values:,} of {total:,} arguments are left out{names}."


def _sanitize_form_part(key: str, value: Any) -> Any:
    match value:
        case str():
            return render_line(value) if key == "title" else render_message(value) if key == "description" else value
        case Mapping():
            return {str(name): _sanitize_form_part(name, each) for name, each in value.items()}
        case list() | tuple() if key == "enumNames":
            return [render_line(each) if isinstance(each, str) else each for each in value]
        case list() | tuple():
            return [_sanitize_form_part("", each) for each in value]
    return value
