"""The stage `recall`: a given call id never runs twice, and reveals nothing about the calls of other users."""

import asyncio
from typing import Any

import pytest

from surehand import Call, Context, Done, Failed, Pending, Runtime, ToolError, tool
from surehand.testing import ManualClock


class Bank:
    """A tool that must not run twice, with a gate to hold it open."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.started, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    @tool(effects={"write"})
    async def pay(self, amount: int, note: str = "") -> str:
        """Pay an amount."""
        self.ran.append(amount)
        self.started.set()
        await self.gate.wait()
        return f"paid {amount} ({len(self.ran)})"


async def test_the_same_id_and_arguments_give_the_stored_outcome() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        first = await runtime.call("pay", {"amount": 5}, call_id="c1")
        second = await runtime.call("pay", {"amount": 5}, call_id="c1")

    assert first == second == Done("paid 5 (1)")
    assert bank.ran == [5]


async def test_arguments_that_mean_the_same_are_the_same() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        await runtime.call("pay", {"amount": 5, "note": "rent"}, call_id="c1")
        again = await runtime.call("pay", '{"note": "rent", "amount": "5"}', call_id="c1")

    assert again.unwrap() == "paid 5 (1)"
    assert bank.ran == [5]


async def test_a_call_as_a_value_is_recalled_by_its_id_too() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        await runtime.call_many([Call("pay", {"amount": 5}, id="c1")])
        (again,) = await runtime.call_many([Call("pay", {"amount": 5}, id="c1")])

    assert again.unwrap() == "paid 5 (1)"


async def test_a_given_id_is_the_id_of_the_call_and_its_idempotency_key() -> None:
    @tool
    async def who(ctx: Context) -> list[str]:
        """Say which call this is."""
        return [ctx.call_id, ctx.idempotency_key]

    async with Runtime(who) as runtime:
        outcome = await runtime.call("who", call_id="c1")

    assert outcome.unwrap() == ["c1", "c1"]
    assert outcome.meta.call_id == "c1"


async def test_calls_without_an_id_are_not_remembered() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        await runtime.call("pay", {"amount": 5})
        await runtime.call("pay", {"amount": 5})

    assert bank.ran == [5, 5]


async def test_another_tool_or_other_arguments_under_the_same_id_are_a_conflict() -> None:
    @tool
    async def look(amount: int) -> int:
        """Look at an amount."""
        return amount

    bank = Bank()
    async with Runtime(bank, look) as runtime:
        await runtime.call("pay", {"amount": 5}, call_id="c1")
        others = [
            await runtime.call("pay", {"amount": 6}, call_id="c1"),
            await runtime.call("pay", {"amount": 5, "note": "x"}, call_id="c1"),
            await runtime.call("look", {"amount": 5}, call_id="c1"),
        ]

    assert [outcome.code for outcome in others if isinstance(outcome, Failed)] == ["conflict"] * 3
    assert bank.ran == [5]


@pytest.mark.parametrize("stranger", [{"user": "eve"}, {"session": "other"}, {"user": "eve", "session": "other"}])
async def test_the_id_of_another_user_or_session_is_a_conflict_that_reveals_nothing(stranger: dict[str, str]) -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        mine = runtime.scope(user="ann", session="s1")
        await mine.call("pay", {"amount": 4711}, call_id="c1")
        theirs = runtime.scope(user="ann", session="s1").scope(**stranger)
        same_arguments = await theirs.call("pay", {"amount": 4711}, call_id="c1")
        other_arguments = await theirs.call("pay", {"amount": 1}, call_id="c1")

    assert same_arguments == other_arguments
    assert isinstance(same_arguments, Failed)
    assert (same_arguments.code, same_arguments.executed) == ("conflict", False)
    assert not any(word in same_arguments.text for word in ("4711", "ann", "s1", "paid"))
    assert bank.ran == [4711]


async def test_a_stranger_cannot_take_over_the_id_of_an_open_wait() -> None:
    answer = tool.client("ask_person", "Ask.", reply="later")
    async with Runtime(answer) as runtime:
        waiting = await runtime.scope(user="ann").call("ask_person")
        assert isinstance(waiting, Pending)
        outcome = await runtime.scope(user="eve").call("ask_person", call_id=waiting.call_id)

    assert isinstance(outcome, Failed)
    assert outcome.code == "conflict"


async def test_a_pending_call_is_returned_again_without_a_second_question() -> None:
    asked: list[Any] = []

    @tool(confirm=True)
    async def risky() -> str:
        """Needs a yes."""
        return "done"

    async with Runtime(risky) as runtime:
        runtime.listen(lambda event: asked.append(event) if type(event).__name__ == "CallPending" else None)
        first = await runtime.call("risky", call_id="c1")
        second = await runtime.call("risky", call_id="c1")

        assert first == second
        assert isinstance(second, Pending)
        assert (second.waiting_for, second.call_id) == ("approval", "c1")
        assert len(asked) == len(await runtime.pending()) == 1


async def test_after_the_answer_the_same_id_gives_the_outcome() -> None:
    answer = tool.client("ask_person", "Ask.", reply="later")
    async with Runtime(answer) as runtime:
        await runtime.call("ask_person", call_id="c1")
        await runtime.settle("c1", {"size": "large"})
        again = await runtime.call("ask_person", call_id="c1")

    assert again.unwrap() == {"size": "large"}


async def test_a_rejected_call_stays_rejected_under_its_id() -> None:
    ran: list[int] = []

    @tool(confirm=True)
    async def risky() -> None:
        """Needs a yes."""
        ran.append(1)

    async with Runtime(risky) as runtime:
        await runtime.call("risky", call_id="c1")
        rejected = await runtime.reject("c1", "no")
        again = await runtime.call("risky", call_id="c1")

        assert again == rejected
        assert await runtime.pending() == []
    assert ran == []


async def test_of_two_concurrent_calls_with_one_id_one_runs_and_the_other_is_pending() -> None:
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank) as runtime:
        first = asyncio.create_task(runtime.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        loser = await runtime.call("pay", {"amount": 5}, call_id="c1")
        bank.gate.set()
        winner = await first
        later = await runtime.call("pay", {"amount": 5}, call_id="c1")

    assert isinstance(loser, Pending)
    assert (loser.waiting_for, loser.call_id) == ("result", "c1")
    assert winner == later == Done("paid 5 (1)")
    assert bank.ran == [5]


async def test_a_hundred_at_the_same_time_run_once() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        outcomes = await runtime.call_many([Call("pay", {"amount": 5}, id="c1") for _ in range(100)])

    assert bank.ran == [5]
    assert {type(outcome) for outcome in outcomes} <= {Done, Pending}
    assert Done("paid 5 (1)") in outcomes


async def test_the_loser_of_a_race_leaves_no_wait_behind() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        await runtime.call_many([Call("pay", {"amount": 5}, id="c1") for _ in range(3)])

        assert await runtime.pending() == []
        assert runtime.stats().pending == 0


async def test_a_failure_before_the_handler_ran_may_be_tried_again() -> None:
    clock, bank = ManualClock(), Bank()
    async with Runtime(bank, policy=[{"tools": "pay", "decision": "deny"}], clock=clock) as runtime:
        denied = await runtime.call("pay", {"amount": 5}, call_id="c1")
        runtime.policy = []
        allowed = await runtime.call("pay", {"amount": 5}, call_id="c1")

    assert isinstance(denied, Failed)
    assert not denied.executed
    assert allowed.unwrap() == "paid 5 (1)"


async def test_malformed_arguments_do_not_use_up_an_id() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        wrong = await runtime.call("pay", {"amount": "much"}, call_id="c1")
        right = await runtime.call("pay", {"amount": 5}, call_id="c1")

    assert isinstance(wrong, Failed)
    assert right.unwrap() == "paid 5 (1)"


async def test_a_failure_of_the_handler_is_an_outcome_and_is_not_tried_again() -> None:
    ran: list[int] = []

    @tool(effects={"write"})
    async def pay() -> None:
        """Pay."""
        ran.append(1)
        raise ToolError("the bank said no")

    async with Runtime(pay) as runtime:
        first = await runtime.call("pay", call_id="c1")
        second = await runtime.call("pay", call_id="c1")

    assert first == second
    assert isinstance(second, Failed)
    assert (second.code, second.executed) == ("failed", True)
    assert ran == [1]


async def test_a_call_that_was_cancelled_while_it_ran_does_not_run_again() -> None:
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank) as runtime:
        caller = asyncio.create_task(runtime.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        caller.cancel()
        await asyncio.wait({caller})
        again = await runtime.call("pay", {"amount": 5}, call_id="c1")

    assert caller.cancelled()
    assert isinstance(again, Failed)
    assert (again.code, again.executed) == ("cancelled", True)
    assert bank.ran == [5]


async def test_the_outcome_of_an_id_never_changes_even_for_a_repeatable_tool() -> None:
    ran: list[int] = []
    gates = [asyncio.Event(), asyncio.Event()]
    running = [asyncio.Event(), asyncio.Event()]

    @tool(effects={"read"})
    async def measure() -> int:
        """Measure something that changes."""
        ran.append(1)
        number = len(ran)
        running[number - 1].set()
        await gates[number - 1].wait()
        return number

    async with Runtime(measure) as runtime:
        both = []
        for each in running:
            both.append(asyncio.create_task(runtime.call("measure", call_id="c1")))
            await each.wait()
        gates[1].set()
        second = await both[1]
        gates[0].set()
        first = await both[0]
        third = await runtime.call("measure", call_id="c1")

    assert second == first == third == Done(2)


async def test_a_recalled_outcome_knows_its_own_measurements() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        first = await runtime.call("pay", {"amount": 5}, call_id="c1")
        second = await runtime.call("pay", {"amount": 5}, call_id="c1")

    assert first.meta.call_id == second.meta.call_id == "c1"
    assert second is not first
