"""Events: what listeners and streams receive of calls."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from surehand import Context, Done, Failed, Pending, Queue, Runtime, ToolError, tool
from surehand.core.event_formats import format_event
from surehand.core.events import (
    CallEnded,
    CallPending,
    CallProgress,
    CallResumed,
    CallSettled,
    CallStarted,
    CatalogueChanged,
    Event,
    Missed,
)
from surehand.testing import ManualClock


@tool(display={"icon": "plus"})
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
async def broken() -> None:
    """Never works."""
    raise ToolError("out of paper")


@tool(confirm=True, confirm_message="Pay it?")
async def pay(amount: int = 5) -> str:
    """Pay an amount."""
    return f"paid {amount}"


choose = tool.client("choose", "Let the person choose.", reply="later", display={"customUI": "sizes"})


def names(events: list[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


def heard(runtime: Runtime) -> list[Any]:
    """Everything that a listener is told from now on."""
    events: list[Any] = []
    runtime.listen(events.append)
    return events


async def collected(stream: AsyncIterator[Event]) -> list[Any]:
    return [event async for event in stream]


# Listening


async def test_a_plain_call_starts_and_ends() -> None:
    clock = ManualClock(start=1000.0)
    async with Runtime(add, clock=clock) as runtime:
        events = heard(runtime)
        outcome = await runtime.call("add", {"a": 1}, call_id="c1")

    assert events == [
        CallStarted("c1", "add", {"a": 1}, None, {"icon": "plus"}, 1000.0, intent="compute"),
        CallEnded("c1", "add", outcome, 1000.0, intent="compute", display={"icon": "plus"}),
    ]
    assert outcome == Done(2)


async def test_events_of_one_call_share_an_id_that_its_outcome_knows() -> None:
    async with Runtime(add) as runtime:
        events = heard(runtime)
        first, second = await runtime.call("add", {"a": 1}), await runtime.call("add", {"a": 2})

    ids = [event.call_id for event in events]
    assert ids == [first.meta.call_id] * 2 + [second.meta.call_id] * 2
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [("broken", None, "failed"), ("add", {"a": "x"}, "invalid_arguments"), ("ad", None, "not_found")],
)
async def test_a_failed_call_starts_and_ends_too(name: str, arguments: Any, code: str) -> None:
    async with Runtime(add, broken) as runtime:
        events = heard(runtime)
        outcome = await runtime.call(name, arguments)

    assert names(events) == ["CallStarted", "CallEnded"]
    assert isinstance(outcome, Failed)
    assert events[1].outcome.code == outcome.code == code


async def test_events_use_the_tools_name_even_if_an_alias_was_called() -> None:
    @tool(aliases=("sum",))
    async def total() -> int:
        """A total."""
        return 3

    async with Runtime(total) as runtime:
        events = heard(runtime)
        await runtime.call("sum")

    assert {event.tool for event in events} == {"total"}


async def test_a_call_that_waits_in_line_is_queued_between_start_and_end() -> None:
    running, gate = asyncio.Event(), asyncio.Event()

    @tool(queue="line")
    async def slow() -> None:
        """Takes its time."""
        running.set()
        await gate.wait()

    async with Runtime(slow, queues={"line": Queue(concurrent=1)}) as runtime:
        events = heard(runtime)
        queued: asyncio.Queue[object] = asyncio.Queue()
        runtime.listen(lambda event: queued.put_nowait(event) if type(event).__name__ == "CallQueued" else None)
        calls = [asyncio.create_task(runtime.call("slow", call_id="c0"))]
        await running.wait()
        for number in (1, 2):  # one after the other: a store may finish the writes of two calls in either order
            calls.append(asyncio.create_task(runtime.call("slow", call_id=f"c{number}")))
            await queued.get()
        gate.set()
        await asyncio.gather(*calls)

    by_call = {n: [event for event in events if event.call_id == f"c{n}"] for n in range(3)}
    assert names(by_call[0]) == ["CallStarted", "CallEnded"]
    assert names(by_call[1]) == names(by_call[2]) == ["CallStarted", "CallQueued", "CallEnded"]
    assert [(by_call[n][1].queue, by_call[n][1].position) for n in (1, 2)] == [("line", 1), ("line", 2)]


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (lambda ctx: ctx.report("half way"), {"message": "half way"}),
        (lambda ctx: ctx.report(0.5), {"fraction": 0.5}),
        (lambda ctx: ctx.report(1), {"fraction": 1.0}),
        (lambda ctx: ctx.report(0.5, "half way"), {"fraction": 0.5, "message": "half way"}),
        (lambda ctx: ctx.report(title="Report"), {"title": "Report"}),
        (lambda ctx: ctx.report("half way", title="Report"), {"message": "half way", "title": "Report"}),
        (lambda ctx: ctx.report("rows", rows=3), {"message": "rows", "data": {"rows": 3}}),
        (lambda ctx: ctx.report({"rows": 3, "message": "rows"}), {"message": "rows", "data": {"rows": 3}}),
    ],
)
async def test_progress_is_a_message_a_fraction_a_title_or_any_values(report: Any, told: dict[str, Any]) -> None:
    @tool
    async def working(ctx: Context) -> str:
        """Reports."""
        report(ctx)
        return "done"

    async with Runtime(working) as runtime:
        events = heard(runtime)
        await runtime.call("working", call_id="c1")

    _, progress, _ = events
    expected = {"message": None, "fraction": None, "title": None, "data": {}, **told}
    assert {name: getattr(progress, name) for name in expected} == expected
    assert (progress.call_id, progress.tool) == ("c1", "working")


async def test_progress_from_a_thread_comes_in_order_on_the_loop() -> None:
    loops: list[Any] = []

    @tool
    def working(ctx: Context) -> int:
        """Reports from its own thread."""
        for step in range(5):
            ctx.report(step / 5, f"step {step}")
        return threading.get_ident()

    async with Runtime(working) as runtime:
        events = heard(runtime)
        runtime.listen(lambda event: loops.append(threading.get_ident()))
        outcome = await runtime.call("working")

    assert names(events) == ["CallStarted", *["CallProgress"] * 5, "CallEnded"]
    assert [event.message for event in events[1:-1]] == [f"step {step}" for step in range(5)]
    assert set(loops) == {threading.get_ident()}
    assert outcome.unwrap() != threading.get_ident()


async def test_each_yield_of_a_generator_is_progress_and_the_last_is_the_result() -> None:
    @tool
    async def analyse() -> AsyncIterator[Any]:
        """Analyse."""
        yield {"status": "loading"}
        yield "still loading"
        yield {"status": "complete", "rows": 12}

    @tool
    def analyse_in_thread() -> Any:
        """Analyse."""
        yield {"status": "loading"}
        yield "still loading"
        yield {"status": "complete", "rows": 12}

    for name in ("analyse", "analyse_in_thread"):
        async with Runtime(analyse, analyse_in_thread) as runtime:
            events = heard(runtime)
            outcome = await runtime.call(name)

        assert outcome == Done({"status": "complete", "rows": 12})
        assert names(events) == ["CallStarted", "CallProgress", "CallProgress", "CallProgress", "CallEnded"]
        assert (events[1].data, events[2].message) == ({"status": "loading"}, "still loading")
        assert events[3].data == {"status": "complete", "rows": 12}


async def test_an_approved_call_is_pending_settled_resumed_and_ended() -> None:
    clock = ManualClock(start=1000.0)
    async with Runtime(pay, clock=clock, defaults={"pending_ttl": 60.0}) as runtime:
        events = heard(runtime)
        asked = await runtime.call("pay", {"amount": 7}, call_id="c1")
        await clock.advance(5)
        outcome = await runtime.approve("c1", by="ann", always=True)

    assert events == [
        CallStarted("c1", "pay", {"amount": 7}, at=1000.0, intent="compute"),
        CallPending(
            "c1", "pay", "approval", "Pay it?", events[1].request, {"amount": 7}, 1060.0, 1000.0, intent="compute"
        ),
        CallEnded("c1", "pay", asked, 1000.0, intent="compute"),
        CallSettled("c1", "pay", "approve", "approval", "ann", True, "", 1005.0, intent="compute"),
        CallResumed("c1", "pay", 1005.0, intent="compute"),
        CallEnded("c1", "pay", outcome, 1005.0, intent="compute"),
    ]
    assert isinstance(events[2].outcome, Pending)
    assert events[5].outcome == Done("paid 7")


async def test_a_rejected_call_tells_why() -> None:
    async with Runtime(pay) as runtime:
        await runtime.call("pay", call_id="c1")
        events = heard(runtime)
        await runtime.reject("c1", "too expensive", by="ann")

    assert names(events) == ["CallSettled", "CallResumed", "CallEnded"]
    assert (events[0].verdict, events[0].by, events[0].reason) == ("reject", "ann", "too expensive")
    assert events[2].outcome.code == "rejected"


async def test_an_answer_without_effect_emits_no_event() -> None:
    async with Runtime(pay, choose) as runtime:
        await runtime.call("pay", call_id="c1")
        await runtime.approve("c1")
        await runtime.call("choose", call_id="c2")
        events = heard(runtime)
        await runtime.approve("c1")
        await runtime.reject("c1")
        await runtime.approve("c2")
        await runtime.settle("unknown", 1)

    assert events == []


async def test_a_call_ends_exactly_once_per_pass_and_counts_once() -> None:
    async with Runtime(pay, choose) as runtime:
        events = heard(runtime)
        await runtime.call("pay", call_id="c1")
        await asyncio.gather(*(runtime.approve("c1") for _ in range(5)))
        stats = runtime.stats().calls["pay"]

    per_pass = [name for name in names(events) if name in ("CallStarted", "CallResumed", "CallEnded")]
    assert per_pass == ["CallStarted", "CallEnded", "CallResumed", "CallEnded"]
    assert (stats.count, stats.failures) == (1, 0)


async def test_a_cancelled_caller_still_ends_the_call_once() -> None:
    started = asyncio.Event()

    @tool
    async def slow() -> None:
        """Never ends."""
        started.set()
        await asyncio.Event().wait()

    async with Runtime(slow) as runtime:
        events = heard(runtime)
        caller = asyncio.create_task(runtime.call("slow"))
        await started.wait()
        caller.cancel()
        await asyncio.wait({caller})

    assert caller.cancelled()
    assert names(events) == ["CallStarted", "CallEnded"]
    assert (events[1].outcome.code, events[1].outcome.executed) == ("cancelled", True)


async def test_a_listener_that_raises_breaks_neither_the_call_nor_other_listeners() -> None:
    def fails(event: Event) -> None:
        raise RuntimeError("a bug in the listener")

    async with Runtime(add, pay) as runtime:
        runtime.listen(fails)
        events = heard(runtime)
        outcome = await runtime.call("add", {"a": 1})
        await runtime.call("pay", call_id="c1")
        approved = await runtime.approve("c1")

    assert outcome == Done(2)
    assert approved == Done("paid 5")
    assert len(events) == 8


async def test_no_event_is_received_after_unsubscribing() -> None:
    events: list[Event] = []
    async with Runtime(add) as runtime:
        unsubscribe = runtime.listen(events.append)
        others = heard(runtime)
        await runtime.call("add", {"a": 1})
        unsubscribe()
        await runtime.call("add", {"a": 1})
        unsubscribe()

    assert len(events) == 2
    assert len(others) == 4


async def test_a_listener_may_unsubscribe_while_it_is_called() -> None:
    events: list[Event] = []
    async with Runtime(add) as runtime:

        def once(event: Event) -> None:
            events.append(event)
            unsubscribe()

        unsubscribe = runtime.listen(once)
        others = heard(runtime)
        await runtime.call("add", {"a": 1})

    assert names(events) == ["CallStarted"]
    assert names(others) == ["CallStarted", "CallEnded"]


async def test_added_and_removed_tools_emit_events() -> None:
    async with Runtime(add) as runtime:
        events = heard(runtime)
        await runtime.add(broken)
        runtime.catalogue.add(add, on_conflict="replace")
        runtime.catalogue.remove("broken")
        runtime.catalogue.remove("broken")

    assert events == [
        CatalogueChanged(added=("broken",)),
        CatalogueChanged(added=("add",), removed=("add",)),
        CatalogueChanged(removed=("broken",)),
    ]


# Reading at one's own pace


async def test_a_reader_gets_every_event_from_now_on() -> None:
    async with Runtime(add) as runtime:
        await runtime.call("add", {"a": 1}, call_id="before")
        events = runtime.events()
        await runtime.call("add", {"a": 1}, call_id="after")
        first, second = await anext(events), await anext(events)
        await events.aclose()
        listening = bool(runtime._parts.listeners.callbacks)

    assert names([first, second]) == ["CallStarted", "CallEnded"]
    assert isinstance(first, CallStarted)
    assert first.call_id == "after"
    assert not listening


async def test_a_reader_that_is_dropped_hears_no_more() -> None:
    async with Runtime(add) as runtime:
        events = runtime.events()
        listening = len(runtime._parts.listeners.callbacks)
        del events
        gc.collect()

        assert listening == 1
        assert not runtime._parts.listeners.callbacks


async def test_a_reader_waits_for_the_next_event() -> None:
    async with Runtime(add) as runtime:
        events = runtime.events()
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        await runtime.call("add", {"a": 1}, call_id="c1")

        assert isinstance(await reading, CallStarted)
        await events.aclose()


async def test_a_slow_reader_gets_the_number_of_missed_events() -> None:
    async with Runtime(add) as runtime:
        events = runtime.events()
        for _ in range(600):
            await runtime.call("add", {"a": 1})
        kept = [await anext(events) for _ in range(1000)]
        missed = await anext(events)
        await runtime.call("add", {"a": 1})
        next_one = await anext(events)
        await events.aclose()

    assert set(names(kept)) == {"CallStarted", "CallEnded"}
    assert missed == Missed(200)
    assert isinstance(next_one, CallStarted)


# Streams


async def test_a_stream_is_the_events_of_one_call_and_ends_with_its_end() -> None:
    @tool
    async def working(ctx: Context) -> str:
        """Reports and calls another."""
        ctx.report("first")
        await asyncio.sleep(0)
        await ctx.call("add", {"a": 1})
        ctx.report("second")
        return "done"

    async with Runtime(working, add) as runtime:
        beside = asyncio.create_task(runtime.call("add", {"a": 1}))
        events = await collected(runtime.stream("working"))
        await beside

    assert names(events) == ["CallStarted", "CallProgress", "CallProgress", "CallEnded"]
    assert len({event.call_id for event in events}) == 1
    assert events[-1].outcome == Done("done")


async def test_a_stream_gives_progress_while_the_call_runs() -> None:
    go_on = asyncio.Event()

    @tool
    async def analyse() -> AsyncIterator[Any]:
        """Analyse."""
        yield {"status": "loading"}
        yield {"status": "half way"}
        await go_on.wait()
        yield {"status": "complete"}

    seen: list[Any] = []
    async with Runtime(analyse) as runtime:
        async for event in runtime.stream("analyse"):
            seen.append(event)
            if isinstance(event, CallProgress):
                go_on.set()

    assert seen[1].data == {"status": "loading"}
    assert seen[-1].outcome == Done({"status": "complete"})


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [("nothing", None, "not_found"), ("add", {"a": "x"}, "invalid_arguments"), ("broken", None, "failed")],
)
async def test_a_stream_of_a_call_that_fails_also_ends_with_its_end(name: str, arguments: Any, code: str) -> None:
    async with Runtime(add, broken) as runtime:
        events = await collected(runtime.stream(name, arguments))

    assert names(events) == ["CallStarted", "CallEnded"]
    assert events[-1].outcome.code == code


async def test_a_stream_of_a_call_that_waits_ends_with_the_pending() -> None:
    async with Runtime(pay) as runtime:
        events = await collected(runtime.stream("pay"))
        outcome = await runtime.approve(events[-1].call_id)

    assert names(events) == ["CallStarted", "CallPending", "CallEnded"]
    assert isinstance(events[-1].outcome, Pending)
    assert outcome == Done("paid 5")


async def test_a_stream_of_a_closed_runtime_ends_too() -> None:
    events = await collected(Runtime(add).stream("add", {"a": 1}))

    assert names(events) == ["CallEnded"]
    assert events[0].outcome.code == "unavailable"


async def test_a_stream_has_a_time_limit_like_a_call() -> None:
    clock, started = ManualClock(), asyncio.Event()

    @tool
    async def slow() -> None:
        """Never ends."""
        started.set()
        await asyncio.Event().wait()

    async with Runtime(slow, clock=clock) as runtime:
        reading = asyncio.create_task(collected(runtime.stream("slow", timeout=5)))
        await started.wait()
        await clock.advance(5)
        events = await reading

    assert events[-1].outcome.code == "timed_out"


async def test_leaving_a_stream_cancels_the_call() -> None:
    stopped = asyncio.Event()

    @tool
    async def endless(ctx: Context) -> None:
        """Never ends."""
        ctx.report("working")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with Runtime(endless) as runtime:
        stream = runtime.stream("endless")
        async for event in stream:
            if isinstance(event, CallProgress):
                break
        await stream.aclose()

        assert stopped.is_set()
        assert runtime.stats().running == 0
        assert not runtime._parts.listeners.callbacks


async def test_a_stream_of_more_events_than_it_buffers_still_ends_with_its_end() -> None:
    @tool
    async def chatty(ctx: Context) -> str:
        """Reports without pause."""
        for _ in range(1500):
            ctx.report("again")
        return "done"

    async with Runtime(chatty) as runtime:
        events = await collected(runtime.stream("chatty"))

    assert isinstance(events[-1], CallEnded)
    assert events[-1].outcome == Done("done")
    assert sum(event.count for event in events if isinstance(event, Missed)) + len(events) >= 1501


# Ending by hand


async def test_the_caller_may_tell_the_end_itself_once_its_own_state_is_right() -> None:
    async with Runtime(add, broken, auto_complete=False) as runtime:
        events = heard(runtime)
        outcome = await runtime.call("add", {"a": 1}, call_id="c1")
        failure = await runtime.call("broken")
        unknown = await runtime.call("nothing")
        before = names(events)
        for each in (outcome, failure, unknown):
            runtime.complete(each)

    assert before == ["CallStarted"] * 3
    assert events[3] == CallEnded("c1", "add", outcome, events[3].at, intent="compute", display={"icon": "plus"})
    assert [(event.tool, event.outcome) for event in events[4:]] == [("broken", failure), ("nothing", unknown)]


async def test_a_stream_ends_by_itself_even_where_the_caller_tells_the_end() -> None:
    async with Runtime(add, auto_complete=False) as runtime:
        events = await collected(runtime.stream("add", {"a": 1}))

    assert names(events) == ["CallStarted", "CallEnded"]


# In the words of other programs


async def a_real_run() -> list[Any]:
    """A call that works, one that fails, one that reports, one that is approved and one that a client answers."""

    @tool
    async def report(ctx: Context) -> str:
        """Report."""
        ctx.report(0.5, "half way")
        return "reported"

    async with Runtime(add, broken, report, pay, choose) as runtime:
        events = heard(runtime)
        await runtime.call("add", {"a": 1})
        await runtime.call("broken")
        await runtime.call("report")
        await runtime.call("pay", call_id="pay")
        await runtime.approve("pay", always=True)
        await runtime.call("choose", call_id="choose")
        await runtime.settle("choose", {"size": 4})
    return events


async def told(family: str) -> list[dict[str, Any]]:
    return [wired for event in await a_real_run() if (wired := format_event(event, family)) is not None]


async def test_a_real_run_as_spaces_read_it() -> None:
    run = await told("spaces")

    assert [(each["toolName"], each["type"]) for each in run] == [
        ("add", "tool-call.start"),
        ("add", "tool-call.complete"),
        ("broken", "tool-call.start"),
        ("broken", "tool-call.error"),
        ("report", "tool-call.start"),
        ("report", "tool-result"),
        ("report", "tool-call.complete"),
        ("pay", "tool-call.start"),
        ("pay", "tool-call.complete"),
        ("choose", "tool-call.start"),
        ("choose", "tool-call.complete"),
    ]
    assert (run[0]["input"], run[1]["output"], run[3]["error"]) == ({"a": 1}, 2, "out of paper")
    assert run[5]["output"] == {"text": "half way", "fraction": 0.5}
    assert (run[9]["display"], run[10]["output"]) == ({"customUI": "sizes"}, {"size": 4})


async def test_a_real_run_as_agents_read_it() -> None:
    run = await told("agent")

    assert [(each["tool"], each["type"], each.get("status")) for each in run if each["tool"] != "report"] == [
        ("add", "tool_started", None),
        ("add", "tool_finished", "ok"),
        ("broken", "tool_started", None),
        ("broken", "tool_finished", "failed"),
        ("pay", "tool_started", None),
        ("pay", "tool_finished", "ok"),
        ("choose", "tool_started", None),
        ("choose", "tool_finished", "ok"),
    ]
    assert (run[1]["charactersIn"], run[1]["charactersOut"]) == (len('{"a":1}'), len("2"))
    assert run[3]["error"] == "(tool failed: out of paper)"


async def test_a_real_run_as_the_bus_reads_it() -> None:
    run = await told("bus")

    assert [(each["payload"]["toolName"], each["code"]) for each in run] == [
        ("add", 400),
        ("add", 410),
        ("broken", 400),
        ("broken", 420),
        ("report", 400),
        ("report", 410),
        ("pay", 400),
        ("pay", 410),
        ("choose", 400),
        ("choose", 410),
    ]
    assert run[1]["payload"]["result"] == 2
    assert run[3]["payload"] == {"toolName": "broken", "error": "out of paper"}


async def test_a_real_run_as_sessions_read_it() -> None:
    run = await told("session")
    of_pay = [each for each in run if each["callId"] == "pay"]
    of_choose = [each for each in run if each["callId"] == "choose"]

    assert [each["type"] for each in of_pay] == [
        "tool_call",
        "tool_confirmation_required",
        "tool_confirmation_result",
        "tool_result_start",
        "tool_result",
    ]
    assert (of_pay[1]["message"], of_pay[1]["input"]) == ("Pay it?", {})
    assert (of_pay[2]["confirmed"], of_pay[2]["always"]) == (True, True)
    assert (of_pay[4]["result"], of_pay[4]["isError"], of_pay[4]["executedBy"]) == ("paid 5", False, "engine")
    assert [each["type"] for each in of_choose] == ["tool_call", "tool_result_start", "tool_result"]
    assert of_choose[2]["executedBy"] == "client"


async def test_the_times_of_a_real_run_never_run_backwards() -> None:
    times = [event.at for event in await a_real_run()]

    assert all(earlier <= later for earlier, later in pairwise(times))
    assert times[0] > 0


async def test_every_kind_of_event_of_a_real_run_has_the_tool_it_is_about() -> None:
    events = await a_real_run()

    kinds = {CallStarted, CallEnded, CallProgress, CallPending, CallSettled, CallResumed}
    assert {type(event) for event in events} == kinds
    assert all(event.tool and event.call_id for event in events)


async def test_a_late_answer_ends_a_call_under_the_id_it_started_with() -> None:
    ends = [event for event in await a_real_run() if isinstance(event, CallEnded) and event.call_id == "choose"]

    assert [type(event.outcome) for event in ends] == [Pending, Done]
    assert ends[-1].outcome == Done({"size": 4})
