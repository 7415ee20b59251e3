"""Outcomes and arguments as JSON text that both databases can store, and back."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from os import urandom
from typing import Any, TypeAlias

from pydantic_core import to_json, to_jsonable_python

from surehand.core.content import block_fields, block_from_fields
from surehand.core.outcome import Done, Failed
from surehand.store.database import UnstorableValue

JSON: TypeAlias = Any
_BYTES_PREFIX = "bytes:"
_MAX_NUMBER_DIGITS = 4_300
"""Digits of an integer that Python parses by default (`sys.get_int_max_str_digits`)."""
_CLIPPED_TEXT_KEY = "_shown"  # the stored form: it must not change
_DATA_ONLY_ATTRIBUTES = {"data", "data_json", "origin"}
"""Attributes of an outcome that consists of its data alone."""


def dump_json(value: Any) -> str:
    """Write a value as JSON; NUL and lone surrogates become escapes, which both databases can store."""
    try:
        return _check_readable(
            to_json(value, bytes_mode="base64", inf_nan_mode="strings", fallback=_mapping_or_text).decode()
        )
    except ValueError:  # a lone surrogate, which UTF-8 cannot encode
        return _dump_with_escapes(value)


def _mapping_or_text(value: Any) -> Any:
    """What stands in JSON for a value that pydantic does not know: a read-only mapping is one of them."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def _check_readable(text: str) -> str:
    """Reject integers with so many digits that Python writes but does not read them."""
    # An integer that long covers at least one of the sampled positions: the text need not be scanned whole.
    step = _MAX_NUMBER_DIGITS // 2
    if len(text) > step and any(text[place : place + 50].isdigit() for place in range(0, len(text), step)):
        try:
            json.loads(text)
        except ValueError as error:
            raise UnstorableValue(f"It cannot be kept: {error}.") from error
    return text


def _dump_with_escapes(value: Any) -> str:
    try:
        return json.dumps(value, default=_to_jsonable)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnstorableValue(f"It cannot be written as JSON: {error}.") from error


def serialize_outcome(outcome: Done | Failed) -> str:
    """Write an outcome as JSON. Its data becomes plain JSON values; text and content for models stay unchanged."""
    if isinstance(outcome, Failed):
        return dump_json(
            {"failed": outcome.code, **_non_default_fields(outcome, "message", "executed", "data", "retry_after")}
        )
    data = dump_json(outcome.data) if outcome.data_json is None else _check_readable(outcome.data_json.decode())
    if outcome.__dict__.keys() <= _DATA_ONLY_ATTRIBUTES:
        return f'{{"done":{data}}}'
    more = _non_default_fields(outcome, "title", "metadata")
    if outcome.clipped_text is not None:
        more[_CLIPPED_TEXT_KEY] = outcome.clipped_text
    if outcome.has_own_content:
        more["content"] = [block_fields(block) for block in outcome.content_without_attachments]
    if outcome.attachments:
        more["attachments"] = [block_fields(block) for block in outcome.attachments]
    return f'{{"done":{data},"more":{dump_json(more)}}}' if more else f'{{"done":{data}}}'


def deserialize_outcome(text: str) -> Done | Failed:
    """Read an outcome from its stored form."""
    stored = json.loads(text)
    if "failed" in stored:
        return Failed(stored.pop("failed"), **stored)
    more = stored.get("more") or {}
    clipped = more.pop(_CLIPPED_TEXT_KEY, None)
    for name in more.keys() & {"content", "attachments"}:
        more[name] = [block_from_fields(block) for block in more[name]]
    done = Done(stored["done"], **more)
    return done if clipped is None else done.with_clipped_text(clipped)


def _non_default_fields(outcome: Done | Failed, *names: str) -> dict[str, Any]:
    """Return the named fields that differ from their default."""
    values = {name: getattr(outcome, name) for name in names}
    return {name: value for name, value in values.items() if value is not None and value is not False and value != {}}


def serialize_arguments(arguments: Mapping[str, Any]) -> str:
    """Write arguments as JSON. Bytes are read back as bytes: a random key marks them, which input cannot forge."""
    mark = urandom(8).hex()
    has_bytes = False

    def to_json_value(value: Any) -> Any:
        nonlocal has_bytes
        if isinstance(value, (bytes, bytearray)):
            has_bytes = True
            return {mark: b64encode(value).decode()}
        return _unwrap_container(value)

    try:
        text = json.dumps(arguments, default=to_json_value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnstorableValue(f"The arguments cannot be written down: {error}.") from error
    return f"{_BYTES_PREFIX}{mark}:{text}" if has_bytes else text


def deserialize_arguments(text: str) -> dict[str, Any]:
    """Read arguments from their stored form."""
    if not text.startswith(_BYTES_PREFIX):
        return json.loads(text)  # type: ignore[no-any-return]
    mark, text = text[len(_BYTES_PREFIX) :].split(":", 1)

    def decode_bytes(value: dict[str, Any]) -> Any:
        return b64decode(value[mark]) if value.keys() == {mark} else value

    return json.loads(text, object_hook=decode_bytes)  # type: ignore[no-any-return]


def _unwrap_container(value: Any) -> Any:
    """Convert one layer of a container, so that bytes inside it are still seen as bytes."""
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value.model_dump(by_alias=True) if hasattr(value, "model_dump") else _to_jsonable(value)


def _to_jsonable(value: Any) -> Any:
    """Convert dates, models, sets and similar values as pydantic does; raises for anything else."""
    return to_jsonable_python(value, bytes_mode="base64")
