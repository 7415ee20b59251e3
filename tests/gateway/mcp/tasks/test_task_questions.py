"""Answers to tasks that are malformed, that fail, or that are too large to store."""

from typing import Any

import pytest
from mcp import MCPError

from surehand import Runtime
from surehand.gateway.mcp.tasks.call_watcher import CallWatcher
from surehand.runtime.scope import Scope
from tests.gateway.mcp.raw_client import ACCEPT, WITH_TASKS, accepted, eventually, raw_client
from tests.gateway.mcp.test_call_ownership import Till
from tests.gateway.mcp.test_elicitation import Clerk, form


@pytest.mark.parametrize("content", [[1], "x", 5, True])
async def test_content_that_is_not_an_object_is_ignored(content, caplog):
    till = Till()
    async with Runtime(till.tool) as runtime, raw_client(runtime, WITH_TASKS) as client:
        task_id = (await runtime.call("pay", {"amount": 5})).call_id
        wrong: Any = {"action": "accept", "content": content}
        await client.ask("tasks/update", taskId=task_id, inputResponses={"approve-1": wrong})
        asked = await client.ask("tasks/get", taskId=task_id)
        await client.ask("tasks/update", taskId=task_id, inputResponses={"approve-1": ACCEPT})
        await client.task(task_id, "completed")

    assert list(asked["inputRequests"]) == ["approve-1"]
    assert till.paid == [5]
    assert not caplog.records


@pytest.mark.parametrize("given", [{"action": "accept"}, {"action": "accept", "content": None}])
async def test_an_answer_needs_no_content(given):
    till = Till()
    async with Runtime(till.tool) as runtime, raw_client(runtime, WITH_TASKS) as client:
        task_id = (await runtime.call("pay", {"amount": 5})).call_id
        await client.ask("tasks/update", taskId=task_id, inputResponses={"approve-1": given})
        await client.task(task_id, "completed")

    assert till.paid == [5]


async def test_a_question_whose_answer_broke_something_is_asked_again(monkeypatch):
    till, approve = Till(), Scope.approve

    async def breaks(*given: Any, **more: Any) -> Any:
        raise RuntimeError("out of order")

    async with Runtime(till.tool) as runtime, raw_client(runtime, WITH_TASKS) as client:
        task_id = (await runtime.call("pay", {"amount": 5})).call_id
        monkeypatch.setattr(Scope, "approve", breaks)
        await client.ask("tasks/update", taskId=task_id, inputResponses={"approve-1": ACCEPT})
        asked = await client.task(task_id, "input_required")
        monkeypatch.setattr(Scope, "approve", approve)
        await client.ask("tasks/update", taskId=task_id, inputResponses={"approve-1": ACCEPT})
        await client.task(task_id, "completed")

    assert list(asked["inputRequests"]) == ["approve-1"]
    assert till.paid == [5]


async def test_answers_that_are_too_large_to_be_kept_are_refused():
    several = {"mode": "several", "requests": {"first": form(), "second": form()}}
    async with Runtime(Clerk(several)) as runtime, raw_client(runtime, WITH_TASKS) as client:
        task_id = (await runtime.call("clerk__ask")).call_id
        large = accepted(name="x" * 70_000)
        with pytest.raises(MCPError) as error:
            await client.ask("tasks/update", taskId=task_id, inputResponses={"first-1": large})
        asked = await client.ask("tasks/get", taskId=task_id)
        await client.ask("tasks/update", taskId=task_id, inputResponses={"first-1": large, "second-1": ACCEPT})
        done = await client.task(task_id, "completed")

    assert error.value.code == -32602
    assert list(asked["inputRequests"]) == ["first-1", "second-1"]
    assert done["result"]["structuredContent"]["heard"] == [{"first": large, "second": ACCEPT}]


async def test_waiting_for_an_unknown_call_leaves_no_state():
    runtime = Runtime(Till().tool)
    async with runtime:
        watch, before = CallWatcher(runtime), runtime._parts.listeners.callbacks
        with watch.watch():
            pass
        with watch.watch("a") as signal, watch.watch():
            watch.notify("a")
            assert await signal.wait() == ["a"]
        assert runtime._parts.listeners.callbacks == before


async def test_a_stream_that_names_only_unknown_tasks_leaves_nothing_behind():
    async with Runtime(Till().tool) as runtime, raw_client(runtime, WITH_TASKS) as client:
        await client.ask("tools/list")
        before = runtime._parts.listeners.callbacks
        number, _ = await client.begin("subscriptions/listen", notifications={"taskIds": ["none"]})
        await client.next_notification("notifications/subscriptions/acknowledged")
        await client.cancel(number)
        await eventually(lambda: runtime._parts.listeners.callbacks == before)
