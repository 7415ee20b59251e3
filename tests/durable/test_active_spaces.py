"""The space that an agent has entered is known in every process on the store, and after a restart."""

from __future__ import annotations

import pytest

from surehand import Context, Runtime, tool
from surehand.builtin.agent.spaces import spaces
from surehand.runtime.scope import Scope
from tests.durable.bank_tools import assert_done, wait_until
from tests.durable.conftest import ON_BOTH_DATABASES

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


@tool(visible=False, effects={"read"})
async def where(ctx: Context) -> str | None:
    """Tell the active space."""
    return ctx.space


def open_runtime(address: str) -> Runtime:
    return Runtime(where, spaces(), store=address)


def ada(runtime: Runtime, **principal: str) -> Scope:
    return runtime.scope(**{"agent": "ada", "user": "ann", "session": "s1", **principal})


async def create_spaces(runtime: Runtime) -> None:
    assert runtime.store is not None
    for space in ("launch", "office"):
        await runtime.store.spaces.create(space)
        await runtime.store.spaces.join(space, "ada", "agent")


async def active_space(scope: Scope) -> str | None:
    return assert_done(await scope.call("where"))


@ON_BOTH_DATABASES
async def test_an_agent_is_in_its_space_after_a_restart(address: str) -> None:
    async with open_runtime(address) as runtime:
        await create_spaces(runtime)
        assert_done(await ada(runtime).call("enter_space", {"spaceId": "launch"}))

    async with open_runtime(address) as runtime:
        found = [
            await active_space(ada(runtime)),
            await active_space(ada(runtime, turn="r1")),
            await active_space(ada(runtime, session="s2")),
            await active_space(ada(runtime, agent="bob")),
            await active_space(ada(runtime, user="eve")),
            await active_space(runtime.scope(agent="ada")),
        ]

    assert found == ["launch", "launch", None, None, None, None]


async def test_processes_that_work_at_the_same_time_follow_each_other(address: str) -> None:
    async with open_runtime(address) as here, open_runtime(address) as there:
        await create_spaces(here)
        assert_done(await ada(here).call("enter_space", {"spaceId": "launch"}))
        await wait_until(lambda: is_in(there, "launch"))  # that anyone enters a space at all is noticed later

        assert_done(await ada(there).call("enter_space", {"spaceId": "office"}))
        assert await active_space(ada(here)) == "office"
        assert_done(await ada(here).call("leave_space"))
        assert await active_space(ada(there)) is None


async def is_in(runtime: Runtime, space: str) -> bool:
    return await active_space(ada(runtime)) == space


async def test_another_space_of_the_host_counts_more_than_the_one_that_was_entered(address: str) -> None:
    async with open_runtime(address) as runtime:
        await create_spaces(runtime)
        assert_done(await ada(runtime).call("enter_space", {"spaceId": "launch"}))

    async with open_runtime(address) as runtime:
        assert await active_space(ada(runtime, space="office")) == "office"
        assert await active_space(ada(runtime)) == "launch"
