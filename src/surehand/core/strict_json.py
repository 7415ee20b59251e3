"""Strict JSON: a value is parsed exactly as it was sent, or refused with a reason for the model.

Refused are NaN and infinities, repeated keys, lone surrogates and more than 200 levels, as in hostile or broken input.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import isfinite
from typing import Any

from surehand.core.errors import InvalidArguments

MAX_JSON_DEPTH = 200


class MalformedJson(InvalidArguments):
    """The text is not JSON. The repair stage may be able to correct it."""


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text strictly; raises `InvalidArguments`."""
    from pydantic_core import from_json  # imported on first use: arguments of typed parameters are parsed by pydantic

    try:
        value = from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError) as error:
        raise _parse_error(error) from None
    validate_json_value(value)
    # `from_json` keeps the last of two equal keys, and says nothing about it. If it kept as many keys as there can be,
    # none was given twice: counting them takes a tenth of the time of parsing the text again.
    if not isinstance(text, str) or count_keys(value) != count_key_colons(text):
        validate_unique_keys(text)
    return value


def decode_utf8(data: bytes) -> str:
    """Decode UTF-8 strictly: with replacement characters the value would differ from the one that was sent."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArguments(f"The arguments are not UTF-8 ({error.reason} at byte {error.start}).") from None


def _parse_error(error: ValueError | TypeError) -> InvalidArguments:
    # pydantic_core cannot take a str with a lone surrogate and raises TypeError, as if it were no str at all.
    reason = "it holds a lone surrogate" if isinstance(error, (UnicodeError, TypeError)) else str(error)
    if "recursion limit" in reason:
        return InvalidArguments(f"The JSON is nested deeper than {MAX_JSON_DEPTH} levels. Send a flatter value.")
    return MalformedJson(f"The arguments are not valid JSON ({reason}). Send one complete JSON object.")


def validate_json_value(value: Any) -> None:
    """Refuse values that JSON cannot hold, at any depth. It goes level by level, without recursion."""
    if type(value) is dict and _is_flat_ascii_object(value):
        return
    level = [value]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_JSON_DEPTH:
            raise InvalidArguments(
                f"The arguments are nested deeper than {MAX_JSON_DEPTH} levels. Send a flatter value."
            )
        # Each object once per level: a value that contains itself, or another many times over, would grow without end.
        children = {id(child): child for parent in level for child in _validate_and_list_children(parent)}
        level = list(children.values())


def _is_flat_ascii_object(value: dict[Any, Any]) -> bool:
    """Whether an object holds only valid scalars and ASCII strings, as most arguments do: a fast path."""
    for key, item in value.items():
        item_type = type(item)
        if item_type is str:
            if not item.isascii():
                return False
        elif item_type is float:
            if not isfinite(item):
                return False
        elif item_type is not int and item_type is not bool and item is not None:
            return False
        if type(key) is not str or not key.isascii():
            return False
    return True


def has_at_most_parts(max_parts: int, value: Any) -> bool:
    """Whether a JSON value has at most this many parts, all levels together."""
    level = [value]
    count = 0
    while level and count <= max_parts:
        count += len(level)
        level = [child for parent in level for child in islice(_children(parent), max_parts)]
    return count <= max_parts


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def _validate_and_list_children(value: Any) -> Iterable[Any]:
    """Refuse a scalar that JSON cannot hold; return the keys and values of an object, or the items of a list."""
    if isinstance(value, float):
        if not isfinite(value):
            raise InvalidArguments(f"{value} is not a number that JSON can hold. Send a finite number.")
    elif isinstance(value, str):
        if not value.isascii() and not _is_encodable(value):
            raise InvalidArguments("A string holds a lone surrogate. Send valid Unicode text.")
    elif isinstance(value, dict):
        return [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple)):
        return value
    return ()


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def count_key_colons(text: str) -> int:
    """An upper bound of the number of keys: a key's colon follows its closing quote, or white space after it."""
    return sum(text.count(f"{before}:") for before in '" \t\n\r')


def count_keys(value: Any) -> int:
    """The number of keys of all objects in a JSON value."""
    count = 0
    level = [value]
    while level:
        count += sum(len(each) for each in level if type(each) is dict)
        level = [child for parent in level for child in _children(parent) if type(child) in (dict, list)]
    return count


def validate_unique_keys(text: str | bytes) -> None:
    """Refuse a repeated key, because it is unknown which of its values was meant."""
    if isinstance(text, str) and count_key_colons(text) < 2:
        return
    import json  # imported on first use: a call with few arguments does not need it

    try:
        json.loads(text, object_pairs_hook=_object_with_unique_keys)
    except RecursionError:
        raise InvalidArguments("The JSON is nested too deeply. Send a flatter value.") from None


def _object_with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidArguments(f"The key {key[:200]!r} is given twice. Send each key once.")
            seen.add(key)
    return values
