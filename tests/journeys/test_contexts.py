"""Contexts: what a handler knows of its call, what it is given, and what it gives back."""

import asyncio
from typing import Any

from surehand import Context, Done, Image, Pending, Runtime, Text, events, tool, use


class Sandbox:
    def __init__(self, name: str) -> None:
        self.name = name


async def test_a_handler_knows_for_whom_it_works() -> None:
    @tool
    async def who(ctx: Context) -> dict[str, Any]:
        """Say for whom."""
        names = ("call_id", "session", "message", "agent", "task", "user", "workspace", "cancelled")
        return {name: getattr(ctx, name) for name in names}

    async with Runtime(who, workspace="/srv") as runtime:
        scope = runtime.scope(session="s", message="m", agent="a", task="t", user="u")
        outcome = await scope.call("who", call_id="c")

    assert outcome.data == {
        "call_id": "c",
        "session": "s",
        "message": "m",
        "agent": "a",
        "task": "t",
        "user": "u",
        "workspace": "/srv",
        "cancelled": False,
    }


async def test_a_handler_that_is_no_longer_waited_for_can_tell() -> None:
    seen: list[bool] = []
    running = asyncio.Event()

    @tool
    async def wait(ctx: Context) -> None:
        """Wait."""
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.cancelled)

    async with Runtime(wait) as runtime:
        call = asyncio.create_task(runtime.call("wait", call_id="c"))
        await running.wait()
        await runtime.cancel("c")
        await call

    assert seen == [True]


async def test_a_title_and_further_values_are_told_while_the_call_runs() -> None:
    @tool
    async def build(ctx: Context) -> str:
        """Build."""
        ctx.report(title="Compiling", files=3)
        ctx.report(0.5, "half way")
        return "built"

    async with Runtime(build) as runtime:
        heard = [event async for event in runtime.stream("build")]

    _, first, second, last = heard
    assert isinstance(first, events.CallProgress)
    assert isinstance(second, events.CallProgress)
    assert (first.title, dict(first.data)) == ("Compiling", {"files": 3})
    assert (second.fraction, second.message) == (0.5, "half way")
    assert isinstance(last, events.CallEnded)
    assert last.outcome == Done("built")


async def test_a_result_has_a_title_metadata_attachments_and_an_output_for_the_model() -> None:
    @tool
    async def screenshot() -> Done:
        """Take a picture."""
        picture = Image("aGVsbG8=", mime_type="image/png")
        return Done("a desk", title="Desk", metadata={"width": 3}, attachments=[picture])

    async with Runtime(screenshot) as runtime:
        outcome = await runtime.call("screenshot")

    assert isinstance(outcome, Done)
    assert (outcome.title, outcome.metadata, outcome.text) == ("Desk", {"width": 3}, "a desk")
    assert [(each.type, each.mime_type) for each in outcome.attachments] == [("image", "image/png")]
    assert outcome.content == (Text("a desk"), Image("aGVsbG8=", mime_type="image/png"))


async def test_run_by_itself_a_tool_has_no_context_and_nothing_to_use() -> None:
    @tool
    async def look(path: str, ctx: Context | None = None, sandbox: Sandbox | None = use(Sandbox)) -> list[Any]:
        """Look."""
        return [path, ctx is None, sandbox is None]

    by_itself = await look.run({"path": "a"})
    async with Runtime(look) as runtime:
        managed = await runtime.scope(Sandbox("box")).call("look", {"path": "a"})

    assert by_itself.data == ["a", True, True]
    assert managed.data == ["a", False, False]


async def test_one_tool_under_two_scopes_works_with_what_each_offers_at_the_time() -> None:
    @tool
    async def where(sandbox: Sandbox = use(Sandbox)) -> str:
        """Say where."""
        return sandbox.name

    async with Runtime(where) as runtime:
        one, two = runtime.scope(Sandbox("one")), runtime.scope(Sandbox("two"))
        told = await asyncio.gather(one.call("where"), two.call("where"), one.scope(Sandbox("inner")).call("where"))
        [shown] = runtime.describe("anthropic")

    assert [outcome.data for outcome in told] == ["one", "two", "inner"]
    assert shown["input_schema"].get("properties", {}) == {}


async def test_tools_call_one_another_and_a_wait_inside_is_a_wait_outside() -> None:
    approve = tool.client("approve", "Let a person approve.", reply="later")

    @tool
    async def book(ctx: Context) -> Any:
        """Book a room."""
        return await ctx.call("approve")

    async with Runtime(approve, book) as runtime:
        asked = await runtime.call("book", call_id="b")
        answered = await runtime.settle("b", "yes")

    assert isinstance(asked, Pending)
    assert answered == Done("yes")


async def test_when_a_call_began_and_how_long_it_took_is_known_of_every_outcome() -> None:
    @tool
    async def work() -> str:
        """Work."""
        return "done"

    async with Runtime(work) as runtime:
        first, second = await runtime.call("work"), await runtime.call("nothing")

    for outcome in (first, second):
        assert outcome.meta.started_at > 1_600_000_000
        assert outcome.meta.latency_ms >= 0
    assert first.meta.started_at <= second.meta.started_at
