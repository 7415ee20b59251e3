"""`limited_field`: a parameter whose length is checked and not described. Used by all built-in tools.

A model cannot count to thousands of characters, and each limit in a description costs tokens in every request.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, GetJsonSchemaHandler

_LENGTH_KEYWORDS = ("minLength", "maxLength", "minItems", "maxItems")


class _UndescribedLength:
    """Metadata of a type that removes the limits on its length from the JSON Schema."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        for part in (schema, *schema.get("anyOf", ())):
            for keyword in _LENGTH_KEYWORDS:
                part.pop(keyword, None)
        return schema


def limited_field(*args: Any, **options: Any) -> Any:
    """`pydantic.Field`, without `min_length` and `max_length` in the JSON Schema."""
    field = Field(*args, **options)
    field.metadata.append(_UndescribedLength())
    return field
