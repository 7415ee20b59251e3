"""Registry of the MCP SDK server's tools: their definitions and handlers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from tests.conformance import fixture_data
from tests.conformance.sdk_request import SdkRequest

Handler = Callable[[SdkRequest], Awaitable[types.CallToolResult]]


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """The definition of a tool, and its handler."""

    definition: types.Tool
    run: Handler


class ToolRegistry(dict[str, RegisteredTool]):
    """Tools by name; calling the registry makes a decorator that adds one."""

    def __call__(
        self,
        name: str,
        description: str,
        schema: Mapping[str, Any] = fixture_data.NO_PARAMETERS,
        execution: types.ToolExecution | None = None,
    ) -> Callable[[Callable[[SdkRequest], Awaitable[Any]]], Handler]:
        """Register a function as a tool. It returns a result, or a value that becomes text."""

        def register(function: Callable[[SdkRequest], Awaitable[Any]]) -> Handler:
            async def run(request: SdkRequest) -> types.CallToolResult:
                result = await function(request)
                return result if isinstance(result, types.CallToolResult) else tool_result(text_block(result))

            tool = types.Tool(name=name, description=description, input_schema=dict(schema), execution=execution)
            self[name] = RegisteredTool(tool, run)
            return run

        return register


def tool_result(*blocks: types.ContentBlock, failed: bool = False) -> types.CallToolResult:
    """A tool result with these content blocks."""
    return types.CallToolResult(content=list(blocks), is_error=failed)


def text_block(value: Any) -> types.TextContent:
    """A text block; any value but a string is written as JSON."""
    return types.TextContent(text=value if isinstance(value, str) else json.dumps(value))
