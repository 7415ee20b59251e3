"""Outcomes as the JSON of a cassette file, and back, with exactly the same text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from math import isfinite
from typing import Any, TypeAlias

from surehand.core.content import Block, OtherBlock, block_from_fields
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.core.redaction import build_redactor

JSON: TypeAlias = Any
ToJSON: TypeAlias = Callable[[Any], JSON]


def json_converter(secrets: Iterable[str] = ()) -> ToJSON:
    """Build a function that converts any value to a JSON value with the secrets masked."""
    from pydantic_core import to_jsonable_python

    redact = build_redactor(secrets)

    def clean(value: Any) -> JSON:
        match value:
            case str():
                return redact(value)
            case dict():
                return {redact(key): clean(item) for key, item in value.items()}
            case list():
                return [clean(item) for item in value]
            case float() if not isfinite(value):
                return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
        return value

    return lambda value: clean(to_jsonable_python(value, bytes_mode="base64", fallback=str))


def outcome_to_json(outcome: Outcome, to_json: ToJSON) -> dict[str, JSON]:
    """Write an outcome as JSON; default values are left out."""
    match outcome:
        case Done():
            return _done_to_json(outcome, to_json)
        case Failed():
            rest = {
                "executed": outcome.executed or None,
                "data": to_json(outcome.data),
                "retry_after": outcome.retry_after,
            }
            return {"failed": outcome.code, "message": to_json(outcome.message), **_without_nones(rest)}
        case Pending():
            return {
                "pending": outcome.waiting_for,
                "message": to_json(outcome.message),
                **_without_nones({"request": to_json(outcome.request)}),
            }


def _done_to_json(outcome: Done, to_json: ToJSON) -> dict[str, JSON]:
    data = to_json(outcome.data)
    content = [_block_to_json(block, to_json) for block in outcome.content_without_attachments]
    # Content that follows from the data is left out, unless the data changes when it is converted to JSON.
    is_derived = not outcome.has_own_content and content == [
        _block_to_json(block, to_json) for block in Done(data).content
    ]
    rest = {
        "content": None if is_derived else content,
        "title": to_json(outcome.title),
        "metadata": to_json(dict(outcome.metadata)) or None,
        "attachments": [_block_to_json(block, to_json) for block in outcome.attachments] or None,
    }
    has_lines = isinstance(data, str) and "\n" in data
    return {**({"lines": data.split("\n")} if has_lines else {"done": data}), **_without_nones(rest)}


def outcome_from_json(stored: Mapping[str, JSON]) -> Outcome:
    """Read an outcome from its JSON."""
    rest = dict(stored)
    if "failed" in rest:
        return Failed(rest.pop("failed"), **rest)
    if "pending" in rest:
        return Pending(rest["pending"], message=rest["message"], request=rest.get("request"))
    data = "\n".join(rest.pop("lines")) if "lines" in rest else rest.pop("done")
    for name in rest.keys() & {"content", "attachments"}:
        rest[name] = [block_from_fields(block) for block in rest[name]]
    return Done(data, **rest)


def _block_to_json(block: Block, to_json: ToJSON) -> dict[str, JSON]:
    if isinstance(block, OtherBlock):
        return {"type": block.type, **to_json(dict(block.fields))}
    values = {field: getattr(block, field.name) for field in fields(block)}
    non_default = {
        field.name: to_json(value)
        for field, value in values.items()
        if field.default is MISSING or value != field.default
    }
    return {"type": block.type, **non_default}


def _without_nones(values: dict[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in values.items() if value is not None}
