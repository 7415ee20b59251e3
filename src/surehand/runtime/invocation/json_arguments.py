"""JSON arguments: a call's arguments as plain JSON values, to store, show and compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surehand.core.canonical_json import json_digest
from surehand.core.errors import InvalidArguments
from surehand.core.strict_json import parse_json
from surehand.runtime.invocation.invocation import Invocation
from surehand.store.errors import UnstorableValue


def to_json_values(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Copy arguments to plain JSON values."""
    from pydantic_core import to_jsonable_python  # loaded on first use

    try:
        return to_jsonable_python(dict(arguments), bytes_mode="base64")  # type: ignore[no-any-return]
    except ValueError:  # a pydantic model serialises its bytes as UTF-8, and these are not
        from surehand.store.serialization import deserialize_arguments, serialize_arguments  # keeps the store off

        return to_jsonable_python(deserialize_arguments(serialize_arguments(arguments)), bytes_mode="base64")  # type: ignore[no-any-return]


def json_arguments(invocation: Invocation) -> Mapping[str, Any]:
    """The original arguments as plain JSON values, to show to people."""
    return to_json_values(original_arguments(invocation))


def original_arguments(invocation: Invocation) -> Mapping[str, Any]:
    """The arguments as given, or as repaired; a resumed call runs with them."""
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
    """The digest that tells whether a reused id means the same call."""
    principal = invocation.principal
    try:
        return json_digest(invocation.listing.name, invocation.arguments, principal.user, principal.session)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or a value that is not JSON
        raise UnstorableValue(f"The arguments cannot be compared: {error}.") from error


def load_json_arguments(serialized: str) -> Mapping[str, Any]:
    """Load stored arguments as plain JSON values; only those with bytes need a conversion."""
    from surehand.store.serialization import deserialize_arguments  # keeps the store off the import path

    arguments = deserialize_arguments(serialized)
    return arguments if serialized.startswith("{") else to_json_values(arguments)
