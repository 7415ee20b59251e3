"""The definition of a provider's tool as JSON, and a tool from that JSON; cassettes and scripted providers use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from surehand.core.define import build_parameters
from surehand.core.description import DescriptionSource
from surehand.core.facets import CallLimits, Presentation, Safety, ToolKind
from surehand.core.tool import Tool

JSON: TypeAlias = Any
_PRESENTATION_FIELDS = ("category", "audience", "aliases", "visible", "intent", "version")


def tool_to_json(tool: Tool[..., Any]) -> dict[str, JSON]:
    """Write the JSON values of a definition; functions such as `confirm` are left out."""
    safety = tool.safety
    defaults = Presentation()
    presentation = {name: getattr(tool.presentation, name) for name in _PRESENTATION_FIELDS}
    non_default = {name: value for name, value in presentation.items() if value != getattr(defaults, name)}
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        **({"effects": sorted(safety.effects)} if safety.effects else {}),
        **({"repeatable": True} if safety.repeatable else {}),
        **({"confirm": True} if safety.confirm else {}),
        **({"max_bytes": tool.limits.max_bytes} if tool.limits.max_bytes else {}),
        **non_default,
    }


def tool_from_json(definition: Mapping[str, JSON], kind: ToolKind) -> Tool[..., Any]:
    """Build a tool from its JSON, without a handler: its provider does the work."""
    presentation = {name: definition[name] for name in _PRESENTATION_FIELDS if name in definition}
    if "aliases" in presentation:
        presentation["aliases"] = tuple(presentation["aliases"])
    safety = Safety(
        frozenset(definition.get("effects", ())),
        repeatable=definition.get("repeatable", False),
        confirm=definition.get("confirm", False),
    )
    name = definition["name"]
    limits = CallLimits(max_bytes=definition.get("max_bytes"))
    description = DescriptionSource(definition.get("description"), None, name)
    parameters = build_parameters(definition.get("parameters", {}))
    return Tool(
        name,
        description,
        parameters,
        None,
        kind,
        safety=safety,
        limits=limits,
        presentation=Presentation(**presentation),
    )
