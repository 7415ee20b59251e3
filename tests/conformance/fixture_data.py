"""Content and schemas of the suite's tools, shared by our server and the MCP SDK's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PIXEL_BASE64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE_BASE64 = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
"""An empty sound in base64."""

PIXEL_TYPE = "image/png"
SILENCE_TYPE = "audio/wav"
EMBEDDED_RESOURCE = ("test://embedded-resource", "text/plain", "This is an embedded resource content.")
MIXED_RESOURCE = ("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}

FULL_VOCABULARY_SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""Keywords of JSON Schema 2020-12 that must arrive unchanged."""

HEADER_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "description": "Where to look.", "x-mcp-header": "Region"},
        "query": {"type": "string", "description": "What to look for."},
    },
    "required": ["region"],
}
"""A parameter that clients must also send as a header."""


def form_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a form in which every field is required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


NAME_FORM = form_schema(name={"type": "string"})
COLOR_FORM = form_schema(color={"type": "string"})
OK_FORM = form_schema(ok={"type": "boolean"})
CONFIRM_FORM = form_schema(confirm={"type": "boolean"})
PERSON_FORM = form_schema(
    username={"type": "string", "description": "User's response"},
    email={"type": "string", "description": "User's email address"},
)

DEFAULTS_FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
"""Every kind of field with a default value."""


def _titled_values(*titles: str) -> list[dict[str, str]]:
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]


_OPTIONS = ["option1", "option2", "option3"]
ENUMS_FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _titled_values("First Option", "Second Option", "Third Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": _titled_values("First Choice", "Second Choice", "Third Choice")},
        },
    },
}
"""Every kind of enum field."""
