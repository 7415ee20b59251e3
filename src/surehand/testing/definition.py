"""Definition: a tool of a provider as plain values that a file can hold, and as a tool again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from surehand.core.define import parameters_of
from surehand.core.description import Description
from surehand.core.facets import Face, Kind, Limits, Safety
from surehand.core.tool import Tool

JSON: TypeAlias = Any
_FACE = ("category", "audience", "aliases", "visible", "intent", "version")


def written(tool: Tool[..., Any]) -> dict[str, JSON]:
    """All of a definition that is a plain value; functions such as `confirm` are not part of it."""
    safety, plain = tool.safety, Face()
    face = {name: value for name in _FACE if (value := getattr(tool.face, name)) != getattr(plain, name)}
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        **({"effects": sorted(safety.effects)} if safety.effects else {}),
        **({"repeatable": True} if safety.repeatable else {}),
        **({"confirm": True} if safety.confirm else {}),
        **({"max_bytes": tool.limits.max_bytes} if tool.limits.max_bytes else {}),
        **face,
    }


def read(given: Mapping[str, JSON], kind: Kind) -> Tool[..., Any]:
    """The tool that was written, without a handler: its provider does the work."""
    face = {name: given[name] for name in _FACE if name in given}
    if "aliases" in face:
        face["aliases"] = tuple(face["aliases"])
    safety = Safety(
        frozenset(given.get("effects", ())),
        repeatable=given.get("repeatable", False),
        confirm=given.get("confirm", False),
    )
    name, limits = given["name"], Limits(max_bytes=given.get("max_bytes"))
    told = Description(given.get("description"), None, name)
    parameters = parameters_of(given.get("parameters", {}))
    return Tool(name, told, parameters, None, kind, safety=safety, limits=limits, face=Face(**face))
