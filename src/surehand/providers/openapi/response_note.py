"""Notes about responses that do not match their schema. The response is the result all the same."""

from __future__ import annotations

import asyncio
from typing import Any

from surehand.core.errors import DefinitionError, InvalidArguments
from surehand.core.raw_schema import RawParameters
from surehand.core.strict_json import has_at_most_parts
from surehand.providers.openapi.document import Document, Located, UnusableOperation
from surehand.providers.openapi.document_limits import MAX_SCHEMAS_PER_PART
from surehand.providers.openapi.operations import Operation
from surehand.providers.openapi.schema import SchemaConverter
from surehand.providers.openapi.work_limit import WorkLimit

MAX_DEFINITION_CHARS = 60_000
MAX_CHECKED_PARTS = 20_000
"""A larger response is not compared: it would take longer than a note is worth."""
_RESULT = "result"


class ResponseNotes:
    """Compares results with the schemas of a document's responses; compiled when an operation first answers."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._converter = SchemaConverter(document, for_responses=True)
        self._validators: dict[int, RawParameters | None] = {}

    async def find_note(self, operation: Operation, data: Any) -> str:
        """What about a result differs from the document; empty if nothing does, or if it is not known."""
        if not isinstance(data, (dict, list)) or not has_at_most_parts(MAX_CHECKED_PARTS, data):
            return ""
        key = id(operation.definition)
        if key not in self._validators:
            # In a thread: it may read other files of the document.
            self._validators[key] = await asyncio.to_thread(self._build_validator, operation)
        parameters = self._validators[key]
        if parameters is None or not parameters.cost.can_explain({_RESULT: data}):
            return ""
        try:
            parameters.validate_mapping({_RESULT: data})
        except InvalidArguments as error:
            return f"The response does not match the document: {error}"
        return ""

    def _build_validator(self, operation: Operation) -> RawParameters | None:
        schemas: list[dict[str, Any]] = []
        refs: set[str] = set()
        work = WorkLimit()
        try:
            for located in self._response_schemas(operation):
                schema, names = self._converter.convert(located, work)
                schemas.append(schema)
                refs |= names
            if not schemas:
                return None
            definitions = self._converter.collect_definitions(refs, MAX_DEFINITION_CHARS)
            parameters = RawParameters({"properties": {_RESULT: {"anyOf": schemas}}, "$defs": definitions})
            parameters.compile()
        except (UnusableOperation, DefinitionError):
            return None
        return parameters if parameters.cost.schemas_per_part <= MAX_SCHEMAS_PER_PART else None

    def _response_schemas(self, operation: Operation) -> list[Located]:
        """The JSON schemas of all successful responses; none if one of them has no schema."""
        responses = operation.definition.get("responses")
        found: list[Located] = []
        for status, written in responses.items() if isinstance(responses, dict) else ():
            if not str(status).startswith("2") or str(status) in ("204", "205"):  # these have no content
                continue
            response = self._document.resolve(written, operation.source)
            schema = _json_schema(response.value, is_swagger=self._document.is_swagger)
            if schema is None:
                return []
            found.append(Located(schema, response.source))
        return found


def _json_schema(response: Any, *, is_swagger: bool) -> Any:
    if not isinstance(response, dict):
        return None
    if is_swagger:
        return response.get("schema")
    content = response.get("content")
    for media_type, described in content.items() if isinstance(content, dict) else ():
        if "json" in media_type and isinstance(described, dict):
            return described.get("schema")
    return None
