"""Clients see, answer and cancel only calls of their own user, and only of served tools."""

import asyncio

import pytest
from mcp import MCPError

from surehand import Done, Pending, Runtime, tool
from tests.gateway.mcp.raw_client import ACCEPT, FORMS, WITH_TASKS, RawClient, accepted, raw_client
from tests.gateway.mcp.tasks.test_task_handlers import Mill


class Till:
    """Pays once somebody agrees."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(effects={"write"}, confirm=True)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return "paid"

        self.tool = pay


@tool(effects={"read"})
async def look() -> str:
    """Look."""
    return "seen"


async def is_unknown(client: RawClient, task_id: str) -> bool:
    """To all that one can do with a task."""
    told = []
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        answers = {"inputResponses": {"approve-1": accepted(always=True)}} if method == "tasks/update" else {}
        try:
            told.append(await client.ask(method, taskId=task_id, **answers))
        except MCPError as error:
            told.append(error.code)
    return told == [-32602] * 3


@pytest.mark.parametrize("store", [None, "calls.db"])
async def test_an_anonymous_server_does_not_see_calls_of_users(tmp_path, store):
    till = Till()
    async with (
        Runtime(till.tool, store=store and tmp_path / store) as runtime,
        raw_client(runtime, WITH_TASKS) as client,
    ):
        waiting = await runtime.scope(user="ann").call("pay", {"amount": 5})
        assert await is_unknown(client, waiting.call_id)
        standing = await runtime.status(waiting.call_id)

    assert isinstance(standing.outcome, Pending)
    assert till.paid == []


async def test_the_request_state_of_another_users_call_is_unknown():
    till = Till()
    async with Runtime(till.tool) as runtime:
        async with raw_client(runtime, FORMS, user="ann") as ann:
            question = await ann.call("pay", {"amount": 5})
        async with raw_client(runtime, FORMS) as nobody:
            with pytest.raises(MCPError, match="requestState"):
                await nobody.answer(question, "pay", ACCEPT, {"amount": 5})

    assert till.paid == []


async def test_a_server_without_a_user_keeps_its_own_calls():
    till = Till()
    async with Runtime(till.tool) as runtime, raw_client(runtime, WITH_TASKS) as client:
        waiting = await runtime.call("pay", {"amount": 5})
        task = await client.ask("tasks/get", taskId=waiting.call_id)
        await client.ask("tasks/update", taskId=waiting.call_id, inputResponses={"approve-1": ACCEPT})
        await client.task(waiting.call_id, "completed")

    assert task["status"] == "input_required"
    assert till.paid == [5]


async def test_calls_of_tools_that_are_not_served_are_unknown():
    till = Till()
    runtime = Runtime(till.tool, look)
    runtime.catalogue.toolset("safe", "look")
    async with runtime, raw_client(runtime, WITH_TASKS, toolset="safe") as client:
        waiting = await runtime.call("pay", {"amount": 5})
        assert await is_unknown(client, waiting.call_id)

    assert till.paid == []


@pytest.mark.parametrize("hidden", [{"audience": "user"}, {"listed": False}])
async def test_calls_of_tools_that_no_model_is_shown_are_unknown(hidden):
    @tool(effects={"write"}, confirm=True, **hidden)
    async def secret() -> str:
        """Not for models."""
        return "done"

    async with Runtime(secret, look) as runtime, raw_client(runtime, WITH_TASKS) as client:
        waiting = await runtime.dispatch("secret")
        assert isinstance(waiting, Pending)
        assert await is_unknown(client, waiting.call_id)


async def test_a_task_whose_tool_has_gone_is_still_known():
    mill = Mill()
    runtime = Runtime(mill.tool)
    async with runtime, raw_client(runtime, WITH_TASKS) as client:
        task_id = (await client.call("grind"))["taskId"]
        mill.may_end.set()
        await client.task(task_id, "completed")
        runtime.catalogue.remove("grind")
        task = await client.ask("tasks/get", taskId=task_id)

    assert task["status"] == "completed"


@pytest.mark.parametrize("store", [None, "calls.db"])
@pytest.mark.parametrize("call_id", ["job-7", "ann@example.com", "7@" + "0" * 36, "@"])
async def test_asking_about_a_call_that_is_no_task_does_not_end_it(tmp_path, store, call_id):
    mill = Mill()
    async with (
        Runtime(mill.tool, store=store and tmp_path / store) as runtime,
        raw_client(runtime, WITH_TASKS) as client,
    ):
        calling = asyncio.create_task(runtime.call("grind", call_id=call_id))
        await mill.runs.wait()
        working = await client.ask("tasks/get", taskId=call_id)
        mill.may_end.set()
        outcome = await calling
        done = await client.task(call_id, "completed")

    assert working["status"] == "working"
    assert outcome == Done("ground corn")
    assert done["result"]["content"] == [{"type": "text", "text": "ground corn"}]


async def test_asking_about_a_call_that_runs_here_does_not_end_it_whatever_its_id():
    mill = Mill()
    async with Runtime(mill.tool) as runtime, raw_client(runtime, WITH_TASKS) as client:
        call_id = f"{'1' * 36}@{'2' * 36}"
        calling = asyncio.create_task(runtime.call("grind", call_id=call_id))
        await mill.runs.wait()
        working = await client.ask("tasks/get", taskId=call_id)
        mill.may_end.set()
        outcome = await calling

    assert working["status"] == "working"
    assert outcome == Done("ground corn")
