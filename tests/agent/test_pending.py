"""A call that waits is a normal outcome: the run waits, or the model goes on and gets the result later."""

import pytest

from surehand import Agent, Runtime, tool
from surehand.testing import ScriptedModel
from tests.agent.conftest import add


class Bank:
    """A bank that asks before each transfer."""

    def __init__(self):
        self.transfers = []
        self.tool = tool(name="pay", confirm=True, effects={"write"})(self.pay)

    async def pay(self, amount: int, to: str = "Ada") -> str:
        """Pay a person."""
        self.transfers.append((amount, to))
        return f"Paid {amount} to {to}."


def results(request):
    return [message["content"] for message in request.messages if message["role"] == "tool"]


async def test_a_run_whose_calls_all_wait_ends_without_another_request(store):
    bank = Bank()
    model = ScriptedModel([("pay", {"amount": 5})], "Paid.")
    agent = Agent("clerk", model=model)
    async with Runtime(bank.tool, store=store) as runtime:
        run = await agent.run("Pay Ada 5", user="ada", session="s1", runtime=runtime)

        assert (run.status, run.reason, len(model.requests)) == ("waiting", "Waiting for pay.", 1)
        [wait] = run.waiting
        assert (wait.tool, wait.waiting_for, wait.agent, wait.run) == ("pay", "approval", "clerk", run.id)
        assert wait.path == ("clerk",)
        assert [each.call_id for each in await runtime.pending()] == [wait.call_id]


async def test_the_result_takes_the_place_of_the_call_that_waited(store):
    bank = Bank()
    model = ScriptedModel([("pay", {"amount": 5}), ("pay", {"amount": 7})], "Paid.")
    agent = Agent("clerk", model=model)
    async with Runtime(bank.tool, store=store) as runtime:
        run = await agent.run("Pay", runtime=runtime)
        for wait in run.waiting:
            await runtime.approve(wait.call_id)
        run = await agent.resume(run.id, runtime=runtime)

    assert (run.status, run.text, run.waiting) == ("done", "Paid.", ())
    assert results(model.requests[1]) == ["Paid 5 to Ada.", "Paid 7 to Ada."]
    assert sorted(bank.transfers) == [(5, "Ada"), (7, "Ada")]


async def test_a_resumed_run_without_news_waits_on(store):
    model = ScriptedModel([("pay", {"amount": 5})], "Paid.")
    agent = Agent("clerk", model=model)
    async with Runtime(Bank().tool, store=store) as runtime:
        run = await agent.run("Pay", runtime=runtime)
        again = await agent.resume(run.id, runtime=runtime)

    assert again == run
    assert len(model.requests) == 1


async def test_a_rejected_call_is_told_to_the_model(store):
    bank = Bank()
    model = ScriptedModel([("pay", {"amount": 5})], "Not paid.")
    agent = Agent("clerk", model=model)
    async with Runtime(bank.tool, store=store) as runtime:
        run = await agent.run("Pay", runtime=runtime)
        await runtime.reject(run.waiting[0].call_id, "too expensive")
        run = await agent.resume(run.id, runtime=runtime)

    assert run.text == "Not paid."
    assert "too expensive" in results(model.requests[1])[0]
    assert bank.transfers == []


async def test_if_some_calls_ended_the_model_goes_on_and_gets_the_result_later(store):
    bank = Bank()
    model = ScriptedModel([("add", {"a": 1, "b": 2}), ("pay", {"amount": 5})], "3, and the payment waits.", "Paid.")
    agent = Agent("clerk", model=model)
    async with Runtime(add, bank.tool, store=store) as runtime:
        run = await agent.run("Pay", runtime=runtime)

        assert (run.status, run.text) == ("waiting", "3, and the payment waits.")
        [call_id] = [wait.call_id for wait in run.waiting]
        [three, pending] = results(model.requests[1])
        assert three == "3"
        assert '"status":"pending"' in pending
        assert call_id in pending

        await runtime.approve(call_id)
        run = await agent.resume(run.id, runtime=runtime)

    assert (run.status, run.text) == ("done", "Paid.")
    assert model.requests[2].messages[-1] == {
        "role": "user",
        "content": f"[Tool Result: pay] (callId: {call_id}) Paid 5 to Ada.",
    }
    assert results(model.requests[2]) == [three, pending]


async def test_a_result_that_arrives_between_two_steps_is_given_once(store):
    bank = Bank()

    async def approve(messages):
        [wait] = await runtime.pending()
        await runtime.approve(wait.call_id)
        return [("add", {"a": 1, "b": 1})]

    model = ScriptedModel(
        [("add", {"a": 1, "b": 2}), ("pay", {"amount": 5})], approve, [("add", {"a": 2, "b": 2})], "Ok."
    )
    agent = Agent("clerk", model=model)
    async with Runtime(add, bank.tool, store=store) as runtime:
        run = await agent.run("Pay", runtime=runtime)

    late = [message for message in run.messages if str(message["content"]).startswith("[Tool Result: pay]")]
    assert run.status == "done"
    assert len(late) == 1


async def test_two_waits_can_be_answered_one_after_the_other(store):
    bank = Bank()
    model = ScriptedModel([("pay", {"amount": 5}), ("pay", {"amount": 7})], "One is paid.", "Both are paid.")
    agent = Agent("clerk", model=model)
    async with Runtime(bank.tool, store=store) as runtime:
        run = await agent.run("Pay", runtime=runtime)
        [first, second] = run.waiting
        await runtime.approve(first.call_id)
        run = await agent.resume(run.id, runtime=runtime)

        assert (run.status, run.text) == ("waiting", "One is paid.")
        assert [wait.call_id for wait in run.waiting] == [second.call_id]

        await runtime.approve(second.call_id)
        run = await agent.resume(run.id, runtime=runtime)

    assert (run.status, run.text) == ("done", "Both are paid.")
    assert sorted(bank.transfers) == [(5, "Ada"), (7, "Ada")]


async def test_a_call_repeated_in_a_later_step_follows_the_first(store):
    bank = Bank()
    model = ScriptedModel(
        [("add", {"a": 1, "b": 2}), ("pay", {"amount": 5})],
        [("pay", {"amount": "5"})],
        "Paid once.",
    )
    agent = Agent("clerk", model=model)
    async with Runtime(add, bank.tool, store=store) as runtime:
        run = await agent.run("Pay", runtime=runtime, session="s1")

        assert (run.status, len(model.requests)) == ("waiting", 2)
        [wait] = await runtime.pending()

        await runtime.approve(wait.call_id)
        run = await agent.resume(run.id, runtime=runtime)

    assert (run.status, run.text) == ("done", "Paid once.")
    assert bank.transfers == [(5, "Ada")]
    assert results(model.requests[2])[-1] == "Paid 5 to Ada."


async def test_without_a_runtime_a_call_that_would_wait_fails_and_says_what_to_add():
    bank = Bank()
    model = ScriptedModel([("pay", {"amount": 5})], "I cannot.")

    run = await Agent("clerk", model=model, tools=[bank.tool]).run("Pay")

    assert run.status == "done"
    assert "runtime=Runtime(..., store=" in results(model.requests[1])[0]
    assert bank.transfers == []


async def test_a_client_tool_is_answered_later(store):
    confirm = tool.client("confirm", "Ask the person.", parameters={}, reply="later")
    model = ScriptedModel([("confirm", {})], "Confirmed.")
    agent = Agent("clerk", model=model, tools=[confirm])
    async with Runtime(store=store) as runtime:
        run = await agent.run("Ask", runtime=runtime)
        await runtime.settle(run.waiting[0].call_id, {"answer": "yes"})
        run = await agent.resume(run.id, runtime=runtime)

    assert run.text == "Confirmed."
    assert results(model.requests[1]) == ['{"answer":"yes"}']


@pytest.mark.parametrize("verb", ["resume", "steer", "follow_up"])
async def test_an_unknown_run_is_an_error(store, verb):
    agent = Agent("clerk", model=ScriptedModel())
    arguments = () if verb == "resume" else ("Hello",)
    async with Runtime(store=store) as runtime:
        with pytest.raises(LookupError, match="has no run 'r1'"):
            await getattr(agent, verb)("r1", *arguments, runtime=runtime)


async def test_a_call_that_a_later_run_of_the_session_repeats_follows_the_first(store):
    booked = []

    @tool(confirm=True, effects={"write"})
    async def book(flight: str) -> str:
        """Book a flight."""
        booked.append(flight)
        return f"Booked {flight}."

    model = ScriptedModel([("book", {"flight": "TW7"})], [("book", {"flight": "TW7"})], "Booked.", "Booked as well.")
    agent = Agent("travel", model=model, tools=[book])
    async with Runtime(agent, store=store) as runtime:
        first = await agent.run("Fly", runtime=runtime, user="ada", session="s1")
        second = await agent.run("Well?", runtime=runtime, user="ada", session="s1")
        [wait] = await runtime.pending()
        await runtime.approve(wait.call_id)
        first_end = await agent.resume(first.id, runtime=runtime)
        second_end = await agent.resume(second.id, runtime=runtime)

    assert first.waiting[0].call_id == second.waiting[0].call_id == wait.call_id
    assert (first_end.text, second_end.text) == ("Booked.", "Booked as well.")
    assert [run.messages[2]["content"] for run in (first_end, second_end)] == ["Booked TW7."] * 2
    assert booked == ["TW7"]


@pytest.mark.parametrize("other", [{"user": "bob"}, {"session": "s2"}])
async def test_a_call_of_another_user_or_session_asks_by_itself(store, other):
    @tool(confirm=True, effects={"write"})
    async def book(flight: str) -> str:
        """Book a flight."""
        return f"Booked {flight}."

    agent = Agent("travel", model=ScriptedModel(*[[("book", {"flight": "TW7"})]] * 2), tools=[book])
    async with Runtime(agent, store=store) as runtime:
        await agent.run("Fly", runtime=runtime, user="ada", session="s1")
        await agent.run("Fly", runtime=runtime, **({"user": "ada", "session": "s1"} | other))

        assert len(await runtime.pending()) == 2


async def test_a_repetition_in_a_later_run_stays_one_after_a_crash(tmp_path):
    booked = []

    @tool(confirm=True, effects={"write"})
    async def book(flight: str) -> str:
        """Book a flight."""
        booked.append(flight)
        return f"Booked {flight}."

    store = str(tmp_path / "agent.db")
    agent = Agent("travel", model=ScriptedModel(*[[("book", {"flight": "TW7"})]] * 2, "Done."), tools=[book])
    async with Runtime(agent, store=store) as runtime:
        await agent.run("Fly", runtime=runtime, user="ada", session="s1")
        second = await agent.run("Well?", runtime=runtime, user="ada", session="s1")
    async with Runtime(agent, store=store) as runtime:
        [wait] = await runtime.pending()
        await runtime.approve(wait.call_id)
    async with Runtime(agent, store=store) as runtime:
        run = await agent.resume(second.id, runtime=runtime)

    assert (run.text, booked) == ("Done.", ["TW7"])
