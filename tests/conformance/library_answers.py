"""The tools that the suite expects of a server and that simply answer, on the library alone."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types

from tests.conformance import material
from tests.conformance.library_offer import Offer, shown, text
from tests.conformance.library_turn import Turn

ANSWERING = offers = Offer()
MORE = types.Tool(name="test_come_and_go", description="It is there at times.", input_schema=dict(material.NOTHING))


def _picture() -> types.ImageContent:
    return types.ImageContent(data=material.PIXEL, mime_type=material.PIXEL_TYPE)


def _resource(uri: str, mime_type: str, content: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=content))


@offers("test_simple_text", "Answers with a text.")
async def simple_text(turn: Turn) -> str:
    return "This is a simple text response for testing."


@offers("test_image_content", "Answers with a picture.")
async def image_content(turn: Turn) -> types.CallToolResult:
    return shown(_picture())


@offers("test_audio_content", "Answers with a sound.")
async def audio_content(turn: Turn) -> types.CallToolResult:
    return shown(types.AudioContent(data=material.SILENCE, mime_type=material.SILENCE_TYPE))


@offers("test_embedded_resource", "Answers with a document.")
async def embedded_resource(turn: Turn) -> types.CallToolResult:
    return shown(_resource(*material.EMBEDDED))


@offers("test_multiple_content_types", "Answers with a text, a picture and a document.")
async def multiple_content_types(turn: Turn) -> types.CallToolResult:
    return shown(text("Multiple content types test:"), _picture(), _resource(*material.MIXED))


@offers("test_error_handling", "Fails.")
async def error_handling(turn: Turn) -> types.CallToolResult:
    return shown(text("This tool intentionally returns an error for testing"), failed=True)


@offers("test_tool_with_logging", "Writes three lines to the client's log.")
async def with_logging(turn: Turn) -> str:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await turn.fixture.log(turn, line)
        await asyncio.sleep(0.05)
    return "Three lines were written."


@offers("test_logging_tool", "Writes to the client's log where it wants to have one.")
async def logging_tool(turn: Turn) -> str:
    await turn.fixture.log(turn, "A line")
    return "Written, if anybody wants it."


@offers("test_tool_with_progress", "Tells how far it is.")
async def with_progress(turn: Turn) -> str:
    for done in (0, 50, 100):
        await turn.context.session.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return "Done."


@offers("test_reconnection", "Ends the stream of its answer before it answers.")
async def reconnection(turn: Turn) -> str:
    if turn.context.close_sse_stream is not None:
        await turn.context.close_sse_stream()
        await asyncio.sleep(0.1)
    return "Here it is after all."


@offers("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features.", material.FULL_VOCABULARY)
async def full_vocabulary(turn: Turn) -> dict[str, Any]:
    return dict(turn.arguments)


@offers("test_custom_header", "Wants to have its region as a header, too.", material.WITH_HEADER)
async def custom_header(turn: Turn) -> str:
    return f"Looked in {turn.arguments['region']}."


@offers("test_trigger_tool_change", "Adds a tool, or takes it away again.")
async def trigger_tool_change(turn: Turn) -> str:
    await turn.fixture.change(turn)
    return "The list of tools is another."


@offers("test_trigger_prompt_change", "Says that the prompts have changed.")
async def trigger_prompt_change(turn: Turn) -> str:
    await turn.fixture.change_prompts(turn)
    return "The list of prompts is another."
