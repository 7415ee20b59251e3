"""The MCP SDK server's tools that take a while. They declare that they may run as tasks, which the proxy uses."""

from __future__ import annotations

import asyncio

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.conformance import fixture_data
from tests.conformance.sdk_request import SdkRequest, form_request
from tests.conformance.sdk_tool_registry import ToolRegistry, text_block, tool_result

TASK_TOOLS = ToolRegistry()
_OPTIONAL_TASK = types.ToolExecution(task_support="optional")
_SLOW_SCHEMA = {"type": "object", "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}}}


@TASK_TOOLS("greet", "Greets somebody.", fixture_data.NAME_FORM)
async def greet(request: SdkRequest) -> str:
    return f"Hello, {request.arguments['name']}!"


@TASK_TOOLS("slow_compute", "Computes for some seconds.", _SLOW_SCHEMA, _OPTIONAL_TASK)
async def slow_compute(request: SdkRequest) -> str:
    await asyncio.sleep(request.arguments["seconds"])
    return f"It took {request.arguments['seconds']:g} s."


@TASK_TOOLS("failing_job", "Works for a moment, and fails.", execution=_OPTIONAL_TASK)
async def failing_job(request: SdkRequest) -> types.CallToolResult:
    await asyncio.sleep(0.5)
    return tool_result(text_block("The job has failed, as it always does."), failed=True)


@TASK_TOOLS("protocol_error_job", "Works for a moment, and breaks down.", execution=_OPTIONAL_TASK)
async def protocol_error_job(request: SdkRequest) -> str:
    await asyncio.sleep(0.5)
    raise MCPError(types.INTERNAL_ERROR, "broken down, as always")


@TASK_TOOLS(
    "confirm_delete", "Asks before it works.", fixture_data.form_schema(filename={"type": "string"}), _OPTIONAL_TASK
)
async def confirm_delete(request: SdkRequest) -> str:
    return str(await request.ask(confirm=form_request("Delete it?", fixture_data.CONFIRM_FORM)))


@TASK_TOOLS("multi_input", "Asks two people before it works.", execution=_OPTIONAL_TASK)
async def multi_input(request: SdkRequest) -> str:
    return str(
        await request.ask(
            first=form_request("Who is first?", fixture_data.NAME_FORM),
            second=form_request("And second?", fixture_data.NAME_FORM),
        )
    )


@TASK_TOOLS("test_tool_with_task", "Asks for a name, and works.", execution=_OPTIONAL_TASK)
async def with_task(request: SdkRequest) -> str:
    answers = await request.ask(user_name=form_request("What is your name?", fixture_data.NAME_FORM))
    await asyncio.sleep(0.3)
    return f"Done for {answers['user_name']}."
