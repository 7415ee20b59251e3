"""The factory `data`: tools that parse and write JSON and base64. They touch nothing but their arguments."""

from __future__ import annotations

import base64
import json
import re
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import from_json

from surehand.builtin.limited_field import limited_field
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.strict_json import MAX_JSON_DEPTH, validate_json_value, validate_unique_keys
from surehand.core.tool import Tool

MAX_TEXT_LENGTH = 1_000_000
"""Longest text that the tools accept, in characters."""
MAX_JSON_VALUES = 200_000
"""Values in one JSON text: a text of a million brackets takes a hundred times its size in memory once parsed."""
_EXCERPT_BYTES = 25
"""Bytes that an error quotes on each side of the position."""

_ERROR_POSITION = re.compile(r" at line (\d+) column (\d+)\Z")
_WHITESPACE = re.compile(r"\s+")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")
_URL_SAFE_TO_STANDARD = str.maketrans("-_", "+/")

InputText = Annotated[str, limited_field(max_length=MAX_TEXT_LENGTH)]


def data() -> list[Tool[..., Any]]:
    """Tools that read and write JSON and base64."""

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools")
    def json_parse(
        text: Annotated[InputText, Field(description="The JSON text, one complete value.")],
    ) -> dict[str, Any]:
        """Parse strict JSON text into data. Integers stay exact; duplicate keys, NaN and comments are errors."""
        return {"data": parse_json_text(text)}

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools")
    def json_stringify(
        data: Annotated[Any, Field(description="Any JSON value: object, list, text, number, boolean or null.")],
        pretty: Annotated[bool, Field(description="Indent by two spaces, one value per line.")] = False,
    ) -> dict[str, str]:
        """Write data as JSON text, compact or indented. Key order and non-ASCII characters are kept."""
        return {"text": to_json_text(data, pretty=pretty)}

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools")
    def base64_encode(text: Annotated[InputText, Field(description="The text to encode, as UTF-8.")]) -> dict[str, str]:
        """Encode text as base64 of its UTF-8 bytes, with the standard alphabet and padding."""
        return {"encoded": base64.b64encode(text.encode()).decode()}

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools")
    def base64_decode(
        encoded: Annotated[
            InputText, Field(description="Standard or URL-safe base64; padding and line breaks may vary.")
        ],
    ) -> dict[str, str]:
        """Decode base64 that holds UTF-8 text. Other bytes are an error."""
        return {"decoded": _decode_utf8(_decode_base64(encoded))}

    return [json_parse, json_stringify, base64_encode, base64_decode]


def parse_json_text(text: str) -> Any:
    """Parse a JSON text strictly; raises `InvalidArguments` with the problem and its position."""
    _check_value_count(text)
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidArguments(f"The text is not valid JSON: {_describe_json_error(text, str(error))}") from None
    validate_json_value(value)
    validate_unique_keys(text)
    return value


def _check_value_count(text: str) -> None:
    """Count separators before parsing. Those inside strings count too, which only makes the check stricter."""
    if len(text) > MAX_JSON_VALUES and sum(map(text.count, "[{,:")) > MAX_JSON_VALUES:
        raise ToolError(f"The JSON has more than {MAX_JSON_VALUES:,} values. Parse it in parts.", code="too_large")


def _describe_json_error(text: str, problem: str) -> str:
    """The parser's problem with an excerpt of the text at its position."""
    if "recursion limit" in problem:
        return f"it is nested deeper than {MAX_JSON_DEPTH} levels. Give a flatter value."
    match = _ERROR_POSITION.search(problem)
    if match is None:
        return f"{problem}."
    line_number = int(match[1])
    column = int(match[2])
    raw = text.encode()  # the parser counts columns in bytes
    lines = raw.split(b"\n", line_number - 1)
    position = sum(len(line) + 1 for line in lines[:-1]) + column
    excerpt = raw[max(position - _EXCERPT_BYTES, 0) : position + _EXCERPT_BYTES].decode(errors="ignore").strip()
    return f"{problem}, near {excerpt!r}." if excerpt else f"{problem}."


def to_json_text(value: Any, *, pretty: bool = False) -> str:
    """Write a value as JSON text; raises `InvalidArguments` for values that JSON cannot express."""
    layout: dict[str, Any] = {"indent": 2} if pretty else {"separators": (",", ":")}
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, **layout)
    except (TypeError, ValueError) as error:
        raise InvalidArguments(f"The data cannot be written as JSON: {error}.") from None


def _decode_base64(encoded: str) -> bytes:
    if len({*"+/"} & {*encoded}) and len({*"-_"} & {*encoded}):
        raise InvalidArguments("The text mixes standard base64 (+ /) with URL-safe (- _). Give one of them.")
    padded = _WHITESPACE.sub("", encoded).translate(_URL_SAFE_TO_STANDARD)
    letters = padded.rstrip("=")
    if invalid := _NOT_BASE64.search(letters):
        raise InvalidArguments(
            f"The text is not base64: {invalid[0]!r} at position {invalid.start()}, white space not counted."
        )
    # Four letters hold three bytes: a single one left over holds less than a byte.
    if len(letters) % 4 == 1 or len(padded) - len(letters) > 2:
        raise InvalidArguments(f"The text is not base64: {len(letters)} letters cannot be whole. It may have been cut.")
    return base64.b64decode(letters + "=" * (-len(letters) % 4))


def _decode_utf8(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidArguments(
            f"The {len(raw):,} decoded bytes are no UTF-8 text ({error.reason} at byte {error.start}); they begin "
            f"{raw[:16].hex(' ')}. Only text can be decoded here: hand the base64 on as it is."
        ) from None
