"""Our server's tools that take a while: with the tasks extension, a client need not wait for them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import Field

from surehand import ToolError, tool


def task_options(support: str) -> dict[str, Any]:
    """Provider options that declare whether a tool can run as a task."""
    return {"mcp": {"execution": {"taskSupport": support}}}


@tool(effects={"read"})
async def greet(name: Annotated[str, Field(description="Whom to greet.")]) -> str:
    """Greets somebody."""
    return f"Hello, {name}!"


@tool(effects={"read"}, timeout="2m", provider_options=task_options("optional"))
async def slow_compute(
    seconds: Annotated[float, Field(description="How long it takes.")],
    label: Annotated[str, Field(description="What it is called.")] = "",
) -> str:
    """Computes for some seconds."""
    await asyncio.sleep(seconds)
    return f"{label or 'It'} took {seconds:g} s."


@tool(effects={"read"}, provider_options=task_options("required"))
async def failing_job() -> None:
    """Works for a moment, and fails."""
    await asyncio.sleep(0.5)
    raise ToolError("The job has failed, as it always does.")


@tool(effects={"read"}, provider_options=task_options("required"))
async def protocol_error_job() -> None:
    """Breaks down."""
    raise RuntimeError("broken down, as always")


@tool(effects={"read"}, provider_options=task_options("required"))
async def test_missing_capability() -> str:
    """Works only for clients that have something: in our case, the tasks extension."""
    return "The client has it."


TASK_TOOLS = [greet, slow_compute, failing_job, protocol_error_job, test_missing_capability]
