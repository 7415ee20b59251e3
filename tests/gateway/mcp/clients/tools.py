"""The tools that the test of real clients serves."""

import asyncio

from surehand import Context, NotFound, tool


@tool(effects={"read"})
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects={"read"})
async def look_up(word: str) -> str:
    """Look a word up in a dictionary."""
    raise NotFound(f"There is no word {word!r} here.")


@tool(effects={"read"})
async def count(to: int, ctx: Context) -> str:
    """Count aloud."""
    for number in range(1, to + 1):
        ctx.report(number / to, f"now {number}")
        await asyncio.sleep(0)
    return "counted"


@tool(effects={"write"}, confirm=True, confirm_message=lambda args, ctx: f"Really delete {args['file']}?")
async def delete(file: str) -> str:
    """Delete a file."""
    return f"deleted {file}"


@tool(effects={"read"}, provider_options={"mcp": {"execution": {"taskSupport": "optional"}}})
async def bake(minutes: float) -> str:
    """Bake a cake, which takes its time."""
    await asyncio.sleep(minutes / 60)
    return "baked"
