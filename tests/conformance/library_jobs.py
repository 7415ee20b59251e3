"""The tools that take a while, on the library alone; that they may run as tasks is for whoever is in front to use."""

from __future__ import annotations

import asyncio

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.conformance import material
from tests.conformance.library_offer import Offer, shown, text
from tests.conformance.library_turn import Turn, form

WORKING = Offer()
_MAY_BE_TASK = types.ToolExecution(task_support="optional")
_SLOW = {"type": "object", "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}}}


@WORKING("greet", "Greets somebody.", material.NAME)
async def greet(turn: Turn) -> str:
    return f"Hello, {turn.arguments['name']}!"


@WORKING("slow_compute", "Computes for some seconds.", _SLOW, _MAY_BE_TASK)
async def slow_compute(turn: Turn) -> str:
    await asyncio.sleep(turn.arguments["seconds"])
    return f"It took {turn.arguments['seconds']:g} s."


@WORKING("failing_job", "Works for a moment, and fails.", execution=_MAY_BE_TASK)
async def failing_job(turn: Turn) -> types.CallToolResult:
    await asyncio.sleep(0.5)
    return shown(text("The job has failed, as it always does."), failed=True)


@WORKING("protocol_error_job", "Works for a moment, and breaks down.", execution=_MAY_BE_TASK)
async def protocol_error_job(turn: Turn) -> str:
    await asyncio.sleep(0.5)
    raise MCPError(types.INTERNAL_ERROR, "broken down, as always")


@WORKING("confirm_delete", "Asks before it works.", material.fields(filename={"type": "string"}), _MAY_BE_TASK)
async def confirm_delete(turn: Turn) -> str:
    return str(await turn.ask(confirm=form("Delete it?", material.CONFIRM)))


@WORKING("multi_input", "Asks two people before it works.", execution=_MAY_BE_TASK)
async def multi_input(turn: Turn) -> str:
    return str(await turn.ask(first=form("Who is first?", material.NAME), second=form("And second?", material.NAME)))


@WORKING("test_tool_with_task", "Asks for a name, and works.", execution=_MAY_BE_TASK)
async def with_task(turn: Turn) -> str:
    found = await turn.ask(user_name=form("What is your name?", material.NAME))
    await asyncio.sleep(0.3)
    return f"Done for {found['user_name']}."
