"""Redaction: known secrets never leave in an outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from surehand.core.content import Block
from surehand.core.outcome import Done, Failed, Outcome
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Proceed
from surehand.runtime.redaction import redactor
from surehand.runtime.stages.middleware import Middleware


def redaction(secrets: Iterable[str]) -> Middleware:
    """Masks the secrets in data, text, titles, metadata and error messages, in all their usual spellings."""
    redact = redactor(secrets)

    async def redaction(invocation: Invocation, proceed: Proceed) -> Outcome:
        outcome = await proceed(invocation)
        if isinstance(outcome, Done):
            return _clean_done(outcome, redact)
        if isinstance(outcome, Failed):
            return outcome.evolve(message=redact(outcome.message), data=_clean(outcome.data, redact))
        return outcome.evolve(message=redact(outcome.message), request=_clean(outcome.request, redact))

    return redaction


def _clean_done(outcome: Done, redact: Callable[[str], str]) -> Done:
    changes: dict[str, Any] = {
        "data": _clean(outcome.data, redact),
        "title": _clean(outcome.title, redact),
        "metadata": _clean(outcome.metadata, redact),
        "attachments": tuple(_clean_block(block, redact) for block in outcome.attachments),
    }
    if outcome.has_own_content:
        changes["content"] = tuple(_clean_block(block, redact) for block in outcome.content)
    return outcome.evolve(**changes).serialised()


def _clean(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {_clean(key, redact): _clean(item, redact) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item, redact) for item in value]
    if value is None or isinstance(value, (int, float)):
        return value
    return _clean_object(value, redact)


def _clean_object(value: Any, redact: Callable[[str], str]) -> Any:
    """A model or another object that holds a secret becomes plain values: its text must not leak."""
    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(value, bytes_mode="base64")
    cleaned = _clean(plain, redact)
    return value if cleaned == plain else cleaned


def _clean_block(block: Block, redact: Callable[[str], str]) -> Block:
    return replace(block, **{field.name: _clean(getattr(block, field.name), redact) for field in fields(block)})
