"""Statistics and the journal in memory."""

import asyncio
import time
from typing import Any

import pytest

from surehand import Context, Pending, Provider, Runtime, ToolError, tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(category="file", aliases=("broken",))
async def fail() -> None:
    """Fail."""
    raise ToolError("no")


async def test_calls_and_failures_are_counted_for_each_tool():
    async with Runtime(add, fail) as runtime:
        for _ in range(3):
            await runtime.call("add", {"a": 1, "b": 2})
        await runtime.call("add", {"a": "x"})
        await runtime.call("fail")
        await runtime.call("broken")
        calls = runtime.stats().calls

    assert (calls["add"].count, calls["add"].failures) == (4, 1)
    assert (calls["fail"].count, calls["fail"].failures) == (2, 2)
    assert set(calls) == {"add", "fail"}


async def test_a_runtime_that_was_not_used_has_no_calls():
    async with Runtime(add) as runtime:
        stats = runtime.stats()

    assert (stats.total, stats.calls, stats.running, stats.abandoned, stats.pending, stats.artifacts) == (
        1,
        {},
        0,
        0,
        0,
        0,
    )


async def test_the_average_is_over_all_calls_in_milliseconds():
    async with Runtime(add) as runtime:
        latencies = [(await runtime.call("add", {"a": 1, "b": 2})).meta.latency_ms for _ in range(20)]
        average = runtime.stats().calls["add"].avg_duration

    assert average == pytest.approx(sum(latencies) / 20)


async def test_statistics_are_a_snapshot():
    async with Runtime(add) as runtime:
        await runtime.call("add", {"a": 1, "b": 2})
        before = runtime.stats()
        await runtime.call("add", {"a": 1, "b": 2})

    assert before.calls["add"].count == 1


async def test_unknown_tools_count_as_failures_in_one_place():
    async with Runtime(add) as runtime:
        for name in ("ad", "sub", "sub", "x" * 10_000):
            assert (await runtime.call(name)).code == "not_found"
        calls = runtime.stats().calls

    assert len(calls) == 1
    (unknown,) = calls.values()
    assert (unknown.count, unknown.failures) == (4, 4)


async def test_every_category_is_listed_even_with_nothing_in_it():
    async with Runtime(add, fail) as runtime:
        categories = runtime.stats().by_category

    assert categories == {
        "system": 0, "file": 1, "network": 0, "data": 0, "memory": 0, "code": 0, "mcp": 0, "custom": 1,
    }  # fmt: skip


async def test_pending_calls_do_not_count_as_failures_and_count_once():
    @tool(confirm=True)
    async def careful() -> str:
        """Ask first."""
        return "done"

    async with Runtime(careful) as runtime:
        pending = await runtime.call("careful")
        stats = runtime.stats()
        assert (stats.pending, stats.calls["careful"].count, stats.calls["careful"].failures) == (1, 1, 0)

        await runtime.approve(pending.call_id)
        stats = runtime.stats()
        assert (stats.pending, stats.calls["careful"].count, stats.calls["careful"].failures) == (0, 1, 0)


async def test_running_calls_are_seen_while_they_run():
    entered, leave = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        entered.set()
        await leave.wait()

    async with Runtime(wait) as runtime:
        call = asyncio.create_task(runtime.call("wait"))
        await entered.wait()
        assert runtime.stats().running == 1
        leave.set()
        await call
        assert runtime.stats().running == 0


async def test_the_journal_keeps_the_last_ten_thousand_calls_without_arguments_and_outcomes():
    async with Runtime(add, fail, journal=True) as runtime:
        await runtime.call("fail")
        for n in range(10_000):
            await runtime.call("add", {"a": n, "b": 0})
        entries = runtime.journal

    assert len(entries) == 10_000
    assert {entry.tool for entry in entries} == {"add"}
    assert set(entries[0]._fields) == {"call_id", "tool", "started_at", "latency_ms", "status"}
    assert len({entry.call_id for entry in entries}) == 10_000
    assert [entry.started_at for entry in entries] == sorted(entry.started_at for entry in entries)


async def test_the_journal_tells_how_each_call_ended():
    @tool(confirm=True)
    async def careful() -> str:
        """Ask first."""
        return "done"

    async with Runtime(add, fail, careful, journal=True) as runtime:
        done = await runtime.call("add", {"a": 1, "b": 2})
        await runtime.call("fail")
        await runtime.call("careful")
        entries = runtime.journal

    assert [entry.status for entry in entries] == ["ok", "failed", "pending"]
    assert entries[0].call_id == done.meta.call_id
    assert abs(entries[0].started_at - time.time()) < 60


async def test_the_journal_is_off_by_default():
    async with Runtime(add) as runtime:
        await runtime.call("add", {"a": 1, "b": 2})
        assert runtime.journal == []


async def test_an_outcome_knows_its_call():
    @tool
    async def echo(text: str, ctx: Context) -> str:
        """Say it again."""
        seen.append(ctx.call_id)
        return text

    seen: list[str] = []
    async with Runtime(echo) as runtime:
        before = time.time()
        meta = (await runtime.call("echo", '{"text": "12345678"}')).meta

    assert (meta.call_id, meta.tool, meta.kind, meta.namespace) == (seen[0], "echo", "function", "")
    assert (meta.attempts, meta.cached, meta.queued_ms) == (1, False, 0)
    assert (meta.characters_in, meta.characters_out, meta.tokens) == (20, 8, 2)
    assert abs(meta.started_at - before) < 60
    assert 0 < meta.latency_ms < 5_000


async def test_an_alias_is_measured_under_the_tools_own_name():
    async with Runtime(fail) as runtime:
        assert (await runtime.call("broken")).meta.tool == "fail"


async def test_failed_and_pending_outcomes_are_measured_too():
    ask = tool.client("ask", "Ask.", reply="later")

    async with Runtime(fail, ask) as runtime:
        failed, pending = await runtime.call("fail"), await runtime.call("ask")
        unknown = await runtime.call("nothing", {"a": 1})

    assert isinstance(pending, Pending)
    assert pending.meta.call_id == pending.call_id
    assert failed.meta.tool == "fail"
    assert (unknown.meta.tool, unknown.meta.characters_in) == ("nothing", 7)


@pytest.mark.parametrize(
    "arguments", [{"a": object()}, {"a": "\ud800"}, {"a": float("nan")}, {1: 2}, b"\xff", ["x"], 5, "\ud800", (1,)]
)
async def test_an_outcome_can_be_measured_whatever_was_sent(arguments):
    async with Runtime(add) as runtime:
        for name in ("add", "nothing"):
            assert (await runtime.call(name, arguments)).meta.characters_in >= 0


class Docs(Provider):
    def __init__(self, namespace: str, told: str) -> None:
        self.namespace, self._told = namespace, told

    async def tools(self):
        return [tool.external("read", "Read.").evolve(kind="rest", handler=None)]

    async def invoke(self, call, context):
        return "text"

    def instructions(self, principal: Any) -> str:
        return self._told


async def test_the_instructions_of_providers_are_combined():
    async with Runtime(
        add, Docs("wiki", "Search first.\n"), Docs("silent", "  "), Docs("files", "Be careful.")
    ) as runtime:
        assert runtime.instructions() == "## wiki\nSearch first.\n\n## files\nBe careful."


async def test_secrets_are_masked_in_the_instructions_of_providers():
    async with Runtime(Docs("wiki", "Send hunter2-hunter2 along."), secrets=["hunter2-hunter2"]) as runtime:
        told = runtime.instructions()

    assert told.startswith("## wiki\nSend ")
    assert "hunter2" not in told


async def test_without_providers_there_is_nothing_to_know():
    async with Runtime(add) as runtime:
        assert runtime.instructions() == ""


async def test_a_providers_calls_are_measured_under_their_namespace():
    async with Runtime(Docs("wiki", "")) as runtime:
        outcome = await runtime.call("wiki__read")
        assert (outcome.meta.tool, outcome.meta.namespace, outcome.meta.kind) == ("wiki__read", "wiki", "rest")
        assert runtime.stats().calls["wiki__read"].count == 1
