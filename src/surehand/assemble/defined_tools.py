"""Builds the tools that a configuration file defines itself."""

from __future__ import annotations

from typing import Any

from surehand.config.tool_entry import ToolEntry
from surehand.core.define import tool
from surehand.core.errors import DefinitionError
from surehand.core.tool import Tool
from surehand.core.tool_options import ToolOptions


def build_defined_tool(entry: ToolEntry) -> Tool[..., Any]:
    """Build the tool of an entry; mistakes are errors at its position in the file."""
    try:
        built = _build(entry)
        built.compile()
    except DefinitionError as error:
        raise entry.node.error(f"{entry.name}: {error.problem}", error.fix) from error
    return built.evolve(where=f"{entry.node.path}:{entry.node.line}")


def _build(entry: ToolEntry) -> Tool[..., Any]:
    description = entry.description or entry.name
    options: ToolOptions = {}
    if entry.display:
        options["display"] = entry.display
    if entry.visible is not None:
        options["visible"] = entry.visible
    if entry.effects:
        options["effects"] = entry.effects
    if entry.timeout is not None:
        options["timeout"] = entry.timeout
    if entry.execution_type == "internal":
        options = {"effects": "read", "visible": False, **options}
        return tool(name=entry.name, description=description, parameters=entry.input_schema, **options)(_echo)
    if entry.execution_type == "external":
        return tool.external(entry.name, description, parameters=entry.input_schema, **options)
    return tool.client(entry.name, description, parameters=entry.input_schema, reply="later", **options)


async def _echo(**arguments: Any) -> dict[str, Any]:
    return {"success": True, "args": arguments}
