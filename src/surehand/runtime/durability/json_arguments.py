"""Plain arguments: what was asked for, as JSON values that can be stored, shown and read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surehand.core.canonical_json import json_digest
from surehand.core.errors import InvalidArguments
from surehand.core.strict_json import parse_json
from surehand.runtime.pipeline.invocation import Invocation
from surehand.store.errors import UnstorableValue


def to_json_values(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """A copy as plain JSON values."""
    from pydantic_core import to_jsonable_python

    try:
        return to_jsonable_python(dict(arguments), bytes_mode="base64")  # type: ignore[no-any-return]
    except ValueError:  # a model has bytes that are no text, and its own idea of how to show them
        from surehand.store.serialization import deserialize_arguments, serialize_arguments

        return to_jsonable_python(deserialize_arguments(serialize_arguments(arguments)), bytes_mode="base64")  # type: ignore[no-any-return]


def json_arguments(invocation: Invocation) -> Mapping[str, Any]:
    """The arguments as they were given, or as they were mended, for people to read."""
    return to_json_values(original_arguments(invocation))


def original_arguments(invocation: Invocation) -> Mapping[str, Any]:
    """The arguments as they were given, or as they were mended: what the call runs with when it goes on."""
    raw = invocation.raw_arguments
    if isinstance(raw, bytes):
        raw = raw.decode(errors="replace")
    if isinstance(raw, str) and raw.strip():
        try:
            raw = parse_json(raw)
        except InvalidArguments:
            raw = None
    return raw if isinstance(raw, Mapping) else invocation.arguments


def call_fingerprint(invocation: Invocation) -> str:
    """What must be the same for an id to mean the same call."""
    who = invocation.principal
    try:
        return json_digest(invocation.listing.name, invocation.arguments, who.user, who.session)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or what is no value at all
        raise UnstorableValue(f"The arguments cannot be compared: {error}.") from error


def load_json_arguments(serialized: str) -> Mapping[str, Any]:
    """Kept arguments for people to read; without bytes in them they are plain already."""
    from surehand.store.serialization import deserialize_arguments

    arguments = deserialize_arguments(serialized)
    return arguments if serialized.startswith("{") else to_json_values(arguments)
