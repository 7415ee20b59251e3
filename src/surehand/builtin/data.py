"""Data: JSON and base64, read strictly and written plainly."""

from __future__ import annotations

import base64
import json
import re
from typing import Annotated, Any

from pydantic import Field

from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.strict_json import MAX_JSON_DEPTH, validate_json_value, validate_unique_keys
from surehand.core.tool import Tool

MAX_TEXT_LENGTH = 1_000_000
"""Characters of a text that is taken apart."""
MAX_JSON_VALUES = 200_000
"""Values in one JSON text: a million brackets are a small text, and a hundred times as much memory."""

_ERROR_POSITION = re.compile(r" at line (\d+) column (\d+)\Z")
_WHITESPACE = re.compile(r"\s+")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")
_URL_SAFE_TO_STANDARD = str.maketrans("-_", "+/")

InputText = Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]


def data() -> list[Tool[..., Any]]:
    """Tools that read and write JSON and base64."""

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools",
          examples=[{"text": '{"city": "Oslo", "days": [1, 2]}'}])  # fmt: skip
    def json_parse(
        text: Annotated[InputText, Field(description="The JSON text, one complete value.")],
    ) -> dict[str, Any]:
        """Parse strict JSON text into data. Integers stay exact; duplicate keys, NaN and comments are errors."""
        return {"data": parse_json(text)}

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools",
          examples=[{"data": {"city": "Oslo"}, "pretty": True}])  # fmt: skip
    def json_stringify(
        data: Annotated[Any, Field(description="Any JSON value: object, list, text, number, boolean or null.")],
        pretty: Annotated[bool, Field(description="Indent by two spaces, one value per line.")] = False,
    ) -> dict[str, str]:
        """Write data as JSON text, compact or indented. Key order and non-ASCII characters are kept."""
        return {"text": dump_json(data, pretty=pretty)}

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools", examples=[{"text": "Grüße"}])
    def base64_encode(text: Annotated[InputText, Field(description="The text to encode, as UTF-8.")]) -> dict[str, str]:
        """Encode text as base64 of its UTF-8 bytes, with the standard alphabet and padding."""
        return {"encoded": base64.b64encode(text.encode()).decode()}

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools",
          examples=[{"encoded": "R3LDvMOfZQ=="}])  # fmt: skip
    def base64_decode(
        encoded: Annotated[
            InputText, Field(description="Standard or URL-safe base64; padding and line breaks may vary.")
        ],
    ) -> dict[str, str]:
        """Decode base64 that holds UTF-8 text. Bytes that are not text, such as an image, are an error."""
        return {"decoded": _decode_utf8(_decode_base64(encoded))}

    return [json_parse, json_stringify, base64_encode, base64_decode]


def parse_json(text: str) -> Any:
    """The value of a JSON text, exactly; raises `InvalidArguments` that says what is wrong and where."""
    from pydantic_core import from_json

    _check_value_count(text)
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidArguments(f"The text is not valid JSON: {_describe_json_error(text, str(error))}") from None
    validate_json_value(value)
    validate_unique_keys(text)
    return value


def _check_value_count(text: str) -> None:
    """Before anything is built from it; marks inside strings count too, which only makes it stricter."""
    if len(text) > MAX_JSON_VALUES and sum(map(text.count, "[{,:")) > MAX_JSON_VALUES:
        raise ToolError(f"The JSON has more than {MAX_JSON_VALUES:,} values. Parse it in parts.", code="too_large")


def _describe_json_error(text: str, problem: str) -> str:
    """The problem with its place, and what stands there."""
    if "recursion limit" in problem:
        return f"it is nested deeper than {MAX_JSON_DEPTH} levels. Give a flatter value."
    if not (place := _ERROR_POSITION.search(problem)):
        return f"{problem}."
    lines = text.encode().split(b"\n", int(place[1]) - 1)  # columns count bytes
    at = sum(len(line) + 1 for line in lines[:-1]) + int(place[2])
    around = text.encode()[max(at - 25, 0) : at + 25].decode(errors="ignore").strip()
    return f"{problem}, near {around!r}." if around else f"{problem}."


def dump_json(value: Any, *, pretty: bool = False) -> str:
    """A value as JSON text; raises `InvalidArguments` for what JSON cannot hold."""
    layout: dict[str, Any] = {"indent": 2} if pretty else {"separators": (",", ":")}
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, **layout)
    except (TypeError, ValueError) as error:
        raise InvalidArguments(f"The data cannot be written as JSON: {error}.") from None


def _decode_base64(encoded: str) -> bytes:
    if len({*"+/"} & {*encoded}) and len({*"-_"} & {*encoded}):
        raise InvalidArguments("The text mixes standard base64 (+ /) with URL-safe (- _). Give one of them.")
    letters = _WHITESPACE.sub("", encoded).translate(_URL_SAFE_TO_STANDARD)
    bare = letters.rstrip("=")
    if strange := _NOT_BASE64.search(bare):
        raise InvalidArguments(
            f"The text is not base64: {strange[0]!r} at position {strange.start()}, white space not counted."
        )
    if len(bare) % 4 == 1 or len(letters) - len(bare) > 2:
        raise InvalidArguments(f"The text is not base64: {len(bare)} letters cannot be whole. It may have been cut.")
    return base64.b64decode(bare + "=" * (-len(bare) % 4))


def _decode_utf8(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidArguments(
            f"The {len(raw):,} decoded bytes are no UTF-8 text ({error.reason} at byte {error.start}); they begin "
            f"{raw[:16].hex(' ')}. Only text can be decoded here: hand the base64 on as it is."
        ) from None
