"""Redaction: masks known secrets in outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from surehand.core.content import Block, map_block_values
from surehand.core.outcome import Done, Failed, Outcome
from surehand.core.redaction import build_redactor
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.installed_middleware import Middleware


def redaction(secrets: Iterable[str]) -> Middleware:
    """Mask the secrets in data, text, titles, metadata and error messages, in all usual encodings."""
    redact = build_redactor(secrets)

    async def redaction(invocation: Invocation, proceed: NextStage) -> Outcome:
        outcome = await proceed(invocation)
        if isinstance(outcome, Done):
            return _redact_done(outcome, redact)
        if isinstance(outcome, Failed):
            return outcome.evolve(message=redact(outcome.message), data=_redact_value(outcome.data, redact))
        return outcome.evolve(message=redact(outcome.message), request=_redact_value(outcome.request, redact))

    return redaction


def _redact_done(outcome: Done, redact: Callable[[str], str]) -> Done:
    changes: dict[str, Any] = {
        "data": _redact_value(outcome.data, redact),
        "title": _redact_value(outcome.title, redact),
        "metadata": _redact_value(outcome.metadata, redact),
        "attachments": tuple(_redact_block(block, redact) for block in outcome.attachments),
    }
    if outcome.has_own_content:
        changes["content"] = tuple(_redact_block(block, redact) for block in outcome.content_without_attachments)
    return outcome.evolve(**changes).serialize_data()


def _redact_value(value: Any, redact: Callable[[str], str]) -> Any:
    """Mask the secrets in a value of any type, at any depth."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {_redact_value(key, redact): _redact_value(item, redact) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redact_value(item, redact) for item in value]
    if value is None or isinstance(value, (int, float)):
        return value
    return _redact_object(value, redact)


def _redact_object(value: Any, redact: Callable[[str], str]) -> Any:
    """Convert an object that contains a secret to plain values; any other object stays as it is."""
    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(value, bytes_mode="base64")
    cleaned = _redact_value(plain, redact)
    return value if cleaned == plain else cleaned


def _redact_block(block: Block, redact: Callable[[str], str]) -> Block:
    return map_block_values(block, lambda value: _redact_value(value, redact))
