"""Confirmation: a person is asked first, and nothing else has to wait for the answer."""

import asyncio
from typing import Any

from surehand import Approval, Call, Context, Failed, Pending, Runtime, events, tool
from surehand.testing import settle


class Bank:
    def __init__(self) -> None:
        self.sent: list[int] = []

    @tool(
        effects={"write"},
        confirm=lambda args, ctx: args["amount"] >= 100,
        confirm_message=lambda args, ctx: f"Send {args['amount']}?",
    )
    async def send(self, amount: int) -> str:
        """Send money."""
        self.sent.append(amount)
        return f"sent {amount}"

    @tool
    async def balance(self) -> int:
        """Look."""
        return 1_000 - sum(self.sent)


async def test_a_question_is_asked_answered_and_then_the_call_runs() -> None:
    bank, heard = Bank(), list[Any]()
    async with Runtime(bank) as runtime:
        runtime.listen(heard.append)
        asked = await runtime.call("send", {"amount": 500}, call_id="c")
        [waiting] = await runtime.pending()
        before = list(bank.sent)
        outcome = await runtime.approve("c", by="ann")

    assert isinstance(asked, Pending)
    assert (asked.waiting_for, waiting.message, waiting.arguments) == ("approval", "Send 500?", {"amount": 500})
    assert before == []
    assert (outcome.text, bank.sent) == ("sent 500", [500])
    kinds = [
        events.CallStarted,
        events.CallPending,
        events.CallEnded,
        events.CallSettled,
        events.CallResumed,
        events.CallEnded,
    ]
    assert [type(event) for event in heard] == kinds
    assert {event.call_id for event in heard} == {"c"}


async def test_a_no_is_told_to_the_model_and_nothing_happens() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        await runtime.call("send", {"amount": 500}, call_id="c")
        outcome = await runtime.reject("c", reason="too much")

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.executed, bank.sent) == ("rejected", False, [])
    assert "rejected by the user: too much" in outcome.text


async def test_other_calls_of_the_same_turn_end_while_one_is_asked_about() -> None:
    bank = Bank()
    async with Runtime(bank, defaults={"max_concurrent": 1}) as runtime:
        calls = [Call("send", {"amount": 500}, id="c"), Call("send", {"amount": 5}), Call("balance")]
        asked, small, balance = await runtime.call_many(calls)
        later = await runtime.approve("c")

    assert isinstance(asked, Pending)
    assert (small.text, balance.data, later.text) == ("sent 5", 995, "sent 500")


async def test_other_calls_go_on_while_a_person_at_the_screen_thinks() -> None:
    bank, decide = Bank(), asyncio.Event()

    async def person(wait: Any) -> Approval:
        await decide.wait()
        return Approval(arguments={"amount": 300}, by="ann")

    async with Runtime(bank, approver=person, defaults={"max_concurrent": 1}) as runtime:
        asked = asyncio.create_task(runtime.call("send", {"amount": 500}))
        await settle()
        meanwhile = await runtime.call("balance")
        decide.set()
        outcome = await asked

    assert meanwhile.data == 1_000
    assert (outcome.text, bank.sent) == ("sent 300", [300])


async def test_a_browser_is_shown_the_call_before_anybody_waits_and_its_answer_ends_it() -> None:
    choose = tool.client("choose", "Let the person choose.", reply="wait", timeout=30, display={"customUI": "sizes"})
    seen: list[Any] = []

    async with Runtime(choose) as runtime:
        browser = asyncio.Event()

        def show(event: Any) -> None:
            seen.append(type(event))
            if isinstance(event, events.CallPending):
                browser.set()

        runtime.listen(show)
        call = asyncio.create_task(runtime.call("choose", call_id="c"))
        await browser.wait()
        [waiting] = await runtime.pending()
        still = call.done()
        await runtime.settle("c", {"size": 4})
        outcome = await call

    assert seen[:2] == [events.CallStarted, events.CallPending]
    assert (waiting.request, still) == ({"customUI": "sizes"}, False)
    assert outcome.data == {"size": 4}


async def test_a_confirmation_may_look_things_up_and_a_preview_shows_what_would_change() -> None:
    async def known(args: dict[str, Any], ctx: Context) -> bool:
        await asyncio.sleep(0)
        return args["path"] != "notes"

    @tool(confirm=known, confirm_message="Write it?", preview=lambda args, ctx: {"type": "diff", "path": args["path"]})
    async def write(path: str) -> str:
        """Write a file."""
        return path

    async with Runtime(write) as runtime:
        unasked = await runtime.call("write", {"path": "notes"})
        asked = await runtime.call("write", {"path": "passwords"})

    assert unasked.ok
    assert isinstance(asked, Pending)
    assert (asked.message, asked.request["preview"]) == ("Write it?", {"type": "diff", "path": "passwords"})
