"""The MCP SDK server's tools that return at once."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types

from tests.conformance import fixture_data
from tests.conformance.sdk_request import SdkRequest
from tests.conformance.sdk_tool_registry import ToolRegistry, text_block, tool_result

SIMPLE_TOOLS = register = ToolRegistry()
EXTRA_TOOL = types.Tool(
    name="test_come_and_go", description="It is there at times.", input_schema=dict(fixture_data.NO_PARAMETERS)
)


def _pixel() -> types.ImageContent:
    return types.ImageContent(data=fixture_data.PIXEL_BASE64, mime_type=fixture_data.PIXEL_TYPE)


def _resource(uri: str, mime_type: str, content: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=content))


@register("test_simple_text", "Answers with a text.")
async def simple_text(request: SdkRequest) -> str:
    return "This is a simple text response for testing."


@register("test_image_content", "Answers with a picture.")
async def image_content(request: SdkRequest) -> types.CallToolResult:
    return tool_result(_pixel())


@register("test_audio_content", "Answers with a sound.")
async def audio_content(request: SdkRequest) -> types.CallToolResult:
    return tool_result(types.AudioContent(data=fixture_data.SILENCE_BASE64, mime_type=fixture_data.SILENCE_TYPE))


@register("test_embedded_resource", "Answers with a document.")
async def embedded_resource(request: SdkRequest) -> types.CallToolResult:
    return tool_result(_resource(*fixture_data.EMBEDDED_RESOURCE))


@register("test_multiple_content_types", "Answers with a text, a picture and a document.")
async def multiple_content_types(request: SdkRequest) -> types.CallToolResult:
    return tool_result(text_block("Multiple content types test:"), _pixel(), _resource(*fixture_data.MIXED_RESOURCE))


@register("test_error_handling", "Fails.")
async def error_handling(request: SdkRequest) -> types.CallToolResult:
    return tool_result(text_block("This tool intentionally returns an error for testing"), failed=True)


@register("test_tool_with_logging", "Writes three lines to the client's log.")
async def with_logging(request: SdkRequest) -> str:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await request.server.log(request, line)
        await asyncio.sleep(0.05)
    return "Three lines were written."


@register("test_logging_tool", "Writes to the client's log where it wants to have one.")
async def logging_tool(request: SdkRequest) -> str:
    await request.server.log(request, "A line")
    return "Written, if the client wants it."


@register("test_tool_with_progress", "Tells how far it is.")
async def with_progress(request: SdkRequest) -> str:
    for done in (0, 50, 100):
        await request.context.session.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return "Done."


@register("test_reconnection", "Ends the stream of its answer before it answers.")
async def reconnection(request: SdkRequest) -> str:
    if request.context.close_sse_stream is not None:
        await request.context.close_sse_stream()
        await asyncio.sleep(0.1)
    return "Here it is after all."


@register("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features.", fixture_data.FULL_VOCABULARY_SCHEMA)
async def full_vocabulary(request: SdkRequest) -> dict[str, Any]:
    return dict(request.arguments)


@register("test_custom_header", "Wants to have its region as a header, too.", fixture_data.HEADER_SCHEMA)
async def custom_header(request: SdkRequest) -> str:
    return f"Looked in {request.arguments['region']}."


@register("test_trigger_tool_change", "Adds a tool, or takes it away again.")
async def trigger_tool_change(request: SdkRequest) -> str:
    await request.server.change_tools(request)
    return "The list of tools is another."


@register("test_trigger_prompt_change", "Says that the prompts have changed.")
async def trigger_prompt_change(request: SdkRequest) -> str:
    await request.server.change_prompts(request)
    return "The list of prompts is another."
