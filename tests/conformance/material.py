"""What the suite's tools give and ask for, the same in every server that has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
"""A red dot and an empty sound, in base64."""

PIXEL_TYPE, SILENCE_TYPE = "image/png", "audio/wav"
EMBEDDED = ("test://embedded-resource", "text/plain", "This is an embedded resource content.")
MIXED = ("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')

NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}}

FULL_VOCABULARY: Mapping[str, Any] = {
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
"""Words of JSON Schema 2020-12 that have to arrive as they were written."""

WITH_HEADER: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "description": "Where to look.", "x-mcp-header": "Region"},
        "query": {"type": "string", "description": "What to look for."},
    },
    "required": ["region"],
}
"""A value that has to be sent as a header, too."""


def fields(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """A form that wants all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


NAME = fields(name={"type": "string"})
COLOUR = fields(color={"type": "string"})
AGREE = fields(ok={"type": "boolean"})
CONFIRM = fields(confirm={"type": "boolean"})
PERSON = fields(
    username={"type": "string", "description": "User's response"},
    email={"type": "string", "description": "User's email address"},
)

FILLED_IN: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
"""Every kind of field with a value to begin with."""


def _titled(*titles: str) -> list[dict[str, str]]:
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]


_OPTIONS = ["option1", "option2", "option3"]
CHOICES: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _titled("First Option", "Second Option", "Third Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")}},
    },
}
"""Every way to let somebody choose."""
