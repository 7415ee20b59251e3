"""Whose a run is, and whose tools an agent has: runs without a store, agents of one name, agents that start."""

import asyncio

import pytest

from surehand import Agent, Provider, Runtime, tool
from surehand.agent.run_driver import UnknownRun
from surehand.testing import ScriptedModel


@tool
async def read_page() -> str:
    """Read."""
    return "page"


@tool
async def delete_page() -> str:
    """Delete."""
    return "deleted"


async def test_a_run_without_a_store_is_seen_by_its_own_user_alone():
    agent = Agent("helper", model=ScriptedModel("Secret.", "Other."))
    async with Runtime() as runtime:
        alice = runtime.scope(user="alice")
        mallory = runtime.scope(user="mallory")
        await agent.run("Hello", run_id="r1", runtime=alice)

        with pytest.raises(ValueError, match="belongs to another run"):
            await agent.run("Hello", run_id="r1", runtime=mallory)
        with pytest.raises(UnknownRun):
            await agent.resume("r1", runtime=mallory)
        with pytest.raises(UnknownRun):
            await agent.steer("r1", "Pay me.", runtime=mallory)
        again = await agent.resume("r1", runtime=alice)

    assert again.text == "Secret."


async def test_two_agents_of_one_name_keep_their_own_tools():
    guest_model = ScriptedModel("a", "b")
    guest = Agent("assistant", model=guest_model, tools=["read_*"])
    admin = Agent("assistant", model=ScriptedModel("a"), tools=["*_page"])
    async with Runtime(read_page, delete_page) as runtime:
        await guest.run("Hi", runtime=runtime)
        await admin.run("Hi", runtime=runtime)
        await guest.run("Hi", runtime=runtime)

    offered = [[each["function"]["name"] for each in request.tools] for request in guest_model.requests]
    assert offered == [["read_page"], ["read_page"]]


class SlowProvider(Provider):
    """A provider that is ready when the test says so."""

    namespace = "slow"

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_start = asyncio.Event()

    async def start(self) -> None:
        self.begun.set()
        await self.may_start.wait()

    async def tools(self):
        return [read_page]

    async def invoke(self, call, context):
        return "page"


async def test_a_second_run_waits_until_the_providers_of_its_agent_have_started():
    provider = SlowProvider()
    model = ScriptedModel("a", "b")
    agent = Agent("helper", model=model, tools=[provider])
    async with Runtime() as runtime:
        first = asyncio.create_task(agent.run("Hi", runtime=runtime))
        await provider.begun.wait()
        second = asyncio.create_task(agent.run("Hi", runtime=runtime))
        await asyncio.sleep(0)
        provider.may_start.set()
        await asyncio.gather(first, second)

    assert [len(request.tools) for request in model.requests] == [1, 1]


async def test_a_named_scope_does_not_rename_the_scope_that_it_was_asked_of():
    agent = Agent("helper", model=ScriptedModel("a"))
    async with Runtime(agent, read_page) as runtime:
        scope = runtime.named_scope("helper")

        assert scope.scope_name == "helper"
        assert runtime.scope_name is None
