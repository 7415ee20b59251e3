"""A call of an agent's own tool is taken up by a process that has the agent, and left alone by every other."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import Context, Done, Pending, Runtime, Tool, tool
from surehand.runtime.scope import Scope
from surehand.testing import ManualClock
from tests.durable.bank_tools import assert_pending, pending_call_id
from tests.durable.conftest import ON_BOTH_DATABASES

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


class TravelAgent:
    """An agent with a tool of its own, and what that has booked."""

    def __init__(self) -> None:
        self.booked: list[tuple[str, str | None, str | None]] = []

    def tools(self) -> list[Tool[..., Any]]:
        @tool(effects={"write"}, confirm=True)
        async def book(flight: str, ctx: Context) -> str:
            """Book a flight."""
            self.booked.append((flight, ctx.user, ctx.agent))
            return f"Booked {flight}."

        return [book]

    def enter(self, runtime: Runtime, **principal: Any) -> Scope:
        runtime.register_scope("travel", lambda scope: scope.scope(tools=self.tools()))
        return runtime.scope(agent="travel", **principal).named_scope("travel")


@ON_BOTH_DATABASES
async def test_a_call_of_an_agents_tool_is_approved_without_the_agent_and_runs_where_it_is(address: str) -> None:
    agent = TravelAgent()
    async with Runtime(store=address) as runtime:
        scope = agent.enter(runtime, user="ada", session="s1", turn="r1")
        call_id = pending_call_id(await scope.scope(message="m1").call("book", {"flight": "TW7"}))

    async with Runtime(store=address) as without_agent:
        approved = assert_pending(await without_agent.approve(call_id, by="bob"), "result")
        still = assert_pending(await without_agent.approve(call_id, by="bob"), "result")

    async with Runtime(store=address) as runtime:
        agent.enter(runtime)
        result = await runtime.result(call_id, timeout=25)

    assert "a tool of the agent travel, which is not here" in approved.message
    assert isinstance(still, Pending)
    assert result == Done("Booked TW7.")
    assert agent.booked == [("TW7", "ada", "travel")]


async def test_a_call_that_no_process_can_take_up_says_which_agent_is_missing(file: str) -> None:
    agent = TravelAgent()
    clock = ManualClock()
    async with Runtime(store=file, clock=clock) as runtime:
        call_id = pending_call_id(await agent.enter(runtime).call("book", {"flight": "TW7"}))

    async with Runtime(store=file, clock=clock) as without_agent:
        (open_wait,) = await without_agent.pending()
        await without_agent.approve(call_id)
        await clock.advance(60)
        (ready,) = await without_agent.pending()

    assert (open_wait.missing_agent, open_wait.agent, open_wait.waiting_for) == (None, "travel", "approval")
    assert (ready.missing_agent, ready.waiting_for) == ("travel", "result")
    assert "travel" in ready.message


async def test_a_tool_of_the_same_name_does_not_stand_in_for_that_of_an_agent(address: str) -> None:
    agent = TravelAgent()
    other = TravelAgent()
    async with Runtime(store=address) as runtime:
        call_id = pending_call_id(await agent.enter(runtime).call("book", {"flight": "TW7"}))

    async with Runtime(*other.tools(), store=address) as without_agent:
        assert_pending(await without_agent.approve(call_id), "result")

    assert other.booked == []


async def test_a_tool_of_the_runtime_runs_without_the_agent_that_called_it(address: str) -> None:
    agent = TravelAgent()
    shared = TravelAgent()
    async with Runtime(*shared.tools(), store=address) as runtime:
        runtime.register_scope("other", lambda scope: scope)
        scope = runtime.scope(agent="other").named_scope("other")
        call_id = pending_call_id(await scope.call("book", {"flight": "TW7"}))

    async with Runtime(*shared.tools(), store=address) as without_agent:
        assert await without_agent.approve(call_id) == Done("Booked TW7.")

    assert (agent.booked, shared.booked) == ([], [("TW7", None, "other")])


async def test_a_scope_that_was_removed_is_unknown(address: str) -> None:
    async with Runtime(store=address) as runtime:
        remove = runtime.register_scope("travel", lambda scope: scope.scope(message="first"))
        remove_newer = runtime.register_scope("travel", lambda scope: scope.scope(message="second"))
        remove()

        assert runtime.named_scope("travel").principal.message == "second"
        remove_newer()
        with pytest.raises(KeyError):
            runtime.named_scope("travel")
