"""Outcomes and arguments as JSON text that either database can hold, and back."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from os import urandom
from typing import Any, TypeAlias

from pydantic_core import to_json, to_jsonable_python

from surehand.core.content import BLOCK_TYPES, Block
from surehand.core.outcome import Done, Failed
from surehand.store.database import UnstorableValue

JSON: TypeAlias = Any
_BLOCK_TYPES = {block.type: block for block in BLOCK_TYPES}
_BYTES_PREFIX = "bytes:"
_MAX_NUMBER_DIGITS = 4_300
_CLIPPED_TEXT_KEY = "_shown"  # as databases have it
_DATA_ONLY_ATTRIBUTES = {"data", "data_json", "origin"}
"""What an outcome has that has nothing but data."""


def dump_json(value: Any) -> str:
    """A value as JSON; NUL and lone surrogates are written as escapes, which both databases keep."""
    try:
        return _check_readable(to_json(value, bytes_mode="base64", inf_nan_mode="strings", fallback=str).decode())
    except ValueError:  # a lone surrogate, which no UTF-8 can hold
        return _dump_with_escapes(value)


def _check_readable(text: str) -> str:
    """Python writes numbers of more digits than it reads: what is kept must be read again."""
    # One of so many digits has some at every so many characters: no need to look at them all.
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
    """An outcome as it is kept. Its data becomes plain JSON values; everything a model was shown stays as it was."""
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
        more["content"] = [_serialize_block(block) for block in outcome.content]
    if outcome.attachments:
        more["attachments"] = [_serialize_block(block) for block in outcome.attachments]
    return f'{{"done":{data},"more":{dump_json(more)}}}' if more else f'{{"done":{data}}}'


def deserialize_outcome(text: str) -> Done | Failed:
    """An outcome as it was kept."""
    kept = json.loads(text)
    if "failed" in kept:
        return Failed(kept.pop("failed"), **kept)
    more = kept.get("more") or {}
    clipped = more.pop(_CLIPPED_TEXT_KEY, None)
    for name in more.keys() & {"content", "attachments"}:
        more[name] = [_deserialize_block(block) for block in more[name]]
    done = Done(kept["done"], **more)
    return done if clipped is None else done.with_clipped_text(clipped)


def _non_default_fields(outcome: Done | Failed, *names: str) -> dict[str, Any]:
    """What differs from the default."""
    found = {name: getattr(outcome, name) for name in names}
    return {name: value for name, value in found.items() if value is not None and value is not False and value != {}}


def _serialize_block(block: Block) -> dict[str, Any]:
    return {"type": block.type, **asdict(block)}


def _deserialize_block(stored: dict[str, Any]) -> Block:
    return _BLOCK_TYPES[stored.pop("type")](**stored)


def serialize_arguments(arguments: Mapping[str, Any]) -> str:
    """Arguments as they are kept. Bytes come back as bytes: their mark is drawn by lot, so that nobody can forge it."""
    mark = urandom(8).hex()
    found = False

    def plain(value: Any) -> Any:
        nonlocal found
        if isinstance(value, (bytes, bytearray)):
            found = True
            return {mark: b64encode(value).decode()}
        return _unwrap_container(value)

    try:
        text = json.dumps(arguments, default=plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnstorableValue(f"The arguments cannot be written down: {error}.") from error
    return f"{_BYTES_PREFIX}{mark}:{text}" if found else text


def deserialize_arguments(text: str) -> dict[str, Any]:
    """Arguments as they were kept."""
    if not text.startswith(_BYTES_PREFIX):
        return json.loads(text)  # type: ignore[no-any-return]
    mark, text = text[len(_BYTES_PREFIX) :].split(":", 1)
    hook = lambda found: b64decode(found[mark]) if found.keys() == {mark} else found  # noqa: E731 - shorter so
    return json.loads(text, object_hook=hook)  # type: ignore[no-any-return]


def _unwrap_container(value: Any) -> Any:
    """One layer of what holds other values, so that bytes are found wherever they are."""
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value.model_dump(by_alias=True) if hasattr(value, "model_dump") else _to_jsonable(value)


def _to_jsonable(value: Any) -> Any:
    """Dates, models, sets and the like, as pydantic writes them; raises for what nobody can write."""
    return to_jsonable_python(value, bytes_mode="base64")
