"""Data: JSON and base64, read strictly and written plainly."""

from __future__ import annotations

import base64
import json
import re
from typing import Annotated, Any

from pydantic import Field

from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.jsontext import MAX_DEPTH, check_plain, check_unique
from surehand.core.tool import Tool

LARGEST = 1_000_000
"""Characters of a text that is taken apart."""
MOST_PARTS = 200_000
"""Values in one JSON text: a million brackets are a small text, and a hundred times as much memory."""

_PLACE = re.compile(r" at line (\d+) column (\d+)\Z")
_SPACE = re.compile(r"\s+")
_FOREIGN = re.compile(r"[^A-Za-z0-9+/]")
_URL_SAFE = str.maketrans("-_", "+/")

Text = Annotated[str, Field(max_length=LARGEST)]


def data() -> list[Tool[..., Any]]:
    """Tools that read and write JSON and base64."""

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools",
          examples=[{"text": '{"city": "Oslo", "days": [1, 2]}'}])  # fmt: skip
    def json_parse(text: Annotated[Text, Field(description="The JSON text, one complete value.")]) -> dict[str, Any]:
        """Parse strict JSON text into data. Integers stay exact; duplicate keys, NaN and comments are errors."""
        return {"data": parsed(text)}

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools",
          examples=[{"data": {"city": "Oslo"}, "pretty": True}])  # fmt: skip
    def json_stringify(
        data: Annotated[Any, Field(description="Any JSON value: object, list, text, number, boolean or null.")],
        pretty: Annotated[bool, Field(description="Indent by two spaces, one value per line.")] = False,
    ) -> dict[str, str]:
        """Write data as JSON text, compact or indented. Key order and non-ASCII characters are kept."""
        return {"text": written(data, pretty=pretty)}

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools", examples=[{"text": "Grüße"}])
    def base64_encode(text: Annotated[Text, Field(description="The text to encode, as UTF-8.")]) -> dict[str, str]:
        """Encode text as base64 of its UTF-8 bytes, with the standard alphabet and padding."""
        return {"encoded": base64.b64encode(text.encode()).decode()}

    @tool(category="data", effects={"read"}, visible=False, toolsets="all_task_tools",
          examples=[{"encoded": "R3LDvMOfZQ=="}])  # fmt: skip
    def base64_decode(
        encoded: Annotated[Text, Field(description="Standard or URL-safe base64; padding and line breaks may vary.")],
    ) -> dict[str, str]:
        """Decode base64 that holds UTF-8 text. Bytes that are not text, such as an image, are an error."""
        return {"decoded": _as_text(_decoded(encoded))}

    return [json_parse, json_stringify, base64_encode, base64_decode]


def parsed(text: str) -> Any:
    """The value of a JSON text, exactly; raises `InvalidArguments` that says what is wrong and where."""
    from pydantic_core import from_json

    _check_parts(text)
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidArguments(f"The text is not valid JSON: {_where(text, str(error))}") from None
    check_plain(value)
    check_unique(text)
    return value


def _check_parts(text: str) -> None:
    """Before anything is built from it; marks inside strings count too, which only makes it stricter."""
    if len(text) > MOST_PARTS and sum(map(text.count, "[{,:")) > MOST_PARTS:
        raise ToolError(f"The JSON has more than {MOST_PARTS:,} values. Parse it in parts.", code="too_large")


def _where(text: str, problem: str) -> str:
    """The problem with its place, and what stands there."""
    if "recursion limit" in problem:
        return f"it is nested deeper than {MAX_DEPTH} levels. Give a flatter value."
    if not (place := _PLACE.search(problem)):
        return f"{problem}."
    lines = text.encode().split(b"\n", int(place[1]) - 1)  # columns count bytes
    at = sum(len(line) + 1 for line in lines[:-1]) + int(place[2])
    around = text.encode()[max(at - 25, 0) : at + 25].decode(errors="ignore").strip()
    return f"{problem}, near {around!r}." if around else f"{problem}."


def written(value: Any, *, pretty: bool = False) -> str:
    """A value as JSON text; raises `InvalidArguments` for what JSON cannot hold."""
    layout: dict[str, Any] = {"indent": 2} if pretty else {"separators": (",", ":")}
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, **layout)
    except (TypeError, ValueError) as error:
        raise InvalidArguments(f"The data cannot be written as JSON: {error}.") from None


def _decoded(encoded: str) -> bytes:
    if len({*"+/"} & {*encoded}) and len({*"-_"} & {*encoded}):
        raise InvalidArguments("The text mixes standard base64 (+ /) with URL-safe (- _). Give one of them.")
    letters = _SPACE.sub("", encoded).translate(_URL_SAFE)
    bare = letters.rstrip("=")
    if strange := _FOREIGN.search(bare):
        raise InvalidArguments(
            f"The text is not base64: {strange[0]!r} at position {strange.start()}, white space not counted."
        )
    if len(bare) % 4 == 1 or len(letters) - len(bare) > 2:
        raise InvalidArguments(f"The text is not base64: {len(bare)} letters cannot be whole. It may have been cut.")
    return base64.b64decode(bare + "=" * (-len(bare) % 4))


def _as_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidArguments(
            f"The {len(raw):,} decoded bytes are no UTF-8 text ({error.reason} at byte {error.start}); they begin "
            f"{raw[:16].hex(' ')}. Only text can be decoded here: hand the base64 on as it is."
        ) from None
