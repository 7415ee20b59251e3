"""Text that a person is shown about a call, rendered so that no part of it can hide or imitate our own words.

Approvals, questions, progress and the status of tasks use it. Text of tools, models and other servers is escaped,
shortened, and marked line by line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from surehand.core.sanitize import BLANK_LINES, WIDE_SPACES, escape_line, escape_unprintable

MAX_MESSAGE_LENGTH = 4_000
"""Characters of a message, or of a preview."""
MAX_ARGUMENT_LENGTH = 1_500
"""Characters of one argument's value."""
MAX_ALL_ARGUMENTS_LENGTH = 12_000
"""Characters of all lines that show a value."""
MAX_OMITTED_ARGUMENTS_LENGTH = 2_000
"""Characters of all lines that show only the name and size of an argument."""
MAX_ARGUMENT_NAME_LENGTH = 100
MAX_TITLE_LENGTH = 200
DEFAULTS_HEADING = "Not sent, so by default:"
"""No argument can imitate this line: lines of arguments are indented."""


def render_message(text: str, max_length: int = MAX_MESSAGE_LENGTH) -> str:
    """Render a message of a tool or server. Each line but the first is marked, so that none looks like ours."""
    first, *others = _clipped_lines(text, max_length)
    return "\n".join([first, *(f"| {line}" for line in others)])


def quote_lines(text: str, max_length: int = MAX_MESSAGE_LENGTH) -> str:
    """Render a text with every line marked."""
    return "\n".join(f"| {line}" for line in _clipped_lines(text, max_length))


def render_line(text: str, max_length: int = MAX_TITLE_LENGTH) -> str:
    """Render a text on one line; of a long text, its beginning and its end."""
    return " ".join(_clip(text, max_length, _escape_one_line))


def render_call(tool_name: str, arguments: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Render the call that would run, a line for each argument: those that were sent, then the defaults."""
    sent = {str(name): render_value(value) for name, value in arguments.items()}
    unsent = {name: render_value(value) for name, value in defaults.items() if name not in sent}
    ending = "" if sent else ", without arguments."
    return "\n".join([f"This would run: {render_line(tool_name)}{ending}", *_argument_lines(sent, unsent)])


def sanitize_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the schema of a form with its titles and descriptions rendered. Names and values stay as they are."""
    return {key: _sanitize_form_part(key, value) for key, value in schema.items()}


def render_value(value: Any) -> str:
    """Render a value as text: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return str.__str__(value) or '""'  # an enum's own `__str__` would give its name
    try:
        return json.dumps(value, ensure_ascii=False, default=_to_jsonable)
    except (TypeError, ValueError, RecursionError) as error:
        return f"(a value that cannot be shown: {error})"


def _to_jsonable(value: Any) -> Any:
    return to_jsonable_python(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings")


def _clipped_lines(text: str, max_length: int) -> list[str]:
    return "\n".join(_clip(text, max_length, _escape_multiline)).split("\n")


def _clip(text: str, max_length: int, escape: Callable[[str], str]) -> list[str]:
    """The whole text in one part; or its beginning, the count of omitted characters, and its end."""
    parts = list[str]()
    # An escaped character takes up to ten times the room, so the text is clipped harder until the result fits.
    for limit in (max_length, max_length // 5, max_length // 10):
        parts = [escape(text)] if len(text) <= limit else _head_and_tail(text, limit, escape)
        if sum(map(len, parts)) <= 2 * max_length:
            break
    return parts


def _head_and_tail(text: str, max_length: int, escape: Callable[[str], str]) -> list[str]:
    head_length = max_length * 2 // 3
    tail_length = max_length // 3
    omitted = f"... ({len(text) - head_length - tail_length:,} characters left out) ..."
    return [escape(text[:head_length]), omitted, escape(text[-tail_length:])]


def _escape_multiline(text: str) -> str:
    """Escape a text and keep its line breaks. Many blank lines or spaces would push the rest out of sight."""
    without_gaps = WIDE_SPACES.sub(_space_count, BLANK_LINES.sub("\n\n", text.strip()))
    return escape_unprintable(without_gaps).replace("\t", "    ")


def _escape_one_line(text: str) -> str:
    return escape_line(WIDE_SPACES.sub(_space_count, text))


def _space_count(spaces: re.Match[str]) -> str:
    return f" ({len(spaces[0]):,} spaces) "


def _argument_lines(sent: Mapping[str, str], defaults: Mapping[str, str]) -> Iterable[str]:
    """A line for each argument. If all are too long, the shortest are shown, and of the others their sizes.

    Defaults give way first, whatever their length, so that none displaces an argument that was sent.
    """
    values = {**sent, **defaults}

    def value_line(name: str) -> str:
        return f"  {render_line(name, MAX_ARGUMENT_NAME_LENGTH)}: {render_line(values[name], MAX_ARGUMENT_LENGTH)}"

    def size_line(name: str) -> str:
        return f"  {render_line(name, MAX_ARGUMENT_NAME_LENGTH)}: ({len(values[name]):,} characters, not shown)"

    names = sorted(values, key=lambda name: (name in defaults, len(values[name])))
    value_lines = _lines_that_fit(names, MAX_ALL_ARGUMENTS_LENGTH, value_line)
    hidden = names[len(value_lines) :]
    size_lines = _lines_that_fit(hidden, MAX_OMITTED_ARGUMENTS_LENGTH, size_line)
    lines = value_lines | size_lines
    yield from (lines[name] for name in sent if name in lines)
    default_lines = [lines[name] for name in defaults if name in lines]
    if default_lines:
        yield DEFAULTS_HEADING
        yield from default_lines
    if hidden:
        yield _omission_warning(len(values), len(hidden), len(hidden) - len(size_lines))


def _lines_that_fit(names: Iterable[str], room: int, render: Callable[[str], str]) -> dict[str, str]:
    """The lines of the first names, as many as fit into this number of characters."""
    lines = dict[str, str]()
    for name in names:
        line = render(name)
        room -= len(line)
        if room < 0:
            break
        lines[name] = line
    return lines


def _omission_warning(total: int, hidden_values: int, hidden_names: int) -> str:
    names = f", and the names of {hidden_names:,}" if hidden_names else ""
    return f"NOT ALL IS SHOWN: the values of {hidden_values:,} of {total:,} arguments are left out{names}."


def _sanitize_form_part(key: str, value: Any) -> Any:
    match value:
        case str() if key == "title":
            return render_line(value)
        case str() if key == "description":
            return render_message(value)
        case Mapping():
            return {str(name): _sanitize_form_part(name, each) for name, each in value.items()}
        case list() | tuple() if key == "enumNames":
            return [render_line(each) if isinstance(each, str) else each for each in value]
        case list() | tuple():
            return [_sanitize_form_part("", each) for each in value]
    return value
