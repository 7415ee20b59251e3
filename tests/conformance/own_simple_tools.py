"""Our server's tools that return at once, one for each kind of content."""

from __future__ import annotations

import asyncio
from typing import Any

from surehand import Audio, Context, Done, Image, Provider, Resource, Text, Tool, ToolError, protocols, tool
from tests.conformance import fixture_data

_PICTURE = Image(fixture_data.PIXEL_BASE64, fixture_data.PIXEL_TYPE)


@tool(effects={"read"})
async def test_simple_text() -> str:
    """Answers with a text."""
    return "This is a simple text response for testing."


@tool(effects={"read"})
async def test_image_content() -> Done:
    """Answers with a picture."""
    return Done(content=[_PICTURE])


@tool(effects={"read"})
async def test_audio_content() -> Done:
    """Answers with a sound."""
    return Done(content=[Audio(fixture_data.SILENCE_BASE64, fixture_data.SILENCE_TYPE)])


@tool(effects={"read"})
async def test_embedded_resource() -> Done:
    """Answers with a document."""
    return Done(content=[_resource(*fixture_data.EMBEDDED_RESOURCE)])


@tool(effects={"read"})
async def test_multiple_content_types() -> Done:
    """Answers with a text, a picture and a document."""
    return Done(content=[Text("Multiple content types test:"), _PICTURE, _resource(*fixture_data.MIXED_RESOURCE)])


@tool(effects={"read"})
async def test_error_handling() -> None:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool(effects={"read"}, max_bytes=200)
async def test_tool_with_progress(ctx: Context) -> str:
    """Tells how far it is, and more than is shown: the whole is there as a resource, for the scenarios about those."""
    for done in (0.0, 0.5, 1.0):
        ctx.report(done)
        await asyncio.sleep(0.05)
    return "\n".join(f"Step {number} is done." for number in range(100))


@tool(effects={"read"})
async def test_tool_with_logging(ctx: Context) -> str:
    """Writes three lines to our own log."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.log.debug(line)
    return "Three lines were written."


@tool(effects={"read"})
async def test_logging_tool(ctx: Context) -> str:
    """Writes to our own log."""
    ctx.log.debug("A line")
    return "Written."


@tool(effects={"read"})
async def test_reconnection() -> str:
    """Answers as usual: a tool does not know of streams."""
    return "Here it is."


@tool(effects={"read"}, parameters=dict(fixture_data.FULL_VOCABULARY_SCHEMA))
async def json_schema_2020_12_tool(arguments: dict[str, Any]) -> dict[str, Any]:
    """Tool with JSON Schema 2020-12 features."""
    return arguments


@tool(effects={"read"}, parameters=dict(fixture_data.HEADER_SCHEMA))
async def test_custom_header(arguments: dict[str, Any]) -> str:
    """Wants to have its region as a header, too."""
    return f"Looked in {arguments['region']}."


class ChangingTools(protocols.ChangeNotifier, Provider):
    """A provider with a tool that adds and removes another tool."""

    namespace = "changing"
    _has_extra_tool = False

    async def tools(self) -> list[Tool[..., Any]]:
        trigger = tool.provided("test_trigger_tool_change", "Adds a tool, or takes it away again.", effects={"write"})
        return [
            trigger,
            *([tool.provided("test_come_and_go", "It is there at times.")] if self._has_extra_tool else []),
        ]

    async def invoke(self, call: Any, context: Any) -> str:
        self._has_extra_tool = not self._has_extra_tool
        self.notify_changed()
        return "The list of tools is another."


def _resource(uri: str, mime_type: str, text: str) -> Resource:
    return Resource(uri, mime_type=mime_type, text=text)


SIMPLE_TOOLS = [
    *(test_simple_text, test_image_content, test_audio_content, test_embedded_resource, test_multiple_content_types),
    *(test_error_handling, test_tool_with_progress, test_tool_with_logging, test_logging_tool, test_reconnection),
    *(json_schema_2020_12_tool, test_custom_header),
]
