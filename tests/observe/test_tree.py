"""The tree of calls: nesting, status, time and cost."""

import asyncio
import json
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from surehand import Cache, Call, Context, Done, Pending, Queue, Runtime, ToolError, tool
from surehand.observe import Tree, tree, watch
from surehand.testing import settle

TIMES = {"id", "started", "seconds", "queued"}


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def broken() -> None:
    """Fail."""
    raise ToolError("out of order")


@tool
async def search(query: str, ctx: Context) -> Done:
    """Search, for a fee."""
    ctx.report("searching", cost=0.002)
    return Done(f"found {query}", metadata={"cost": 0.001})


@tool
async def research(topic: str, ctx: Context) -> str:
    """Search twice at the same time, then add."""
    ctx.report(cost=0.01)
    await asyncio.gather(ctx.call("search", {"query": topic}), ctx.call("search", {"query": "more"}))
    await ctx.call("add", {"a": 1, "b": 2})
    await ctx.call("broken")
    return topic


@tool(confirm=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def without_times(node: dict[str, Any]) -> dict[str, Any]:
    remaining = {name: value for name, value in node.items() if name not in TIMES}
    return remaining | {"calls": [without_times(inner) for inner in node["calls"]]}


def call(tool: str, sizes: tuple[int, int, int], *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "tool": tool,
        "status": "ok",
        "code": None,
        "waiting_for": None,
        "kind": "function",
        "namespace": "",
        "attempts": 1,
        "cached": False,
        "characters_in": sizes[0],
        "characters_out": sizes[1],
        "tokens": sizes[2],
        "cost": 0.0,
        "total_cost": 0.0,
        "passes": 1,
        **more,
        "calls": list(calls),
    }


def shape(t: Tree) -> list[Any]:
    def of(node: Any) -> Any:
        return (node.tool, [of(inner) for inner in node.calls]) if node.calls else node.tool

    return [of(root) for root in t.roots]


async def test_nested_calls_form_a_tree_with_sizes_outcomes_and_costs_that_add_up() -> None:
    async with Runtime(add, broken, search, research) as runtime:
        with tree(runtime) as t:
            await runtime.call("research", '{"topic": "tea"}')

    found = json.loads(t.as_json())
    assert [without_times(root) for root in found["calls"]] == [
        call(
            "research",
            (16, 3, 1),
            call("search", (15, 9, 3), cost=0.003, total_cost=0.003),
            call("search", (16, 10, 3), cost=0.003, total_cost=0.003),
            call("add", (13, 1, 1)),
            call("broken", (2, 27, 7), status="failed", code="failed"),
            cost=0.01,
            total_cost=0.016,
        )
    ]
    assert (found["cost"], found["dropped"]) == (0.016, 0)
    assert {name: (of["calls"], of["failures"], of["cost"]) for name, of in found["total"].items()} == {
        "add": (1, 0, 0.0),
        "broken": (1, 1, 0.0),
        "research": (1, 0, 0.01),
        "search": (2, 0, 0.006),
    }


async def test_times_and_sizes_are_those_of_the_outcome() -> None:
    async with Runtime(add) as runtime:
        with tree(runtime) as t:
            meta = (await runtime.call("add", {"a": 1, "b": 2})).meta

    (node,) = t.roots
    assert (node.id, node.seconds, node.queued) == (meta.call_id, meta.latency_ms / 1000, 0.0)
    assert node.started == pytest.approx(meta.started_at, abs=5)
    assert t.total["add"].seconds == node.seconds
    assert (t.total["add"].characters_in, t.total["add"].characters_out, t.total["add"].tokens) == (13, 1, 1)


async def test_queue_time_is_recorded() -> None:
    gate = asyncio.Event()

    @tool(queue="narrow")
    async def slow() -> None:
        """Take a while."""
        await gate.wait()

    async with Runtime(slow, queues={"narrow": Queue(concurrent=1)}) as runtime:
        with tree(runtime) as t:
            both = asyncio.gather(runtime.call("slow"), runtime.call("slow"))
            await settle()
            gate.set()
            await both

    first, second = t.roots
    assert first.queued == 0 < second.queued <= second.seconds


async def test_deeper_calls_add_their_cost_to_all_above() -> None:
    @tool
    async def descend(depth: int, ctx: Context) -> str:
        """Go down."""
        ctx.report(cost=1)
        if depth:
            await asyncio.gather(*(ctx.call("descend", {"depth": depth - 1}) for _ in range(2)))
        return "bottom"

    async with Runtime(descend) as runtime:
        with tree(runtime) as t:
            await asyncio.gather(*(runtime.call("descend", {"depth": 3}) for _ in range(3)))

    assert [root.total_cost for root in t.roots] == [15, 15, 15]
    assert all(node.total_cost == node.cost + sum(inner.total_cost for inner in node.calls) for node in t)
    assert (t.cost, t.total["descend"].calls, len(list(t))) == (45, 45, 45)


async def test_a_retry_pays_for_every_attempt() -> None:
    @tool(effects={"read"}, retries=1)
    async def flaky(ctx: Context) -> Done:
        """Work the second time."""
        ctx.report(cost=1)
        if ctx.attempt == 1:
            raise ToolError("busy", code="unavailable", retry_after=0)
        return Done("ok", metadata={"cost": 0.5})

    async with Runtime(flaky) as runtime:
        with tree(runtime) as t:
            assert (await runtime.call("flaky")).ok

    (node,) = t.roots
    assert (node.attempts, node.cost) == (2, 2.5)


async def test_a_cached_answer_costs_nothing_again_even_when_passed_on() -> None:
    @tool(effects={"read"}, cache=Cache(60))
    async def price() -> Done:
        """Look it up."""
        return Done(7, metadata={"cost": 1})

    @tool
    async def ask(ctx: Context) -> Any:
        """Pass on what another tool says."""
        return await ctx.call("price")

    async with Runtime(price, ask) as runtime:
        with tree(runtime) as t:
            await runtime.call("ask")
            await runtime.call("ask")

    first, second = t.roots
    assert [(root.cost, root.total_cost) for root in t.roots] == [(0, 1), (0, 0)]
    assert (first.calls[0].cached, second.calls[0].cached) == (False, True)
    assert t.cost == 1


@pytest.mark.parametrize("stated", [True, "1", None, -1, float("nan"), float("inf"), [1], 0])
async def test_an_invalid_cost_counts_as_zero(stated: Any) -> None:
    @tool
    async def odd(ctx: Context) -> Done:
        """State something."""
        ctx.report(cost=stated)
        return Done("ok", metadata={"cost": stated})

    async with Runtime(odd) as runtime:
        with tree(runtime) as t:
            await runtime.call("odd")

    assert (t.cost, t.roots[0].status) == (0, "ok")


async def test_a_cost_may_be_a_decimal_and_a_sync_handler_may_report_it() -> None:
    @tool
    def cheap(ctx: Context) -> int:
        """Cost a little."""
        ctx.report(cost=Decimal("0.25"))
        return 1

    async with Runtime(cheap) as runtime:
        with tree(runtime) as t:
            await runtime.call("cheap")

    assert t.roots[0].cost == 0.25


async def test_a_call_that_waits_and_is_resumed_stays_one_node() -> None:
    async with Runtime(pay) as runtime:
        with tree(runtime) as t:
            pending = await runtime.call("pay", {"amount": 5})
            (node,) = t.roots
            assert (node.status, node.waiting_for, t.total) == ("pending", "approval", {})

            await runtime.approve(pending.meta.call_id)

    assert t.roots == [node]
    assert (node.status, node.waiting_for, node.passes) == ("ok", None, 2)
    assert (t.total["pay"].calls, t.total["pay"].failures) == (1, 0)


async def test_a_caller_that_waits_for_its_nested_call_ends_with_it_and_counts_its_cost_once() -> None:
    @tool(confirm=True)
    async def dear() -> Done:
        """Cost a lot."""
        return Done("done", metadata={"cost": 3})

    @tool
    async def outer(ctx: Context) -> Any:
        """Let another do it."""
        return await ctx.call("dear")

    async with Runtime(dear, outer) as runtime:
        with tree(runtime) as t:
            assert isinstance(await runtime.call("outer"), Pending)
            (inner,) = t.roots[0].calls
            await runtime.approve(inner.id)

    (node,) = t.roots
    assert (node.status, inner.status, node.cost, node.total_cost) == ("ok", "ok", 0, 3)


async def test_a_wait_that_was_rejected_is_a_failure() -> None:
    async with Runtime(pay) as runtime:
        with tree(runtime) as t:
            pending = await runtime.call("pay", {"amount": 5})
            await runtime.reject(pending.meta.call_id)

    assert (t.roots[0].status, t.roots[0].code, t.total["pay"].failures) == ("failed", "rejected", 1)


async def test_an_id_that_is_given_again_changes_nothing() -> None:
    async with Runtime(add, pay) as runtime:
        with tree(runtime) as t:
            await runtime.call("add", {"a": 1, "b": 2}, call_id="c1")
            await runtime.call("add", {"a": 1, "b": 2}, call_id="c1")
            await runtime.call("add", {"a": 9, "b": 9}, call_id="c1")
            await runtime.call("pay", {"amount": 1}, call_id="c2")
            assert (await runtime.call("pay", {"amount": 2}, call_id="c2")).meta.tool == "pay"
            assert t.roots[1].status == "pending"
            await runtime.approve("c2")

    assert [(root.id, root.status, root.passes) for root in t.roots] == [("c1", "ok", 1), ("c2", "ok", 2)]
    assert (t.total["add"].calls, t.total["pay"].calls) == (1, 1)


async def test_the_same_id_at_the_same_time_is_one_call() -> None:
    gate = asyncio.Event()

    @tool(effects={"write"})
    async def once() -> str:
        """Wait."""
        await gate.wait()
        return "done"

    async with Runtime(once) as runtime:
        with tree(runtime) as t:
            first = asyncio.ensure_future(runtime.call("once", call_id="c1"))
            await settle()
            assert not (await runtime.call("once", {"x": 1}, call_id="c1")).ok
            assert t.roots[0].status == "running"
            gate.set()
            await first

    assert (t.roots[0].status, t.total["once"].calls, t.total["once"].failures) == ("ok", 1, 0)


async def test_cancelled_calls_end_as_cancelled_all_the_way_down() -> None:
    @tool
    async def sleep() -> None:
        """Never end."""
        await asyncio.Event().wait()

    @tool
    async def outer(ctx: Context) -> None:
        """Wait for two others."""
        await asyncio.gather(ctx.call("sleep"), ctx.call("sleep"))

    async with Runtime(sleep, outer) as runtime:
        with tree(runtime) as t:
            task = asyncio.ensure_future(runtime.call("outer"))
            await settle()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    assert shape(t) == [("outer", ["sleep", "sleep"])]
    assert {(node.status, node.code) for node in t} == {("failed", "cancelled")}
    assert (t.total["sleep"].failures, t.total["outer"].failures) == (2, 1)


async def test_crashes_and_unserialisable_arguments_are_failures_of_their_tool() -> None:
    @tool
    async def bug() -> None:
        """Have a bug."""
        raise ZeroDivisionError

    async with Runtime(bug, add) as runtime:
        with tree(runtime) as t:
            await runtime.call("bug")
            await runtime.call("add", {"a": object(), "b": 1})

    assert [(root.tool, root.code) for root in t.roots] == [("bug", "crashed"), ("add", "invalid_arguments")]
    assert {tool: of.failures for tool, of in t.total.items()} == {"bug": 1, "add": 1}


async def test_unknown_tools_are_counted_together_and_long_names_are_cut() -> None:
    async with Runtime(add) as runtime:
        with tree(runtime) as t:
            for name in ("nope", "never", "x" * 10_000):
                await runtime.call(name)

    assert [(root.tool, root.code, root.kind) for root in t.roots] == [
        ("nope", "not_found", ""),
        ("never", "not_found", ""),
        ("x" * 200, "not_found", ""),
    ]
    assert {tool: (of.calls, of.failures) for tool, of in t.total.items()} == {"(unknown)": (3, 3)}


async def test_only_the_latest_outermost_calls_are_kept_but_totals_count_all() -> None:
    async with Runtime(add, search, broken, research) as runtime:
        with tree(runtime, roots=2) as t:
            for number in range(4):
                await runtime.call("research", {"topic": str(number)})
            await runtime.call("add", {"a": 1, "b": 2})

    assert [root.tool for root in t.roots] == ["research", "add"]
    assert (t.dropped, len(t._nodes)) == (15, 6)
    assert (t.total["research"].calls, t.total["search"].calls, t.cost) == (4, 8, pytest.approx(0.064))


async def test_a_call_that_is_dropped_while_it_runs_still_counts() -> None:
    gate = asyncio.Event()

    @tool
    async def long(ctx: Context) -> Done:
        """Wait, then call another."""
        await gate.wait()
        await ctx.call("add", {"a": 1, "b": 1})
        return Done("ok", metadata={"cost": 1})

    async with Runtime(long, add) as runtime:
        with tree(runtime, roots=1) as t:
            task = asyncio.ensure_future(runtime.call("long"))
            await settle()
            await runtime.call("add", {"a": 1, "b": 1})
            gate.set()
            await task

    assert shape(t) == ["add"]
    assert (t.total["long"].calls, t.total["long"].cost, t.total["add"].calls) == (1, 1, 2)
    assert (t.dropped, len(t._nodes)) == (2, 1)


async def test_one_call_with_endless_nested_ones_is_bounded_too() -> None:
    @tool
    async def busy(ctx: Context) -> None:
        """Call often."""
        for _ in range(20):
            await ctx.call("search", {"query": "x"})

    async with Runtime(busy, search) as runtime:
        with tree(runtime, calls=5) as t:
            await runtime.call("busy")

    assert (len(t.roots[0].calls), t.dropped, len(t._nodes)) == (4, 16, 5)
    assert t.total["search"].calls == 20
    assert t.roots[0].total_cost == pytest.approx(0.06)


async def test_a_call_names_its_own_parent() -> None:
    async with Runtime(add) as runtime:
        with tree(runtime) as t:
            await runtime.call("add", {"a": 1, "b": 2}, call_id="above")
            await runtime.call_many([Call("add", {"a": 1, "b": 2}, parent="above"), Call("add", parent="gone")])

    assert shape(t) == [("add", ["add"]), "add"]


async def test_watching_begins_at_once_and_ends_when_closed() -> None:
    async with Runtime(add) as runtime:
        t = watch(runtime)
        await runtime.call("add", {"a": 1, "b": 2})
        t.close()
        await runtime.call("add", {"a": 1, "b": 2})

        assert runtime._parts.listeners.callbacks == ()
    assert len(t.roots) == 1
    assert t.find(t.roots[0].id) is t.roots[0]


async def test_calls_that_began_before_are_not_in_the_tree() -> None:
    gate = asyncio.Event()

    @tool
    async def early(ctx: Context) -> None:
        """Wait, then call another."""
        await gate.wait()
        await ctx.call("add", {"a": 1, "b": 1})

    async with Runtime(early, add, pay) as runtime:
        pending = await runtime.call("pay", {"amount": 5})
        task = asyncio.ensure_future(runtime.call("early"))
        await settle()
        with tree(runtime) as t:
            gate.set()
            await task
            await runtime.approve(pending.meta.call_id)

    assert [(root.tool, root.status) for root in t.roots] == [("add", "ok"), ("pay", "ok")]


def test_a_tree_needs_room_for_one_call() -> None:
    with pytest.raises(ValueError, match="must be at least 1, got"):
        tree(Runtime(), roots=0)


async def test_the_tree_is_printed_with_its_totals() -> None:
    @tool(name="long_one", effects={"read"}, cache=Cache(60))
    async def long_one() -> str:
        """Say something."""
        return "x" * 5000

    async with Runtime(add, broken, search, research, pay, long_one) as runtime:
        with tree(runtime) as t:
            await runtime.call("research", {"topic": "tea"})
            await runtime.call("pay", {"amount": 5})
            await runtime.call("long_one")
            await runtime.call("long_one")
            await runtime.call("[red]\x1b[31mnope")
    for node in t:
        node.seconds = node.queued = 0.0015
    for total in t.total.values():
        total.seconds = 75.5
    out, shown = StringIO(), f"{t.roots[1].characters_out} out, {t.roots[1].tokens} tokens"

    t.print(Console(file=out, width=100, color_system=None))

    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines[:9] == [
        "calls",
        "├── research  ok  1.5 ms, 1.5 ms queued, 15 in, 3 out, 1 tokens, cost 0.01 of 0.016",
        "│   ├── search  ok  1.5 ms, 1.5 ms queued, 15 in, 9 out, 3 tokens, cost 0.003",
        "│   ├── search  ok  1.5 ms, 1.5 ms queued, 16 in, 10 out, 3 tokens, cost 0.003",
        "│   ├── add  ok  1.5 ms, 1.5 ms queued, 13 in, 1 out, 1 tokens",
        "│   └── broken  failed  1.5 ms, 1.5 ms queued, 2 in, 27 out, 7 tokens",
        f"├── pay  waits for approval  1.5 ms, 1.5 ms queued, 12 in, {shown}",
        "├── long_one  ok  1.5 ms, 1.5 ms queued, 2 in, 5,000 out, 1,250 tokens",
        "├── long_one  ok  1.5 ms, 1.5 ms queued, cached, 2 in, 5,000 out, 1,250 tokens",
    ]
    assert lines[9].startswith("└── [red]\\u001b[31mnope  not_found")
    assert [cell.strip() for cell in lines[-4].split("│")[1:-1]] == [
        "long_one", "2", "0", "75.5 s", "4", "10,000", "2,500", "0",
    ]  # fmt: skip


async def test_printing_without_rich_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rich.console", None)

    with pytest.raises(ImportError, match=r"\[cli\]"):
        tree(Runtime()).print()
