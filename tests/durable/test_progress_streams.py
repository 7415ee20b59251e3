"""Progress in the streams of spaces and runs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from surehand import Context, Runtime, Store, tool
from surehand.store.tables.streams import run_stream, space_stream


@tool
async def analyse() -> AsyncIterator[Any]:
    """Analyse."""
    yield {"status": "loading", "text": "Reading the rows"}
    yield {"status": "complete", "rows": 12}


@tool(effects={"read"})
async def index(ctx: Context) -> str:
    """Index."""
    ctx.report(0.5, "half way", files=12)
    return "done"


@pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server
async def test_progress_is_in_the_streams_of_spaces_and_runs_before_the_end(any_address: str) -> None:
    async with Store.open(any_address) as store, Runtime(analyse, index, store=store) as runtime:
        await store.spaces.create("team")
        scope = runtime.scope(space="team", turn="t1")
        await scope.call("analyse", call_id="c1")
        await scope.call("index")
        await store.journal.list()  # waits until the end of a call without effects is written
        in_space = await store.streams.read(space_stream("team"))
        in_run = await store.streams.read(run_stream("t1"))

    assert [event.kind for event in in_space] == [
        "tool-call.start", "tool-result", "tool-result", "tool-call.complete",
        "tool-call.start", "tool-result", "tool-call.complete",
    ]  # fmt: skip
    assert [event.data["output"] for event in in_space if event.kind == "tool-result"] == [
        {"status": "loading", "text": "Reading the rows"},
        {"status": "complete", "rows": 12},
        {"text": "half way", "fraction": 0.5, "files": 12},
    ]
    assert (in_space[1].data["toolCallId"], in_space[1].data["toolName"]) == ("c1", "analyse")
    kinds = [event.kind for event in in_run]
    assert kinds == ["call.progress", "call.progress", "call.ended", "call.progress", "call.ended"]
    assert in_run[0].data == {
        "callId": "c1",
        "tool": "analyse",
        "message": "Reading the rows",
        "data": {"status": "loading", "text": "Reading the rows"},
    }


async def test_progress_in_streams_has_no_secrets_and_is_bounded() -> None:
    @tool(effects={"read"})
    async def look(ctx: Context) -> None:
        """Look."""
        ctx.report("the key is hunter2hunter2")
        ctx.report("x" * 100_000, rows=["y"] * 10_000)
        circle: list[Any] = []
        circle.append(circle)
        ctx.report("odd", circle=circle)

    async with Store.open(":memory:") as store, Runtime(look, store=store, secrets=["hunter2hunter2"]) as runtime:
        outcome = await runtime.scope(turn="t1").call("look")
        await store.journal.list()
        progress = [event.data for event in await store.streams.read(run_stream("t1")) if "message" in event.data]

    assert outcome.ok
    assert progress[0]["message"] == "the key is [redacted]"
    assert (len(progress[1]["message"]), progress[1]["truncated"], progress[1]["data"]) == (1_000, True, {})


async def test_progress_of_an_async_generator_is_told_when_it_is_yielded() -> None:
    heard: list[str] = []

    @tool
    async def count() -> AsyncIterator[Any]:
        """Count."""
        yield "one"
        heard.append("after one")
        yield "two"
        heard.append("after two")

    async with Runtime(count) as runtime:
        runtime.listen(lambda event: heard.append(getattr(event, "message", None) or type(event).__name__))
        outcome = await runtime.call("count")

    assert outcome.data == "two"
    assert heard == ["CallStarted", "one", "after one", "two", "after two", "CallEnded"]
