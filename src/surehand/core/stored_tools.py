"""Stored tools: the definition of a client or external tool as JSON, and the tool that is built from it.

These tools have no Python code, so that any process can have them. Used for the tools that sessions offer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf
from typing import Any

from surehand.core.client import ClientHandler
from surehand.core.define import tool as define
from surehand.core.outcome import Done
from surehand.core.tool import Tool

_PRESENTATION_OPTIONS = (
    "category", "audience", "listed", "toolsets", "aliases", "visible", "intent", "display", "examples", "version",
    "provider_options",
)  # fmt: skip
_LIMIT_OPTIONS = ("timeout", "expires", "queue", "priority", "max_bytes", "overflow")
_SAFETY_OPTIONS = ("repeatable", "confirm", "confirm_message", "preview")


def serialize_tool(tool: Tool[..., Any]) -> str | None:
    """The definition of a client or external tool as JSON; None if the tool needs Python code of its process."""
    handler = tool.handler
    if not isinstance(handler, ClientHandler) or tool.lifecycle.middleware or tool.lifecycle.lifespan is not None:
        return None
    default = handler.default.data if isinstance(handler.default, Done) else handler.default
    definition = {
        "kind": tool.kind,
        "description": tool.description,
        "parameters": tool.schema,
        "reply": handler.reply,
        "default": default,
        "options": _non_default_options(tool),
    }
    try:
        return json.dumps(definition, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):  # a function, or a value that is not JSON
        return None


def deserialize_tool(name: str, text: str) -> Tool[..., Any]:
    """Build the tool of a stored definition."""
    definition = json.loads(text)
    options = definition["options"]
    parameters = definition["parameters"]
    description = definition["description"]
    if definition["kind"] == "external":
        return define.external(name, description, parameters=parameters, **options)
    reply = definition["reply"]
    return define.client(
        name, description, parameters=parameters, reply=reply, default=definition["default"], **options
    )


def aliases_of_definition(text: str) -> list[str]:
    """The aliases of a stored tool, without building it."""
    return list(json.loads(text)["options"].get("aliases", ()))


def _non_default_options(tool: Tool[..., Any]) -> dict[str, Any]:
    """The options that the tool was defined with, without those that have their default."""
    plain = define.client("plain", "A tool without options.") if tool.kind == "client" else define.external("plain", "")
    options: dict[str, Any] = {
        "effects": sorted(tool.safety.effects),
        "optional_effects": sorted(tool.safety.optional_effects),
    }
    for group, names in (
        ("safety", _SAFETY_OPTIONS),
        ("limits", _LIMIT_OPTIONS),
        ("presentation", _PRESENTATION_OPTIONS),
    ):
        for name in names:
            value = getattr(getattr(tool, group), name)
            value = dict(value) if isinstance(value, Mapping) else value
            if value != getattr(getattr(plain, group), name):
                options[name] = "off" if value == inf else value
    return {name: value for name, value in options.items() if value not in ([], ())}
