"""The stage `queue`: slots, rates, order and nested calls."""

import asyncio

import pytest

from surehand import (
    Call,
    Context,
    DefinitionError,
    Done,
    Failed,
    Outcome,
    Pending,
    Provider,
    Queue,
    Runtime,
    ToolError,
    tool,
)
from surehand.core.events import CallQueued
from surehand.testing import ManualClock, settle


class Gate:
    """A tool's inside: counts who is in, and lets them out when told."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside = self.most = 0
        self.order: list[int] = []

    async def through(self, number: int = 0) -> int:
        self.order.append(number)
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.open.wait()
        finally:
            self.inside -= 1
        return number


def gated(gate: Gate, **facets):
    @tool(**{"queue": "bank", **facets})
    async def work(number: int = 0) -> int:
        """Work."""
        return await gate.through(number)

    return work


@pytest.mark.parametrize("limit", [1, 2, 7])
async def test_no_more_calls_run_at_once_than_the_queue_allows(limit):
    gate = Gate()

    async with Runtime(gated(gate), queues={"bank": Queue(concurrent=limit)}) as runtime:
        calls = [asyncio.create_task(runtime.call("work", {"number": n})) for n in range(20)]
        await settle()
        assert gate.inside == limit
        gate.open.set()
        outcomes = await asyncio.gather(*calls)

    assert gate.most == limit
    assert [outcome.data for outcome in outcomes] == list(range(20))


async def test_the_first_to_come_is_the_first_to_run():
    gate = Gate()

    async with Runtime(gated(gate), queues={"bank": Queue(concurrent=1)}) as runtime:
        calls = [asyncio.create_task(runtime.call("work", {"number": n})) for n in range(10)]
        await settle()
        gate.open.set()
        await asyncio.gather(*calls)

    assert gate.order == list(range(10))


async def test_a_new_call_does_not_overtake_waiting_calls():
    gates = [Gate(), Gate(), Gate()]

    @tool(queue="bank")
    async def work(number: int) -> int:
        """Work."""
        started.append(number)
        return await gates[number].through(number)

    started: list[int] = []
    async with Runtime(work, queues={"bank": Queue(concurrent=1)}) as runtime:
        first = asyncio.create_task(runtime.call("work", {"number": 0}))
        second = asyncio.create_task(runtime.call("work", {"number": 1}))
        await settle()
        gates[0].open.set()
        await first
        third = asyncio.create_task(runtime.call("work", {"number": 2}))
        await settle()
        assert started == [0, 1]
        gates[1].open.set()
        gates[2].open.set()
        await asyncio.gather(second, third)

    assert started == [0, 1, 2]


async def test_a_rate_holds_in_every_window_of_its_period():
    clock, starts = ManualClock(), []

    @tool(queue="slow")
    async def work() -> None:
        """Work."""
        starts.append(clock.now())

    async with Runtime(work, queues={"slow": Queue(rate="3/min")}, clock=clock) as runtime:
        await runtime.call("work")
        await clock.advance(50)
        calls = [asyncio.create_task(runtime.call("work")) for _ in range(9)]
        for _ in range(40):
            await clock.advance(5)
        assert all(call.done() for call in calls)

    began = [start - starts[0] for start in starts]
    assert began == [0, 50, 50, 60, 110, 110, 120, 170, 170, 180]


async def test_a_rate_and_a_limit_hold_together():
    clock, gate = ManualClock(), Gate()

    async with Runtime(gated(gate), queues={"bank": Queue(concurrent=2, rate="3/s")}, clock=clock) as runtime:
        calls = [asyncio.create_task(runtime.call("work", {"number": n})) for n in range(4)]
        await settle()
        assert gate.order == [0, 1]
        gate.open.set()
        await settle()
        assert gate.order == [0, 1, 2]
        await clock.advance(0.999)
        assert gate.order == [0, 1, 2]
        await clock.advance(0.002)
        assert gate.order == [0, 1, 2, 3]
        await asyncio.gather(*calls)


async def test_the_runtime_shows_how_full_each_queue_is():
    gate = Gate()

    async with Runtime(gated(gate), queues={"bank": Queue(concurrent=2), "idle": Queue(rate="1/s")}) as runtime:
        calls = [asyncio.create_task(runtime.call("work")) for _ in range(5)]
        await settle()
        bank, idle = runtime.queues()["bank"], runtime.queues()["idle"]
        assert (bank.capacity, bank.in_use, bank.waiting) == (2, 2, 3)
        assert (idle.capacity, idle.in_use, idle.waiting) == (None, 0, 0)
        gate.open.set()
        await asyncio.gather(*calls)

        bank = runtime.queues()["bank"]
        assert (bank.in_use, bank.waiting) == (0, 0)


async def test_a_waiting_call_can_be_cancelled_by_its_id_and_gives_up_its_place():
    gate = Gate()

    async with Runtime(gated(gate), queues={"bank": Queue(concurrent=1)}) as runtime:
        holder = asyncio.create_task(runtime.call("work", {"number": 1}))
        waiter = asyncio.create_task(runtime.call("work", {"number": 2}, call_id="c2"))
        last = asyncio.create_task(runtime.call("work", {"number": 3}))
        await settle()

        assert await runtime.cancel("c2")
        outcome = await waiter

        assert (outcome.code, outcome.executed) == ("cancelled", False)
        assert runtime.queues()["bank"].waiting == 1
        gate.open.set()
        await asyncio.gather(holder, last)
        assert gate.order == [1, 3]


async def test_a_waiting_call_can_be_cancelled_with_its_task():
    gate = Gate()

    async with Runtime(gated(gate), queues={"bank": Queue(concurrent=1)}) as runtime:
        holder = asyncio.create_task(runtime.call("work", {"number": 1}))
        waiter = asyncio.create_task(runtime.call("work", {"number": 2}))
        last = asyncio.create_task(runtime.call("work", {"number": 3}))
        await settle()

        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

        gate.open.set()
        await asyncio.gather(holder, last)
        assert gate.order == [1, 3]
        assert runtime.queues()["bank"].in_use == 0
        assert runtime.stats().running == 0


async def test_a_call_cancelled_in_the_moment_it_is_let_in_gives_the_slot_on():
    gate = Gate()

    async with Runtime(gated(gate), queues={"bank": Queue(concurrent=1)}) as runtime:
        holder = asyncio.create_task(runtime.call("work", {"number": 1}))
        waiter = asyncio.create_task(runtime.call("work", {"number": 2}))
        last = asyncio.create_task(runtime.call("work", {"number": 3}))
        await settle()

        holder.cancel()
        holder.add_done_callback(lambda _: waiter.cancel())
        gate.open.set()
        await asyncio.gather(holder, waiter, return_exceptions=True)

        assert (await last).data == 3
        assert runtime.queues()["bank"].in_use == 0


@pytest.mark.parametrize("ending", ["cancelled", "crashed", "failed", "timed_out"])
async def test_the_slot_is_released_however_its_holder_ends(ending):
    clock, entered = ManualClock(), asyncio.Event()

    @tool(queue="bank", timeout=5)
    async def bad() -> None:
        """End badly."""
        entered.set()
        if ending == "crashed":
            raise RuntimeError("boom")
        if ending == "failed":
            raise ToolError("no")
        await asyncio.Event().wait()

    @tool(queue="bank")
    async def good() -> str:
        """End well."""
        return "good"

    async with Runtime(bad, good, queues={"bank": Queue(concurrent=1)}, clock=clock) as runtime:
        holder = asyncio.create_task(runtime.call("bad", call_id="bad"))
        await entered.wait()
        waiter = asyncio.create_task(runtime.call("good"))
        if ending == "cancelled":
            await runtime.cancel("bad")
        if ending == "timed_out":
            await clock.advance(5)

        assert (await holder).code == ending
        assert (await waiter).data == "good"
        assert runtime.queues()["bank"].in_use == 0


async def test_a_call_that_waits_for_approval_holds_no_slot():
    gate = Gate()
    gate.open.set()

    async with Runtime(gated(gate, confirm=True), queues={"bank": Queue(concurrent=1)}) as runtime:
        first = await runtime.call("work", {"number": 1})
        second = await runtime.call("work", {"number": 2})
        assert runtime.queues()["bank"].in_use == 0

        assert (await runtime.approve(second.call_id)).data == 2
        assert (await runtime.approve(first.call_id)).data == 1


async def test_a_handler_that_answers_pending_leaves_its_slot():
    @tool(queue="bank")
    async def ask() -> Pending:
        """Ask somebody."""
        return Pending("result", message="wait")

    async with Runtime(ask, queues={"bank": Queue(concurrent=1)}) as runtime:
        pending = await runtime.call("ask")
        assert isinstance(pending, Pending)
        assert runtime.queues()["bank"].in_use == 0
        assert (await runtime.settle(pending.call_id, "later")).data == "later"


async def test_a_call_holds_no_slot_while_it_waits_for_its_next_attempt():
    clock, tries = ManualClock(), []

    @tool(queue="bank", effects={"read"}, retries=1)
    async def flaky() -> str:
        """Fail once."""
        tries.append(clock.now())
        if len(tries) == 1:
            raise ToolError("busy", code="unavailable", retry_after=10)
        return "ok"

    @tool(queue="bank")
    async def other() -> str:
        """Work."""
        return "other"

    async with Runtime(flaky, other, queues={"bank": Queue(concurrent=1)}, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("flaky"))
        await settle()
        assert runtime.queues()["bank"].in_use == 0
        assert (await runtime.call("other")).data == "other"
        await clock.advance(10)
        assert (await call).data == "ok"


@pytest.mark.parametrize("how", ["context", "runtime"])
async def test_nested_calls_in_a_queue_of_one_do_not_wait_for_themselves(how):
    @tool(queue="bank")
    async def countdown(n: int, ctx: Context) -> int:
        """Count down by calling itself."""
        if n == 0:
            return 0
        call = ctx.call if how == "context" else runtime.call
        return 1 + (await call("countdown", {"n": n - 1})).unwrap()

    async with Runtime(countdown, queues={"bank": Queue(concurrent=1)}) as runtime:
        assert (await runtime.call("countdown", {"n": 6})).data == 6
        assert runtime.queues()["bank"].in_use == 0


async def test_parallel_nested_calls_run_one_at_a_time_in_their_ancestors_slot():
    inside = most = 0

    @tool(queue="bank")
    async def inner(n: int) -> int:
        """Look who else is here."""
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await settle(3)
        inside -= 1
        return n

    @tool(queue="bank")
    async def outer() -> list[int]:
        """Call many."""
        return [o.unwrap() for o in await runtime.call_many(Call("inner", {"n": n}) for n in range(5))]

    async with Runtime(inner, outer, queues={"bank": Queue(concurrent=1)}) as runtime:
        assert (await runtime.call("outer")).data == [0, 1, 2, 3, 4]

    assert most == 1


async def test_parallel_nested_calls_that_nest_again_do_not_deadlock():
    @tool(queue="bank")
    async def tree(depth: int, ctx: Context) -> int:
        """Count the leaves."""
        if depth == 0:
            return 1
        children = await asyncio.gather(*(ctx.call("tree", {"depth": depth - 1}) for _ in range(3)))
        return sum(child.unwrap() for child in children)

    async with Runtime(tree, queues={"bank": Queue(concurrent=1)}) as runtime:
        outcomes = await runtime.call_many([Call("tree", {"depth": 3}), Call("tree", {"depth": 2})])

    assert [outcome.data for outcome in outcomes] == [27, 9]


async def test_a_cancelled_nested_call_lets_its_siblings_run():
    @tool(queue="bank")
    async def inner(n: int) -> int:
        """Hang at first."""
        if n == 0:
            await asyncio.Event().wait()
        return n

    @tool(queue="bank")
    async def outer(ctx: Context) -> int:
        """Give up on one of two."""
        hanging = asyncio.create_task(ctx.call("inner", {"n": 0}))
        sibling = asyncio.create_task(ctx.call("inner", {"n": 1}))
        await settle()
        hanging.cancel()
        return (await sibling).unwrap()

    async with Runtime(inner, outer, queues={"bank": Queue(concurrent=1)}) as runtime:
        assert (await runtime.call("outer")).data == 1


async def test_nested_calls_through_two_queues_and_back_do_not_deadlock():
    @tool(queue="a")
    async def ping(n: int, ctx: Context) -> int:
        """Call pong."""
        return n and 1 + (await ctx.call("pong", {"n": n - 1})).unwrap()

    @tool(queue="b")
    async def pong(n: int, ctx: Context) -> int:
        """Call ping."""
        return n and 1 + (await ctx.call("ping", {"n": n - 1})).unwrap()

    async with Runtime(ping, pong, queues={"a": Queue(concurrent=1), "b": Queue(concurrent=1)}) as runtime:
        assert (await runtime.call("ping", {"n": 5})).data == 5


async def test_queues_of_the_same_name_in_two_runtimes_are_independent():
    gate = Gate()

    @tool(queue="bank")
    async def outer() -> int:
        """Call the other runtime."""
        return (await other.call("work", {"number": 7})).unwrap()

    async with (
        Runtime(gated(gate), queues={"bank": Queue(concurrent=1)}) as other,
        Runtime(outer, queues={"bank": Queue(concurrent=1)}) as runtime,
    ):
        holder = asyncio.create_task(other.call("work", {"number": 1}))
        await settle()
        nested = asyncio.create_task(runtime.call("outer"))
        await settle()
        assert gate.inside == 1
        gate.open.set()
        assert (await nested).data == 7
        await holder


async def test_max_concurrent_limits_the_tools_that_name_no_queue():
    gate, free = Gate(), Gate()

    @tool(queue="own")
    async def special(number: int = 0) -> int:
        """Work in its own queue."""
        return await free.through(number)

    work = gated(gate).evolve(limits=gated(gate).limits.__class__())
    async with Runtime(work, special, defaults={"max_concurrent": 3}, queues={"own": Queue(concurrent=9)}) as runtime:
        calls = [asyncio.create_task(runtime.call(name)) for name in ["work"] * 8 + ["special"] * 8]
        await settle()
        assert (gate.inside, free.inside) == (3, 8)
        assert runtime.queues()["default"].waiting == 5
        gate.open.set()
        free.open.set()
        await asyncio.gather(*calls)


async def test_a_queue_named_default_applies_to_all_tools_without_a_queue():
    gate = Gate()
    work = gated(gate).evolve(limits=gated(gate).limits.__class__())

    async with Runtime(work, queues={"default": Queue(concurrent=2)}) as runtime:
        calls = [asyncio.create_task(runtime.call("work")) for _ in range(4)]
        await settle()
        assert gate.inside == 2
        gate.open.set()
        await asyncio.gather(*calls)


@pytest.mark.parametrize("kind", ["internal", "agent"])
async def test_internal_tools_and_agents_never_wait_in_line(kind):
    gate = Gate()

    @tool(queue="bank")
    async def helper() -> str:
        """Help."""
        return "here"

    queues = {"bank": Queue(concurrent=1)}
    async with Runtime(gated(gate), helper.evolve(kind=kind), queues=queues) as runtime:
        holder = asyncio.create_task(runtime.call("work"))
        await settle()
        assert (await runtime.call("helper")).data == "here"
        gate.open.set()
        await holder


async def test_client_tools_never_wait_in_line():
    gate = Gate()
    confirm = tool.client("confirm", "Ask the person.", reply="later")

    async with Runtime(gated(gate), confirm, defaults={"max_concurrent": 1}, queues={"bank": Queue()}) as runtime:
        holders = [asyncio.create_task(runtime.call("work")) for _ in range(3)]
        await settle()
        assert isinstance(await runtime.call("confirm"), Pending)
        assert runtime.queues().get("default") is None or runtime.queues()["default"].in_use == 0
        gate.open.set()
        await asyncio.gather(*holders)


async def test_an_unknown_queue_is_a_definition_error_when_the_runtime_starts():
    with pytest.raises(DefinitionError, match=r"queue 'bank'.*did you mean 'banks'"):
        async with Runtime(gated(Gate()), queues={"banks": Queue(concurrent=1)}):
            pass

    with pytest.raises(DefinitionError, match="add queues="):
        async with Runtime(gated(Gate())):
            pass


async def test_an_unknown_queue_of_a_provider_is_a_definition_error_too():
    class Remote(Provider):
        namespace, queue = "remote", "bank"

        async def tools(self):
            return [tool.external("ask", "Ask.").evolve(kind="rest", handler=None)]

    with pytest.raises(DefinitionError, match="queue 'bank'"):
        async with Runtime(Remote()):
            pass


async def test_a_tool_added_later_must_name_a_queue_that_is_there():
    async with Runtime(queues={"other": Queue()}) as runtime:
        with pytest.raises(DefinitionError, match="queue 'bank'"):
            await runtime.add(gated(Gate()))


@pytest.mark.parametrize("wrong", [{"concurrent": 0}, {"concurrent": -1}, {"rate": "often"}, {"rate": "0/s"}])
def test_a_queue_that_lets_nothing_run_is_a_definition_error(wrong):
    with pytest.raises(DefinitionError):
        Queue(**wrong)


async def test_the_time_in_the_queue_is_in_the_measurements_of_the_outcome():
    gate = Gate()

    async with Runtime(gated(gate), queues={"bank": Queue(concurrent=1)}) as runtime:
        first = asyncio.create_task(runtime.call("work"))
        second = asyncio.create_task(runtime.call("work"))
        await settle()
        gate.open.set()
        outcomes = await asyncio.gather(first, second)

    assert outcomes[0].meta.queued_ms == 0
    assert 0 < outcomes[1].meta.queued_ms <= outcomes[1].meta.latency_ms


async def test_listeners_get_the_position_of_waiting_calls():
    gate, heard = Gate(), []

    async with Runtime(gated(gate), queues={"bank": Queue(concurrent=1)}) as runtime:
        runtime.listen(lambda event: heard.append(event) if isinstance(event, CallQueued) else None)
        calls = [asyncio.create_task(runtime.call("work")) for _ in range(3)]
        await settle()
        gate.open.set()
        await asyncio.gather(*calls)

    assert [(event.queue, event.position) for event in heard] == [("bank", 1), ("bank", 2)]


async def test_closing_the_runtime_ends_the_waiting_calls():
    gate = Gate()

    async with Runtime(gated(gate), queues={"bank": Queue(concurrent=1)}) as runtime:
        calls = [asyncio.create_task(runtime.call("work")) for _ in range(3)]
        await settle()

    outcomes = await asyncio.gather(*calls)
    assert [type(outcome) for outcome in outcomes] == [Failed] * 3
    assert [outcome.executed for outcome in outcomes] == [True, False, False]


async def test_a_queue_without_waiters_costs_a_call_nothing():
    @tool(queue="bank")
    async def quick() -> int:
        """Do nothing."""
        return 1

    async with Runtime(quick, queues={"bank": Queue(concurrent=1)}) as runtime:
        for _ in range(100):
            assert await runtime.call("quick") == Done(1)
        assert runtime.queues()["bank"].in_use == 0


async def test_a_task_that_a_handler_leaves_behind_takes_its_own_place_in_line():
    left: list[asyncio.Task[Outcome]] = []
    running, most, go = 0, 0, asyncio.Event()

    @tool(queue="one")
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    @tool(queue="one")
    async def leaver() -> None:
        async def later() -> Outcome:
            await begun.wait()
            return await runtime.call("work")

        left.append(asyncio.create_task(later()))
        await asyncio.sleep(0)

    begun = asyncio.Event()
    async with Runtime(work, leaver, queues={"one": Queue(concurrent=1)}) as runtime:
        await runtime.call("leaver")
        other = asyncio.create_task(runtime.call("work"))
        begun.set()
        await settle()
        go.set()
        await asyncio.gather(other, *left)

    assert most == 1
