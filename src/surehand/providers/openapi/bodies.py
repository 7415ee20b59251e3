"""Reads the body of an operation from a document of any version into a `BodyPlan`."""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

from surehand.core.errors import ToolError
from surehand.http.headers import validate_headers
from surehand.providers.openapi.body import BodyPlan, FieldEncoding
from surehand.providers.openapi.document import Document, Located, UnusableOperation
from surehand.providers.openapi.document_limits import (
    MAX_ALTERNATIVES,
    MAX_ARGUMENTS,
    MAX_BODY_FIELDS,
    MAX_PART_HEADERS,
)
from surehand.providers.openapi.examples import find_examples
from surehand.providers.openapi.flat_body import iter_all_of_parts
from surehand.providers.openapi.media_types import FORM, MULTIPART, body_kind, choose_media_type, sent_media_type
from surehand.providers.openapi.operations import Operation
from surehand.providers.openapi.parameters import Style, iter_parameters

MAX_CONTENT_TYPE_CHARS = 1_000
_FORM_STYLES = ("form", "spaceDelimited", "pipeDelimited", "deepObject")


def read_body(document: Document, operation: Operation) -> BodyPlan | None:
    """The body of an operation; None if it takes none."""
    if document.is_swagger:
        return _read_swagger_body(document, operation)
    written = operation.definition.get("requestBody")
    if written is None:
        return None
    located = document.resolve(written, operation.source)
    content = located.value.get("content") if isinstance(located.value, dict) else None
    if not isinstance(content, dict):
        raise UnusableOperation("The request body has no `content`.")
    if not content:
        return None
    media_type = choose_media_type(content)
    described = document.resolve(content[media_type], located.source)
    if not isinstance(described.value, dict):
        described = Located({}, described.source)
    kind = body_kind(media_type)
    written_schema = described.value.get("schema")
    if written_schema is None and "itemSchema" in described.value:
        written_schema = {"type": "array", "items": described.value["itemSchema"]}
    schema = Located({} if written_schema is None else written_schema, described.source)
    description = located.value.get("description")
    return BodyPlan(
        media_type=sent_media_type(media_type),
        kind=kind,
        schema=schema,
        required=located.value.get("required") is True,
        description=description if isinstance(description, str) else "",
        encodings=_read_encodings(document, described),
        file_fields=_file_fields(document, schema) if kind in ("multipart", "form") else frozenset(),
        is_file=kind == "binary",
        examples=find_examples(document, described),
    )


def _read_encodings(document: Document, media: Located) -> dict[str, FieldEncoding]:
    written = media.value.get("encoding")
    if not isinstance(written, dict):
        return {}
    fields = islice(written.items(), MAX_ARGUMENTS)
    return {name: _read_encoding(document, each, media) for name, each in fields if isinstance(each, dict)}


def _read_encoding(document: Document, value: dict[str, Any], media: Located) -> FieldEncoding:
    has_style = any(key in value for key in ("style", "explode", "allowReserved"))
    style = value.get("style", "form")
    known_style = cast(Style, style) if style in _FORM_STYLES else "form"
    explode = value.get("explode")
    content_type = value.get("contentType")
    types = content_type[:MAX_CONTENT_TYPE_CHARS].split(",") if isinstance(content_type, str) else []
    return FieldEncoding(
        style=known_style if has_style else None,
        explode=explode if isinstance(explode, bool) else known_style in ("form", "deepObject"),
        allow_reserved=value.get("allowReserved") is True,
        content_types=tuple(each.strip() for each in types if each.strip() and each.isprintable()),
        headers=_read_part_headers(document, value.get("headers"), media),
    )


def _read_part_headers(document: Document, written: Any, media: Located) -> tuple[tuple[str, str], ...]:
    """Headers of a part that have only one possible value; a model is not asked for others."""
    found: list[tuple[str, str]] = []
    for name, each in islice(written.items(), MAX_PART_HEADERS) if isinstance(written, dict) else ():
        header = document.resolve(each, media.source)
        schema = document.resolve(header.value.get("schema", {}), header.source).value
        if not isinstance(schema, dict) or name.lower() == "content-type":
            continue
        choices = schema.get("enum")
        value = schema.get("const", schema.get("default"))
        if value is None and isinstance(choices, list) and len(choices) == 1:
            value = choices[0]
        if isinstance(value, (str, int)):
            try:
                found += validate_headers({name: str(value)})
            except ToolError:
                raise UnusableOperation(f"The header {name} of a part cannot be sent.") from None
    return tuple(found)


def is_file_schema(document: Document, schema: Located) -> bool:
    """Whether a schema describes the bytes of a file: a model then names a file."""
    value = document.resolve(schema.value, schema.source).value
    if not isinstance(value, dict):
        return False
    if value.get("type") == "file" or value.get("format") == "binary":
        return True
    # Version 3.1 writes bytes as a media type; one with an encoding, such as base64, is text.
    return "contentMediaType" in value and "contentEncoding" not in value and value.get("type", "string") == "string"


def _file_fields(document: Document, schema: Located) -> frozenset[str]:
    found: set[str] = set()
    remaining = MAX_BODY_FIELDS
    for part in iter_all_of_parts(document, schema):
        properties = part.value.get("properties") if isinstance(part.value, dict) else None
        for name, written in islice(properties.items(), remaining) if isinstance(properties, dict) else ():
            remaining -= 1
            each = document.resolve(written, part.source)
            if isinstance(each.value, dict) and each.value.get("type") == "array":
                each = Located(each.value.get("items", {}), each.source)
            if is_file_schema(document, each):
                found.add(str(name))
    return frozenset(found)


def _read_swagger_body(document: Document, operation: Operation) -> BodyPlan | None:
    """The body of version 2.0: one parameter in `body`, or several in `formData`."""
    parameters = list(iter_parameters(document, operation))
    fields = [each for each in parameters if each.value["in"] == "formData"]
    consumed = operation.definition.get("consumes", document.root.get("consumes"))
    types = islice(consumed, MAX_ALTERNATIVES) if isinstance(consumed, list) else ()
    offered = [each for each in types if isinstance(each, str)]
    if fields:
        return _swagger_form(fields, offered)
    body = next((each for each in parameters if each.value["in"] == "body"), None)
    if body is None:
        return None
    usable = [each for each in offered if body_kind(each) not in ("form", "multipart")]
    media_type = choose_media_type(usable) if usable else "application/json"
    kind = body_kind(media_type)
    description = body.value.get("description")
    return BodyPlan(
        media_type=sent_media_type(media_type),
        kind=kind,
        schema=Located(body.value.get("schema", {}), body.source),
        required=body.value.get("required") is True,
        description=description if isinstance(description, str) else "",
        is_file=kind == "binary",
    )


def _swagger_form(fields: list[Located], offered: list[str]) -> BodyPlan:
    files = frozenset(each.value["name"] for each in fields if each.value.get("type") == "file")
    is_multipart = bool(files) or (MULTIPART in offered and FORM not in offered)
    properties = {each.value["name"]: _swagger_field_schema(each.value) for each in fields}
    required = [each.value["name"] for each in fields if each.value.get("required") is True]
    return BodyPlan(
        media_type=MULTIPART if is_multipart else FORM,
        kind="multipart" if is_multipart else "form",
        schema=Located({"type": "object", "properties": properties, "required": required}, fields[0].source),
        required=bool(required),
        encodings={each.value["name"]: _swagger_encoding(each.value) for each in fields if _is_array(each.value)},
        file_fields=files,
    )


def _is_array(value: dict[str, Any]) -> bool:
    return value.get("type") == "array"


def _swagger_field_schema(value: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key not in ("name", "in", "required", "collectionFormat")}


def _swagger_encoding(value: dict[str, Any]) -> FieldEncoding:
    styles: dict[Any, Style] = {"ssv": "spaceDelimited", "tsv": "tabDelimited", "pipes": "pipeDelimited"}
    written = value.get("collectionFormat", "csv")
    return FieldEncoding(style=styles.get(written, "form"), explode=written == "multi")
