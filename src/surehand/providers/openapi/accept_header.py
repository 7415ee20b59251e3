"""The `Accept` header of an operation: JSON, if the document says that the operation can answer so."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from surehand.providers.openapi.document import Document, UnusableOperation
from surehand.providers.openapi.document_limits import MAX_ALTERNATIVES
from surehand.providers.openapi.media_types import essence
from surehand.providers.openapi.operations import Operation

MAX_ACCEPTED_TYPES = 3


def accept_header(document: Document, operation: Operation) -> str:
    """The value of the `Accept` header; empty if the operation may answer in any format."""
    answer_types = dict.fromkeys(_answer_types(document, operation))
    json_types = [each for each in answer_types if essence(each).endswith(("/json", "+json"))]
    if not json_types or not all(each.isascii() and each.isprintable() for each in json_types):
        return ""
    return ", ".join([*json_types[:MAX_ACCEPTED_TYPES], "*/*;q=0.1"])


def _answer_types(document: Document, operation: Operation) -> Iterator[str]:
    """The media types of successful responses. Version 2.0 lists them in `produces`, maybe for all operations."""
    responses = operation.definition.get("responses")
    for status, written in islice(responses.items(), MAX_ALTERNATIVES) if isinstance(responses, dict) else ():
        if str(status).startswith("2"):
            response = _resolve_response(document, written, operation)
            yield from _texts(response.get("content") if isinstance(response, dict) else None)
    yield from _texts(operation.definition.get("produces", document.root.get("produces")))


def _resolve_response(document: Document, written: Any, operation: Operation) -> Any:
    try:
        return document.resolve(written, operation.source).value
    except UnusableOperation:  # the operation can be called all the same
        return None


def _texts(values: Any) -> Iterator[str]:
    if isinstance(values, (dict, list)):
        yield from (each for each in islice(values, MAX_ALTERNATIVES) if isinstance(each, str))
