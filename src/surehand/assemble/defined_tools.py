"""Builds the tools that a configuration file defines itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surehand.config.tool_entry import ToolEntry
from surehand.core.define import ToolDecorator, tool
from surehand.core.errors import DefinitionError
from surehand.core.tool import Tool
from surehand.core.tool_options import ToolOptions


def build_defined_tool(entry: ToolEntry, environment: Mapping[str, str]) -> Tool[..., Any]:
    """Build the tool of an entry; mistakes are errors at its position in the file."""
    try:
        built = _build_tool(entry, environment)
        built.compile()
    except DefinitionError as error:
        raise entry.node.error(f"{entry.name}: {error.problem}", error.fix) from error
    return built.evolve(where=f"{entry.node.path}:{entry.node.line}")


def _build_tool(entry: ToolEntry, environment: Mapping[str, str]) -> Tool[..., Any]:
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
    if entry.mcp_config is not None:
        return _build_server_tool(entry, options)
    if entry.http is not None:
        from surehand.assemble.rest_tools import build_http_tool  # loads what REST tools need

        return build_http_tool(entry, entry.http, options, environment)
    schema = {"type": "object", "properties": {}, **(entry.input_schema or {})}
    if entry.execution_type == "internal":
        options = {"effects": "read", "visible": False, **options}
        return tool(name=entry.name, description=description, parameters=schema, **options)(_echo)
    if entry.execution_type == "external":
        return tool.external(entry.name, description, parameters=schema, **options)
    return tool.client(entry.name, description, parameters=schema, reply="later", **options)


def _build_server_tool(entry: ToolEntry, options: ToolOptions) -> Tool[..., Any]:
    """A tool that an MCP server runs; the server says what the entry does not."""
    from surehand.providers.mcp.declared_tools import build_providers  # loads what MCP servers need

    define: Any = ToolDecorator(build_providers)  # with `mcp_config` it gives a tool at once, and no decorator
    built: Tool[..., Any] = define(
        name=entry.name,
        description=entry.description or None,
        parameters=entry.input_schema,
        mcp_config=entry.mcp_config,
        **options,
    )
    return built


async def _echo(**arguments: Any) -> dict[str, Any]:
    return {"success": True, "args": arguments}
