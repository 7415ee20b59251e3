"""Reading JSON strictly: what a model sent is taken exactly or refused with a reason."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import isfinite
from typing import Any

from surehand.core.errors import InvalidArguments

MAX_JSON_DEPTH = 200


class MalformedJson(InvalidArguments):
    """The text is not JSON at all; it may be worth mending."""


def parse_json(text: str | bytes) -> Any:
    """The value, or `InvalidArguments`: no NaN or infinities, duplicate keys, lone surrogates or bottomless depth."""
    from pydantic_core import from_json

    try:
        value = from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError) as error:
        raise _parse_error(error) from None
    validate_json_value(value)
    validate_unique_keys(text)
    return value


def decode_utf8(data: bytes) -> str:
    """The text that bytes stand for; a replacement character would be another value than was sent."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArguments(f"The arguments are not UTF-8 ({error.reason} at byte {error.start}).") from None


def _parse_error(error: ValueError | TypeError) -> InvalidArguments:
    # A string with a lone surrogate is no string to the parser: TypeError.
    reason = "it holds a lone surrogate" if isinstance(error, (UnicodeError, TypeError)) else str(error)
    if "recursion limit" in reason:
        return InvalidArguments(f"The JSON is nested deeper than {MAX_JSON_DEPTH} levels. Send a flatter value.")
    return MalformedJson(f"The arguments are not valid JSON ({reason}). Send one complete JSON object.")


def validate_json_value(value: Any) -> None:
    """Refuse what JSON cannot hold, at any depth; walks without recursion, so that depth cannot hurt."""
    if type(value) is dict and _is_flat_ascii_object(value):
        return
    level, depth = [value], 0
    while level:
        if (depth := depth + 1) > MAX_JSON_DEPTH:
            raise InvalidArguments(
                f"The arguments are nested deeper than {MAX_JSON_DEPTH} levels. Send a flatter value."
            )
        # Each value once: what holds itself, or one thing many times over, would grow without end.
        level = list({id(item): item for holder in level for item in _validate_and_list_children(holder)}.values())


def _is_flat_ascii_object(value: dict[Any, Any]) -> bool:
    """Whether an object holds nothing but plain scalars, as most arguments do: then one look is enough."""
    for key, item in value.items():
        kind = type(item)
        if kind is str:
            if not item.isascii():
                return False
        elif kind is float:
            if not isfinite(item):
                return False
        elif kind is not int and kind is not bool and item is not None:
            return False
        if type(key) is not str or not key.isascii():
            return False
    return True


def has_at_most_parts(max_parts: int, value: Any) -> bool:
    """Whether a plain value has no more than so many parts."""
    level, count = [value], 0
    while level and count <= max_parts:
        count += len(level)
        level = [item for holder in level for item in islice(_children(holder), max_parts)]
    return count <= max_parts


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()


def _validate_and_list_children(value: Any) -> Iterable[Any]:
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
    """At least as many as there are keys: a key's colon follows its quote, or white space after it."""
    return sum(text.count(f"{before}:") for before in '" \t\n\r')


def validate_unique_keys(text: str | bytes) -> None:
    """Refuse a repeated key: which of the two values was meant cannot be known."""
    import json

    if isinstance(text, str) and count_key_colons(text) < 2:
        return
    try:
        json.loads(text, object_pairs_hook=_object_with_unique_keys)
    except RecursionError:
        raise InvalidArguments("The JSON is nested too deeply. Send a flatter value.") from None


def _object_with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidArguments(f"The key {twice[:200]!r} is given twice. Send each key once.")
    return values
