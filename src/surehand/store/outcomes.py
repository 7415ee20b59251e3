"""Outcomes and arguments as JSON text that either database can hold, and back."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from os import urandom
from typing import Any, TypeAlias

from pydantic_core import to_json, to_jsonable_python

from surehand.core.content import BLOCKS, Block
from surehand.core.outcome import Done, Failed
from surehand.store.database import Unstorable

JSON: TypeAlias = Any
_BLOCKS = {block.type: block for block in BLOCKS}
_BYTES = "bytes:"
_LONGEST_NUMBER = 4_300
_CLIPPED = "_shown"  # as databases have it
_PLAIN = {"data", "data_json", "origin"}
"""What an outcome has that has nothing but data."""


def json_text(value: Any) -> str:
    """A value as JSON; NUL and lone surrogates are written as escapes, which both databases keep."""
    try:
        return _readable(to_json(value, bytes_mode="base64", inf_nan_mode="strings", fallback=str).decode())
    except ValueError:  # a lone surrogate, which no UTF-8 can hold
        return _with_escapes(value)


def _readable(text: str) -> str:
    """Python writes numbers of more digits than it reads: what is kept must be read again."""
    # One of so many digits has some at every so many characters: no need to look at them all.
    step = _LONGEST_NUMBER // 2
    if len(text) > step and any(text[place : place + 50].isdigit() for place in range(0, len(text), step)):
        try:
            json.loads(text)
        except ValueError as error:
            raise Unstorable(f"It cannot be kept: {error}.") from error
    return text


def _with_escapes(value: Any) -> str:
    try:
        return json.dumps(value, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unstorable(f"It cannot be written as JSON: {error}.") from error


def outcome_text(outcome: Done | Failed) -> str:
    """An outcome as it is kept. Its data becomes plain JSON values; everything a model was shown stays as it was."""
    if isinstance(outcome, Failed):
        return json_text({"failed": outcome.code, **_given(outcome, "message", "executed", "data", "retry_after")})
    data = json_text(outcome.data) if outcome.data_json is None else _readable(outcome.data_json.decode())
    if outcome.__dict__.keys() <= _PLAIN:
        return f'{{"done":{data}}}'
    more = _given(outcome, "title", "metadata")
    if outcome.clipped_text is not None:
        more[_CLIPPED] = outcome.clipped_text
    if outcome.has_own_content:
        more["content"] = [_block(block) for block in outcome.content]
    if outcome.attachments:
        more["attachments"] = [_block(block) for block in outcome.attachments]
    return f'{{"done":{data},"more":{json_text(more)}}}' if more else f'{{"done":{data}}}'


def outcome_of(text: str) -> Done | Failed:
    """An outcome as it was kept."""
    kept = json.loads(text)
    if "failed" in kept:
        return Failed(kept.pop("failed"), **kept)
    more = kept.get("more") or {}
    clipped = more.pop(_CLIPPED, None)
    for name in more.keys() & {"content", "attachments"}:
        more[name] = [_block_of(block) for block in more[name]]
    done = Done(kept["done"], **more)
    return done if clipped is None else done.clipped(clipped)


def _given(outcome: Done | Failed, *names: str) -> dict[str, Any]:
    """What differs from the default."""
    found = {name: getattr(outcome, name) for name in names}
    return {name: value for name, value in found.items() if value is not None and value is not False and value != {}}


def _block(block: Block) -> dict[str, Any]:
    return {"type": block.type, **asdict(block)}


def _block_of(kept: dict[str, Any]) -> Block:
    return _BLOCKS[kept.pop("type")](**kept)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Arguments as they are kept. Bytes come back as bytes: their mark is drawn by lot, so that nobody can forge it."""
    mark = urandom(8).hex()
    found = False

    def plain(value: Any) -> Any:
        nonlocal found
        if isinstance(value, (bytes, bytearray)):
            found = True
            return {mark: b64encode(value).decode()}
        return _opened(value)

    try:
        text = json.dumps(arguments, default=plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unstorable(f"The arguments cannot be written down: {error}.") from error
    return f"{_BYTES}{mark}:{text}" if found else text


def arguments_of(text: str) -> dict[str, Any]:
    """Arguments as they were kept."""
    if not text.startswith(_BYTES):
        return json.loads(text)  # type: ignore[no-any-return]
    mark, text = text[len(_BYTES) :].split(":", 1)
    hook = lambda found: b64decode(found[mark]) if found.keys() == {mark} else found  # noqa: E731 - shorter so
    return json.loads(text, object_hook=hook)  # type: ignore[no-any-return]


def _opened(value: Any) -> Any:
    """One layer of what holds other values, so that bytes are found wherever they are."""
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value.model_dump(by_alias=True) if hasattr(value, "model_dump") else _plain(value)


def _plain(value: Any) -> Any:
    """Dates, models, sets and the like, as pydantic writes them; raises for what nobody can write."""
    return to_jsonable_python(value, bytes_mode="base64")
