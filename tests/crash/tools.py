"""The tools that are called while processes die. What they do, they do to the world."""

from __future__ import annotations

from typing import Any

from surehand import Context, Done, Outcome, Pending, tool
from tests.crash.world import World

LARGE = "A line of a long report.\n" * 400
REPEATABLE = frozenset({"look_up"})
VERIFIED = frozenset({"book", "book_confirmed"})


def tools(world: World) -> list[Any]:
    """The same definitions in every process, or an approval would not hold after a restart."""

    async def verified(arguments: dict[str, Any], ctx: Context) -> Any:
        return Done("verified") if world.has_happened(ctx.call_id) else False

    @tool(effects={"write"})
    async def pay(to: str, ctx: Context) -> str:
        """Pay somebody."""
        world.happen(ctx.call_id, "pay", {"to": to})
        return f"paid {to}"

    @tool(effects={"write"})
    def post(to: str, ctx: Context) -> str:
        """Post a letter, from a thread."""
        world.happen(ctx.call_id, "post", {"to": to})
        return f"posted to {to}"

    @tool(effects={"read"})
    async def look_up(what: str, ctx: Context) -> str:
        """Look something up; harmless, however often."""
        world.happen(ctx.call_id, "look_up", {"what": what})
        return f"found {what}"

    @tool(effects={"write"}, confirm=True)
    async def wire(to: str, ctx: Context) -> str:
        """Wire money, once a person has agreed."""
        world.happen(ctx.call_id, "wire", {"to": to})
        return f"wired to {to}"

    @tool(effects={"write"}, verify=verified)
    async def book(what: str, ctx: Context) -> str:
        """Book something; whether that has happened can be found out."""
        world.happen(ctx.call_id, "book", {"what": what})
        return f"booked {what}"

    @tool(effects={"write"}, confirm=True, verify=verified)
    async def book_confirmed(what: str, ctx: Context) -> str:
        """Book something that a person has agreed to."""
        world.happen(ctx.call_id, "book_confirmed", {"what": what})
        return f"booked {what}"

    @tool(effects={"write"})
    async def travel(to: str, ctx: Context) -> Outcome:
        """Leave, and have the fare wired: it waits for whoever has to agree to that."""
        world.happen(ctx.call_id, "travel", {"to": to})
        outcome = await ctx.call("wire", {"to": to})
        if isinstance(outcome, Pending):
            world.note("nested", {"outer": ctx.call_id, "inner": outcome.call_id})
        return outcome

    @tool(effects={"write"}, max_bytes=2_000)
    async def report(ctx: Context) -> str:
        """Write a long report."""
        world.happen(ctx.call_id, "report", {})
        return LARGE

    ask = tool.client("ask", "Ask the person.", parameters={"type": "object"}, reply="later")
    ask_first = tool.client("ask_first", "May I ask?", parameters={"type": "object"}, reply="later", confirm=True)
    return [pay, post, look_up, wire, book, book_confirmed, travel, report, ask, ask_first]
