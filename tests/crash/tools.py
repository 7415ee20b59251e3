"""The tools of the crash scenarios. Their only effect is a line in the run log."""

from __future__ import annotations

from typing import Any, TypeAlias

from surehand import Context, Done, Outcome, Pending, Unavailable, tool
from surehand.store.database import StoreError
from tests.crash.run_log import RunLog

OwnTools: TypeAlias = dict[str, list[Any]]
"""The tools of each agent that no other one has."""
LARGE_REPORT = "A line of a long report.\n" * 400
REPEATABLE_TOOLS = frozenset({"look_up"})
VERIFIED_TOOLS = frozenset({"book", "book_confirmed"})


def make_tools(run_log: RunLog) -> list[Any]:
    """Make the tools, with the same definitions in every process: otherwise an approval is void after a restart."""

    async def verify(arguments: dict[str, Any], ctx: Context) -> Any:
        return Done("verified") if run_log.has_happened(ctx.call_id) else False

    @tool(effects={"write"})
    async def pay(to: str, ctx: Context) -> str:
        """Pay somebody."""
        run_log.record_effect(ctx.call_id, "pay", {"to": to})
        return f"paid {to}"

    @tool(effects={"write"})
    def post(to: str, ctx: Context) -> str:
        """Post a letter, from a thread."""
        run_log.record_effect(ctx.call_id, "post", {"to": to})
        return f"posted to {to}"

    @tool(effects={"read"})
    async def look_up(what: str, ctx: Context) -> str:
        """Look something up; harmless, however often."""
        run_log.record_effect(ctx.call_id, "look_up", {"what": what})
        return f"found {what}"

    @tool(effects={"write"}, confirm=True)
    async def wire(to: str, ctx: Context) -> str:
        """Wire money, once a person has agreed."""
        run_log.record_effect(ctx.call_id, "wire", {"to": to})
        return f"wired to {to}"

    @tool(effects={"write"}, verify=verify)
    async def book(what: str, ctx: Context) -> str:
        """Book something; whether that has happened can be found out."""
        run_log.record_effect(ctx.call_id, "book", {"what": what})
        return f"booked {what}"

    @tool(effects={"write"}, confirm=True, verify=verify)
    async def book_confirmed(what: str, ctx: Context) -> str:
        """Book something that a person has agreed to."""
        run_log.record_effect(ctx.call_id, "book_confirmed", {"what": what})
        return f"booked {what}"

    @tool(effects={"write"})
    async def travel(to: str, ctx: Context) -> Outcome:
        """Leave, and have the fare wired: it waits for whoever has to agree to that."""
        run_log.record_effect(ctx.call_id, "travel", {"to": to})
        outcome = await ctx.call("wire", {"to": to})
        if isinstance(outcome, Pending):
            run_log.note("nested", {"outer": ctx.call_id, "inner": outcome.call_id})
        return outcome

    @tool(effects={"read"})
    async def delegate(to: str, ctx: Context) -> Outcome:
        """Start a run of an agent, and wait for its report; the run itself keeps its effects from happening twice."""
        store = await ctx.store()
        run_id = f"run-{ctx.call_id}"
        try:
            await store.runs.begin(run_id, "agnes", {"to": to}, owner="c0de")  # an owner that drives nothing
            await store.runs.send(run_id, "steer", "Hurry.")
        except StoreError as error:
            raise Unavailable(f"The run could not be started: {error}") from error
        return Pending.for_run(run_id)

    @tool(effects={"write"}, max_bytes=2_000)
    async def report(ctx: Context) -> str:
        """Write a long report."""
        run_log.record_effect(ctx.call_id, "report", {})
        return LARGE_REPORT

    return [pay, post, look_up, wire, book, book_confirmed, travel, delegate, report, *make_client_tools()]


def make_own_tools(run_log: RunLog) -> OwnTools:
    """The tools that only one agent has."""

    @tool(effects={"write"}, confirm=True)
    async def stamp(to: str, ctx: Context) -> str:
        """Stamp a letter, once a person has agreed."""
        run_log.record_effect(ctx.call_id, "stamp", {"to": to})
        return f"stamped for {to}"

    @tool(effects={"write"}, confirm=True)
    async def seal(to: str, ctx: Context) -> str:
        """Seal a report, once a person has agreed."""
        run_log.record_effect(ctx.call_id, "seal", {"to": to})
        return f"sealed for {to}"

    return {"agnes": [stamp], "scout": [seal]}


def make_client_tools() -> list[Any]:
    """The tools that a person answers."""
    ask = tool.client("ask", "Ask the person.", parameters={"type": "object"}, reply="later")
    ask_first = tool.client("ask_first", "May I ask?", parameters={"type": "object"}, reply="later", confirm=True)
    return [ask, ask_first]
