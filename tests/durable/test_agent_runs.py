"""Two processes that resume one run of an agent: one drives it, and both get what it comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from surehand import Context, Runtime, Store, tool
from surehand.agent.agent import Agent
from surehand.agent.models.scripted import ScriptedModel
from tests.durable.bank_tools import simulate_dead_owner, wait_until
from tests.durable.conftest import ON_BOTH_DATABASES

pytestmark = pytest.mark.timeout(60)  # the first test on PostgreSQL starts the server


class Office:
    """A tool that pays, and a model that has two payments approved and then reports; both count what they did."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.requests: list[int] = []

        @tool(effects={"write"}, confirm=True)
        async def pay(amount: int) -> str:
            """Pay money."""
            self.paid.append(amount)
            return f"Paid {amount}."

        self.pay = pay

    def agent(self) -> Agent:
        """The agent as each process has it."""
        return Agent("clerk", model=ScriptedModel(*[self._reply] * 9), tools=["pay"])

    async def _reply(self, messages: list[dict[str, Any]]) -> Any:
        answers = sum(message["role"] == "assistant" for message in messages)
        self.requests.append(answers)
        await asyncio.sleep(0)  # the other process may go on here
        return [("pay", {"amount": answers + 1})] if answers < 2 else "Both are paid."


@ON_BOTH_DATABASES
async def test_of_two_processes_that_resume_a_run_one_drives_it(address: str) -> None:
    office = Office()
    async with Runtime(office.pay, store=address) as here, Runtime(office.pay, store=address) as there:
        agents = [(office.agent(), runtime) for runtime in (here, there)]
        run = await agents[0][0].run("Pay twice.", run_id="r1", runtime=here)
        while run.status == "waiting":
            for wait in run.waiting:
                await there.approve(wait.call_id)
            run, other = await asyncio.gather(*(agent.resume("r1", runtime=runtime) for agent, runtime in agents))
            assert other.id == run.id

    assert (run.status, run.text) == ("done", "Both are paid.")
    assert office.paid == [1, 2]
    assert office.requests == [0, 1, 2]


@ON_BOTH_DATABASES
async def test_a_run_that_is_started_twice_under_one_id_is_one_run(address: str) -> None:
    office = Office()
    async with Runtime(office.pay, store=address) as here, Runtime(office.pay, store=address) as there:
        first, second = await asyncio.gather(
            *(office.agent().run("Pay twice.", run_id="r1", runtime=runtime) for runtime in (here, there))
        )

    assert [first.status, second.status] == ["waiting", "waiting"]
    assert [wait.call_id for wait in first.waiting] == [wait.call_id for wait in second.waiting]
    assert office.requests == [0]


@ON_BOTH_DATABASES
async def test_an_answer_that_arrives_while_a_run_goes_to_waiting_lets_it_go_on(address: str) -> None:
    office = Office()
    agent = office.agent()
    async with Runtime(office.pay, store=address) as here, Runtime(office.pay, store=address) as there:
        answer_before_write(here, "'waiting'", lambda: approve_all(there))
        waiting = await agent.run("Pay twice.", run_id="r1", runtime=here)
        answered = await answered_runs(there)
        run = await agent.resume("r1", runtime=here)

    assert (waiting.status, waiting.reason, answered) == ("waiting", "Waiting for pay.", ["r1"])
    assert (run.status, office.paid, office.requests) == ("waiting", [1], [0, 1])


@ON_BOTH_DATABASES
async def test_a_run_goes_on_when_the_lock_of_its_dead_process_becomes_free_late(address: str) -> None:
    office = Office()
    async with Store.open(address) as dead, Runtime(office.pay, store=address) as runtime:
        await dead.database.acquire_owner_lock("dead")
        await dead.runs.begin("r1", "clerk", [{"role": "user", "content": "Pay twice."}], owner="dead")
        resuming = asyncio.create_task(office.agent().resume("r1", runtime=runtime))
        assert await dead.runs.claim("r1", owner=runtime.runtime_id) is None
        await dead.database.release_owner_lock("dead")
        run = await resuming

    assert (run.status, office.requests) == ("waiting", [0])


@ON_BOTH_DATABASES
async def test_a_run_makes_a_call_again_that_verify_finds_has_not_happened(address: str) -> None:
    is_running, may_verify, booked = asyncio.Event(), asyncio.Event(), list[str]()

    async def verify(arguments: dict[str, Any], ctx: Context) -> bool:
        await may_verify.wait()
        return False

    @tool(effects={"write"}, verify=verify)
    async def book(what: str) -> str:
        """Book a room; the first process that does so dies."""
        if not is_running.is_set():
            is_running.set()
            await asyncio.Event().wait()
        booked.append(what)
        return f"booked {what}"

    @tool(effects={"read"})
    async def look() -> str:
        """Look around."""
        return "seen"

    model = ScriptedModel([("book", {"what": "room"}), ("look", {})], "I wait.", "It is booked.")
    agent = Agent("clerk", model=model, tools=["book", "look"])
    async with Runtime(book, look, store=address) as runtime:
        interrupted = asyncio.create_task(agent.run("Book a room.", run_id="r1", runtime=runtime))
        await is_running.wait()
        await simulate_dead_owner(runtime, "r1.0.0")
        interrupted.cancel()
        await asyncio.wait([interrupted])
        assert runtime.store is not None
        await wait_until(runtime.pending)
        waiting = await agent.resume("r1", runtime=runtime)
        may_verify.set()
        answered = await wait_until(lambda: answered_runs(runtime))
        ended = await agent.resume("r1", runtime=runtime)

    assert (waiting.status, waiting.text, answered) == ("waiting", "I wait.", ["r1"])
    assert (ended.status, ended.text, booked) == ("done", "It is booked.", ["room"])


async def answered_runs(runtime: Runtime) -> list[str]:
    """The runs that a worker would go on with."""
    assert runtime.store is not None
    return [run.run_id for run in await runtime.store.runs.answered(["clerk"])]


async def approve_all(runtime: Runtime) -> None:
    for wait in await runtime.pending():
        await runtime.approve(wait.call_id)


def answer_before_write(runtime: Runtime, words: str, answer: Callable[[], Awaitable[None]]) -> None:
    """Let another process answer just before the first write of a statement with these words."""
    store: Any = runtime.store
    write, answered = store.database.write, []

    async def answer_and_write(statements: Any) -> Any:
        if not answered and any("UPDATE runs" in each.sql and words in each.sql for each in statements):
            answered.append(True)
            await answer()
        return await write(statements)

    store.database.write = answer_and_write
