"""An answered call that no runtime has resumed yet runs once, in time and as it was asked about, or never."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Context, Failed, Outcome, Pending, Provider, Queue, Runtime, Tool, tool
from surehand.core.events import CallEnded, CallSettled
from surehand.store.database import StoreUnavailable
from surehand.store.store import Store
from tests.durable.bank_tools import (
    Bank,
    assert_done,
    assert_failed,
    assert_pending,
    execute,
    ledger_state,
    pending_call_id,
    read_rows,
    wait_until,
)

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server
TO = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
ASKS = [{"tools": "wire__*", "decision": "ask"}]


class Wire(Provider):
    """Asks for a pin before it does anything."""

    namespace, kind = "wire", "mcp"

    def __init__(self, *, reply_timeout: float | None = None, start: float = 0.0) -> None:
        self.log: list[tuple[Any, ...]] = []
        self._reply_timeout, self._start = reply_timeout, start

    async def start(self) -> None:
        await asyncio.sleep(self._start)

    async def tools(self) -> list[Tool[..., Any]]:
        return [tool.external("send", "Send money.", parameters=TO).evolve(kind="mcp", handler=None)]

    async def invoke(self, call: Any, context: Any) -> Outcome:
        self.log.append(("invoked", call.arguments["to"], call.user))
        waits = {} if self._reply_timeout is None else {"reply_timeout": self._reply_timeout}
        return Pending("input", message="The pin?", state=1, **waits)

    async def resume(self, call: Any, state: Any, answer: Any, context: Any) -> Any:
        self.log.append(("resumed", call.arguments["to"], call.user, answer))
        return f"sent to {call.arguments['to']}"


async def approved(address: str, bank: Bank, call_id: str = "c1", **who: str) -> None:
    """Approved where its tool is not, so that it is for others to go on with."""
    async with Runtime(bank, store=address) as runtime:
        assert_pending(await runtime.scope(**who).call("transfer", {"amount": 5}, call_id=call_id))
    async with Runtime(store=address) as without_the_tool:
        assert_pending(await without_the_tool.approve(call_id), "result")


async def ended(runtime: Runtime, call_id: str = "c1") -> bool:
    return await ledger_state(runtime, call_id) == "ended"


@pytest.mark.parametrize("start", [0.0, 0.05])
async def test_an_answer_that_no_runtime_applied_in_time_runs_nothing(address: str, start: float) -> None:
    bank = Bank()
    await approved(address, bank)
    async with Runtime(store=address) as runtime:
        ago = "created_at = created_at - 9e5, expires_at = expires_at - 9e5, answered_at = answered_at - 9e5"
        await execute(runtime, f"UPDATE pending SET {ago}")
    async with Runtime(bank, Wire(start=start), store=address) as runtime:
        await wait_until(lambda: ended(runtime))
        assert_failed(await runtime.approve("c1"), "expired")

    assert bank.ran == []


@pytest.mark.parametrize("change", ["""arguments = '{"to": "mallory"}'""", "user_id = 'root'", "session = 's2'"])
async def test_an_answer_to_a_question_is_for_the_call_that_asked_it(address: str, change: str) -> None:
    wire = Wire()
    async with Runtime(wire, store=address, policy=ASKS) as runtime:
        call_id = pending_call_id(await runtime.scope(user="ann").call("wire__send", {"to": "ann"}))
        assert_pending(await runtime.approve(call_id), "input")
        await execute(runtime, f"UPDATE ledger SET {change}")
    async with Runtime(again := Wire(), store=address, policy=ASKS) as runtime:
        assert_failed(await runtime.settle(call_id, "1234"), "conflict")

    assert wire.log == [("invoked", "ann", "ann")]
    assert again.log == []


async def test_a_runtime_that_was_paused_before_it_took_a_call_finds_that_it_has_gone_on(address: str) -> None:
    wire = Wire()
    async with Runtime(wire, store=address, policy=ASKS) as runtime:
        call_id = pending_call_id(await runtime.call("wire__send", {"to": "ann"}))
    async with Runtime(store=address, policy=ASKS) as without_it:
        assert_pending(await without_it.approve(call_id), "result")
        stale = await without_it.store.pending.find(call_id)
        async with Runtime(wire, store=address, policy=ASKS):
            await wait_until(lambda: wire.log)
            await wait_until(lambda: _waits(without_it, call_id))
        assert_pending(await without_it.settle(call_id, "1234"), "result")
        await without_it.add(wire)
        taken = without_it._calls.load().call_resumer.start_ready_call(stale)
        await wait_until(lambda: ended(without_it, call_id))

        assert taken is None or await taken is None
    assert wire.log == [("invoked", "ann", None), ("resumed", "ann", None, "1234")]


async def _waits(runtime: Runtime, call_id: str) -> bool:
    return await ledger_state(runtime, call_id) == "waiting"


async def test_a_claim_that_may_have_been_committed_is_returned(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bank, lost = Bank(), []
    await approved(address, bank)
    kept = Store.write

    async def losing(self: Store, statements: Any) -> Any:
        results = await kept(self, statements)
        if not lost and any("state = 'taken'" in step.sql and "state = 'ready'" in step.sql for step in statements):
            lost.append(True)
            raise StoreUnavailable("The connection was lost.")
        return results

    monkeypatch.setattr(Store, "write", losing)
    async with Runtime(bank, store=address) as runtime:
        await wait_until(lambda: ended(runtime))

    assert lost
    assert bank.ran == [(5, "ann")]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_answer_that_is_repeated_while_its_call_is_taken_up_gets_the_outcome(
    address: str, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    bank, reached, go_on = Bank(), asyncio.Event(), asyncio.Event()
    await approved(address, bank)
    kept = Store.write

    async def holding(self: Store, statements: Any) -> Any:
        takes = any("state = 'taken'" in step.sql and "state = 'ready'" in step.sql for step in statements)
        results = await kept(self, statements) if moment == "after" or not takes else None
        if takes:
            reached.set()
            await go_on.wait()
        return await kept(self, statements) if results is None else results

    monkeypatch.setattr(Store, "write", holding)
    async with Runtime(bank, store=address) as runtime:
        await reached.wait()  # the maintenance task takes up the call
        repeated = asyncio.create_task(runtime.approve("c1"))
        await asyncio.wait({repeated}, timeout=0.2)
        go_on.set()
        outcome = await repeated

    assert assert_done(outcome) == "sent 5 to ann"
    assert bank.ran == [(5, "ann")]


async def test_one_damaged_call_stops_no_other(address: str, caplog: pytest.LogCaptureFixture) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        for call_id in ("c1", "c2", "c3"):
            assert_pending(await runtime.call("transfer", {"amount": 5}, call_id=call_id))
    async with Runtime(store=address) as runtime:
        for call_id in ("c1", "c2", "c3"):
            assert_pending(await runtime.approve(call_id), "result")
        await execute(runtime, "UPDATE pending SET answer = 'settle', answer_value = '{}' WHERE call_id = 'c2'")
    async with Runtime(bank, store=address) as runtime:
        await wait_until(lambda: ended(runtime, "c1"))
        await wait_until(lambda: ended(runtime, "c3"))
        await wait_until(lambda: _all_sealed(runtime))

    assert len(bank.ran) == 2
    assert caplog.text.count("is unreadable") == 1


async def _all_sealed(runtime: Runtime) -> bool:
    return (await runtime.store.audit.verify()).unsealed == 0


async def test_cancelling_all_calls_ends_calls_that_were_just_answered(address: str) -> None:
    bank = Bank()
    await approved(address, bank, user="ann")
    async with Runtime(store=address) as runtime:
        assert not await runtime.scope(user="eve").cancel()
        assert await runtime.scope(user="ann").cancel()
    async with Runtime(bank, store=address) as runtime:
        assert_failed(await runtime.approve("c1"), "cancelled")

    assert bank.ran == []


async def test_cancelling_a_call_ends_the_one_that_it_waits_for(address: str) -> None:
    bank = Bank()

    @tool
    async def outer(ctx: Context) -> Any:
        """Transfer by another tool."""
        return await ctx.call("transfer", {"amount": 5})

    async with Runtime(bank, outer, store=address) as runtime:
        call_id = pending_call_id(await runtime.call("outer", call_id="o1"))
    async with Runtime(store=address) as without_the_tools:
        await without_the_tools.approve(call_id)
        assert await without_the_tools.cancel(call_id)
        states = await read_rows(without_the_tools, "SELECT state FROM ledger")
    async with Runtime(bank, outer, store=address) as runtime:
        assert_failed(await runtime.call("outer", call_id="o1"), "cancelled")

    assert [row["state"] for row in states] == ["ended", "ended"]
    assert bank.ran == []


async def test_edited_bytes_run_after_a_restart(address: str) -> None:
    put: list[bytes] = []
    hold, held = asyncio.Event(), asyncio.Event()

    @tool(effects={"write"}, confirm=True, queue="one")
    async def keep(data: bytes) -> None:
        """Keep bytes."""
        put.append(data)

    @tool(queue="one")
    async def block() -> None:
        """Hold the only slot."""
        held.set()
        await hold.wait()

    queues = {"one": Queue(1)}
    async with Runtime(keep, block, store=address, queues=queues) as runtime:
        assert_pending(await runtime.call("keep", {"data": b"old"}, call_id="c1"))
        blocking = asyncio.create_task(runtime.call("block"))
        await held.wait()
        approving = asyncio.create_task(runtime.approve("c1", arguments={"data": b"new"}))
        await wait_until(lambda: runtime.queues()["one"].waiting)
    assert_pending(await approving, "result")
    await blocking
    async with Runtime(keep, block, store=address, queues=queues) as runtime:
        await wait_until(lambda: ended(runtime))

    assert put == [b"new"]


async def test_a_waiting_caller_never_gets_unknown_effect(address: str) -> None:
    async with Runtime(Wire(), store=address) as one, Runtime(Wire(reply_timeout=20.0), store=address) as other:
        for number in range(5):
            call_id = f"c{number}"
            calling = asyncio.create_task(other.call("wire__send", {"to": "ann"}, call_id=call_id))
            await wait_until(lambda call_id=call_id: _waits(other, call_id))
            refused = Failed("failed", "no pin")
            await asyncio.gather(one.settle(call_id, "1234"), other.settle(call_id, refused))
            outcome = await asyncio.wait_for(calling, 25)
            await wait_until(lambda call_id=call_id: ended(one, call_id))

            assert isinstance(outcome, Pending) or outcome.text in ("sent to ann", refused.text)


async def test_of_two_equal_answers_one_counts(address: str) -> None:
    bank, events = Bank(), []
    async with Runtime(bank, store=address) as one, Runtime(bank, store=address) as other:
        for runtime in (one, other):
            runtime.listen(events.append)
        for number in range(10):
            call_id = f"c{number}"
            await one.call("transfer", {"amount": 5}, call_id=call_id)
            events.clear()
            await asyncio.gather(one.reject(call_id, by="ann"), other.reject(call_id, by="bob"))
            [answer] = await read_rows(
                one, f"SELECT by_whom FROM audit WHERE kind = 'answer' AND call_id = '{call_id}'"
            )

            assert [event.by for event in events if isinstance(event, CallSettled)] == [answer["by_whom"]]
            assert len([event for event in events if isinstance(event, CallEnded)]) == 1


async def test_the_settled_event_comes_before_the_outcome_that_it_led_to(address: str) -> None:
    async with Runtime(Bank(), store=address) as runtime:
        await runtime.call("transfer", {"amount": 5}, call_id="c1")
        await runtime.reject("c1")
        rows = await read_rows(runtime, "SELECT kind FROM audit WHERE call_id = 'c1' ORDER BY tx, id")

    assert [row["kind"] for row in rows] == ["wait", "answer", "outcome"]


async def test_a_call_that_was_approved_and_ends_well_is_done(address: str) -> None:
    bank = Bank()
    await approved(address, bank)
    async with Runtime(bank, store=address) as runtime:
        await wait_until(lambda: ended(runtime))

        assert assert_done(await runtime.approve("c1")) == "sent 5 to ann"
