"""Tools of the library's server: how they are listed, and what they do."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from tests.conformance import material
from tests.conformance.library_turn import Turn

Handler = Callable[[Turn], Awaitable[types.CallToolResult]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool as it is listed, and what it does."""

    listed: types.Tool
    run: Handler


class Offer(dict[str, Entry]):
    """Some tools by their names."""

    def __call__(
        self,
        name: str,
        description: str,
        schema: Mapping[str, Any] = material.NOTHING,
        execution: types.ToolExecution | None = None,
    ) -> Callable[[Callable[[Turn], Awaitable[Any]]], Handler]:
        """List a function as a tool; it gives a result, or the text of one."""

        def listed(function: Callable[[Turn], Awaitable[Any]]) -> Handler:
            async def run(turn: Turn) -> types.CallToolResult:
                given = await function(turn)
                return given if isinstance(given, types.CallToolResult) else shown(text(given))

            tool = types.Tool(name=name, description=description, input_schema=dict(schema), execution=execution)
            self[name] = Entry(tool, run)
            return run

        return listed


def shown(*blocks: types.ContentBlock, failed: bool = False) -> types.CallToolResult:
    """A result of these parts."""
    return types.CallToolResult(content=list(blocks), is_error=failed)


def text(given: Any) -> types.TextContent:
    """One part, as text."""
    return types.TextContent(text=given if isinstance(given, str) else json.dumps(given))
