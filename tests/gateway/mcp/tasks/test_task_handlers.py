"""The tasks extension: calls that run without the request that started them."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import httpx2
import pytest
from mcp import MCPError

from surehand import Context, Runtime, Store, Tool, ToolError, gateway, tool
from surehand.store.retention import Retention
from surehand.testing import ManualClock
from tests.conformance.own_http import serve_app
from tests.gateway.mcp.raw_client import (
    ACCEPT,
    CANCEL,
    DECLINE,
    FORMS,
    TASKS,
    WITH_TASKS,
    RawClient,
    accepted,
    eventually,
    raw_client,
    text_of,
)
from tests.gateway.mcp.sdk_clients import HANDSHAKE, MODERN, sdk_client, within
from tests.gateway.mcp.test_elicitation import NAME, Clerk, Till, form

ONLY_TASKS = {"extensions": {TASKS: {}}}


def can(support: str) -> dict[str, Any]:
    return {"mcp": {"execution": {"taskSupport": support}}}


class Mill:
    """A tool that works until it is let go."""

    def __init__(self, support: str = "optional", effects: str = "read", **more: Any) -> None:
        self.runs, self.may_end, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.count = 0

        @tool(effects={effects}, timeout="off", provider_options=can(support), **more)
        async def grind(what: str = "corn") -> str:
            """Grind something."""
            self.count += 1
            self.runs.set()
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return f"ground {what}"

        self.tool = grind


@tool(effects={"read"}, provider_options=can("optional"))
async def quick() -> str:
    """Be quick."""
    return "done"


def refused(error: Any) -> tuple[int, Any]:
    return error.value.code, error.value.data


# Beginning


async def test_a_call_that_takes_long_is_a_task():
    mill = Mill()
    async with raw_client(Runtime(mill.tool), WITH_TASKS) as client:
        made = await client.call("grind", {"what": "rye"})
        working = await client.ask("tasks/get", taskId=made["taskId"])
        mill.may_end.set()
        done = await client.task(made["taskId"], "completed")

    assert made["resultType"] == "task"
    assert made["status"] == working["status"] == "working"
    assert {"createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"} <= made.keys()
    assert not {"requestState", "inputRequests", "result", "error"} & made.keys()
    assert done["resultType"] == "complete"
    assert text_of(done["result"]) == "ground rye"
    assert done["createdAt"] == made["createdAt"] <= done["lastUpdatedAt"]


async def test_a_task_tells_what_it_last_reported():
    may_end = asyncio.Event()

    @tool(effects={"read"}, provider_options=can("optional"))
    async def grind(ctx: Context) -> str:
        """Grind something."""
        ctx.report("sieving")
        ctx.report("grinding", fraction=0.5)
        await may_end.wait()
        return "ground"

    async with raw_client(Runtime(grind), WITH_TASKS) as client:
        made = await client.call("grind")
        working = await client.ask("tasks/get", taskId=made["taskId"])
        may_end.set()
        done = await client.task(made["taskId"], "completed")

    assert (working["status"], working["statusMessage"]) == ("working", "grinding")
    assert "statusMessage" not in done


@pytest.fixture
def patient(monkeypatch):
    """What ends at once does so however slow the machine is."""
    monkeypatch.setattr("surehand.gateway.mcp.tasks.task_handlers.IMMEDIATE_RESULT_SECONDS", 60.0)


async def test_a_call_that_ends_at_once_has_its_result(patient):
    async with raw_client(Runtime(quick), WITH_TASKS) as client:
        result = await client.call("quick")

    assert (result["resultType"], text_of(result)) == ("complete", "done")


async def test_a_tool_that_is_always_a_task_is_one_however_quick_it_is():
    mill = Mill("required")
    mill.may_end.set()
    async with raw_client(Runtime(mill.tool), WITH_TASKS) as client:
        made = await client.call("grind")
        done = await client.task(made["taskId"], "completed")

    assert (made["resultType"], text_of(done["result"])) == ("task", "ground corn")


async def test_a_client_that_knows_no_tasks_waits_for_the_result():
    mill = Mill()
    mill.may_end.set()
    async with raw_client(Runtime(mill.tool), FORMS) as client:
        assert text_of(await client.call("grind")) == "ground corn"


async def test_a_client_without_tasks_cannot_call_a_tool_that_requires_them():
    mill = Mill("required")
    async with raw_client(Runtime(mill.tool), FORMS) as client:
        with pytest.raises(MCPError) as error:
            await client.call("grind")

    assert refused(error) == (-32021, {"requiredCapabilities": {"extensions": {TASKS: {}}}})
    assert mill.count == 0


@pytest.mark.parametrize("support", ["optional", "required"])
async def test_in_the_handshake_protocol_clients_wait_for_the_result(support):
    mill = Mill(support)
    mill.may_end.set()
    async with sdk_client(Runtime(mill.tool), HANDSHAKE) as client:
        result = await client.call_tool("grind")
        assert client.server_capabilities.tasks is None
        assert not client.server_capabilities.extensions

    assert result.content[0].text == "ground corn"


async def test_a_tool_without_task_support_is_no_task():
    @tool(effects={"read"})
    async def nap() -> str:
        """Sleep for longer than a task would take to begin."""
        await asyncio.sleep(0.1)
        return "rested"

    async with raw_client(Runtime(nap), WITH_TASKS) as client:
        assert text_of(await client.call("nap")) == "rested"


async def test_a_question_that_the_client_cannot_ask_becomes_a_task_that_is_answered_elsewhere():
    till = Till()
    async with Runtime(till.tool) as runtime, raw_client(runtime, ONLY_TASKS) as client:
        made = await client.call("pay", {"amount": 5})
        [waiting] = await runtime.pending()
        working = await client.ask("tasks/get", taskId=made["taskId"])
        await runtime.approve(waiting.call_id)
        done = await client.task(made["taskId"], "completed")

    assert (made["resultType"], made["taskId"], made["statusMessage"]) == ("task", waiting.call_id, "Pay?")
    assert working["status"] == "working"
    assert text_of(done["result"]) == "paid 5"


async def test_a_caller_who_leaves_before_it_knows_the_task_ends_it(patient):
    mill = Mill()
    async with Runtime(mill.tool) as runtime, raw_client(runtime, WITH_TASKS) as client:
        number, _ = await client.begin("tools/call", name="grind", arguments={})
        await mill.runs.wait()
        await client.cancel(number)
        async with within():
            await mill.stopped.wait()


async def test_a_caller_who_leaves_before_it_knows_the_task_leaves_room_for_the_next(monkeypatch, patient):
    monkeypatch.setattr("surehand.gateway.mcp.tasks.retention.MAX_RETAINED_TASKS", 1)
    left, must = Mill(), Mill("required", name="must")
    must.may_end.set()
    async with Runtime(left.tool, must.tool) as runtime:
        server = gateway.mcp.server(runtime)
        async with raw_client(server, WITH_TASKS) as client:
            number, _ = await client.begin("tools/call", name="grind", arguments={})
            await left.runs.wait()
            await client.cancel(number)
            await eventually(
                lambda: not len(server.task_handlers.running_tasks) and not runtime._calls.load().ledger.retained_calls
            )
            made = await client.call("must")

    assert made["resultType"] == "task"


async def test_a_caller_who_leaves_once_it_knows_the_task_does_not_end_it():
    mill = Mill()
    async with Runtime(mill.tool) as runtime:
        server = gateway.mcp.server(runtime)
        async with raw_client(server, WITH_TASKS) as client:
            made = await client.call("grind")
        mill.may_end.set()
        async with raw_client(server, WITH_TASKS) as client:
            assert (await client.task(made["taskId"], "completed"))["status"] == "completed"


# How it ends


def ending(raised: Exception | None, **more: Any) -> Tool[..., Any]:
    @tool(effects={"write"}, provider_options=can("required"), **more)
    async def end() -> str:
        """End in some way."""
        if raised is not None:
            raise raised
        await asyncio.sleep(60)
        return ""

    return end


async def test_a_tool_error_is_an_error_result():
    async with raw_client(Runtime(ending(ToolError("no more corn"))), WITH_TASKS) as client:
        task = await client.task((await client.call("end"))["taskId"], "completed")

    assert (task["result"]["isError"], text_of(task["result"])) == (True, "no more corn")
    assert "error" not in task


async def test_a_tool_that_breaks_has_failed():
    async with raw_client(Runtime(ending(RuntimeError("wheel is off"))), WITH_TASKS) as client:
        task = await client.task((await client.call("end"))["taskId"], "failed")

    assert task["error"]["code"] == -32603
    assert "Traceback" not in task["error"]["message"]
    assert "result" not in task


async def test_a_tool_that_runs_out_of_time_says_so_in_its_result():
    async with raw_client(Runtime(ending(None, timeout=0.1)), WITH_TASKS) as client:
        task = await client.task((await client.call("end"))["taskId"], "completed")

    assert task["result"]["_meta"]["surehand/code"] == "timed_out"


async def test_arguments_that_do_not_fit_need_no_task(patient):
    async with raw_client(Runtime(Mill("required").tool), WITH_TASKS) as client:
        result = await client.call("grind", {"what": []})

    assert (result["resultType"], result["isError"]) == ("complete", True)


@pytest.mark.parametrize("effects", ["read", "write"])
@pytest.mark.parametrize("store", [None, "calls.db"])
async def test_a_task_that_runs_can_be_cancelled_and_stays_so(tmp_path, effects, store):
    mill = Mill(effects=effects)
    kept = None if store is None else tmp_path / store
    async with raw_client(Runtime(mill.tool, store=kept), WITH_TASKS) as client:
        task_id = (await client.call("grind"))["taskId"]
        acks = [await client.ask("tasks/cancel", taskId=task_id) for _ in range(2)]
        task = await client.task(task_id, "cancelled")
        acks.append(await client.ask("tasks/cancel", taskId=task_id))
        async with within():
            await mill.stopped.wait()

    assert [ack.keys() - {"_meta"} for ack in acks] == [{"resultType"}] * 3
    assert not {"result", "error"} & task.keys()
    if kept is not None:
        async with raw_client(Runtime(Mill().tool, store=kept), WITH_TASKS) as client:
            assert (await client.ask("tasks/get", taskId=task_id))["status"] == "cancelled"


async def test_a_task_that_waits_can_be_cancelled():
    async with raw_client(Runtime(asking(form())), WITH_TASKS) as client:
        task_id = (await client.call("clerk__ask"))["taskId"]
        await client.ask("tasks/cancel", taskId=task_id)
        task = await client.ask("tasks/get", taskId=task_id)
        await client.ask("tasks/update", taskId=task_id, inputResponses={"answer-1": ACCEPT})

    assert task["status"] == "cancelled"


async def test_a_task_that_has_ended_cannot_be_cancelled():
    mill = Mill("required")
    mill.may_end.set()
    async with raw_client(Runtime(mill.tool), WITH_TASKS) as client:
        task_id = (await client.call("grind"))["taskId"]
        before = await client.task(task_id, "completed")
        await client.ask("tasks/cancel", taskId=task_id)
        assert await client.ask("tasks/get", taskId=task_id) == before


# Questions


def asking(*rounds: Any, support: str = "optional") -> Clerk:
    class Asking(Clerk):
        async def tools(self) -> list[Tool[..., Any]]:
            [made] = await super().tools()
            return [tool.provided(made.name, "Ask.", effects={"read"}, provider_options=can(support))]

    return Asking(*rounds)


async def asked(client: RawClient, tool_name: str = "clerk__ask") -> tuple[str, dict[str, Any]]:
    made = await client.call(tool_name)
    task = await client.task(made["taskId"], "input_required")
    return made["taskId"], task["inputRequests"]


async def test_a_task_asks_and_goes_on_with_the_answer():
    async with raw_client(Runtime(asking(form())), WITH_TASKS) as client:
        task_id, requests = await asked(client)
        [(key, request)] = requests.items()
        ack = await client.ask("tasks/update", taskId=task_id, inputResponses={key: accepted(name="Ann")})
        task = await client.task(task_id, "completed")

    assert request["method"] == "elicitation/create"
    assert request["params"]["requestedSchema"]["properties"] == NAME["properties"]
    assert ack.keys() - {"_meta"} == {"resultType"}
    assert task["result"]["structuredContent"]["heard"] == [accepted(name="Ann")]


async def test_some_answers_may_come_first_and_strange_ones_are_ignored():
    several = {"mode": "several", "requests": {"first": form(), "second": form()}}
    async with raw_client(Runtime(asking(several)), WITH_TASKS) as client:
        task_id, requests = await asked(client)
        first, second = requests
        for given in (
            {"strange": {"ignored": True}, "other": ACCEPT},
            {first: ACCEPT},
            {first: DECLINE},
            {second: "no answer"},
        ):
            await client.ask("tasks/update", taskId=task_id, inputResponses=given)
        left = await client.ask("tasks/get", taskId=task_id)
        await client.ask("tasks/update", taskId=task_id, inputResponses={second: DECLINE})
        task = await client.task(task_id, "completed")

    assert (left["status"], list(left["inputRequests"])) == ("input_required", [second])
    assert task["result"]["structuredContent"]["heard"] == [{"first": ACCEPT, "second": DECLINE}]


async def test_no_two_questions_of_a_task_have_a_key_in_common():
    async with raw_client(Runtime(asking(form(), form())), WITH_TASKS) as client:
        task_id, first = await asked(client)
        late = dict.fromkeys(first, accepted(name="Ann"))
        await client.ask("tasks/update", taskId=task_id, inputResponses=late)
        second = (await client.task(task_id, "input_required"))["inputRequests"]
        await client.ask("tasks/update", taskId=task_id, inputResponses=late)  # to the first, once more
        still = await client.ask("tasks/get", taskId=task_id)
        await client.ask("tasks/update", taskId=task_id, inputResponses=dict.fromkeys(second, accepted(name="Bob")))
        task = await client.task(task_id, "completed")

    assert not first.keys() & second.keys()
    assert still["inputRequests"] == second
    assert task["result"]["structuredContent"]["heard"] == [accepted(name="Ann"), accepted(name="Bob")]


async def test_values_that_do_not_fit_are_asked_for_under_another_key():
    async with raw_client(Runtime(asking(NAME)), WITH_TASKS) as client:
        task_id, first = await asked(client)
        await client.ask("tasks/update", taskId=task_id, inputResponses=dict.fromkeys(first, accepted(name=5)))
        second = (await client.task(task_id, "input_required"))["inputRequests"]
        await client.ask("tasks/update", taskId=task_id, inputResponses=dict.fromkeys(second, accepted(name="Ann")))
        task = await client.task(task_id, "completed")

    assert not first.keys() & second.keys()
    assert task["result"]["structuredContent"]["heard"] == [{"name": "Ann"}]


async def test_a_task_asks_for_the_approval_of_its_call():
    mill = Mill("optional", "write", confirm=True)
    async with Runtime(mill.tool) as runtime, raw_client(runtime, WITH_TASKS) as client:
        task_id, requests = await asked(client, "grind")
        [key] = requests
        await client.ask("tasks/update", taskId=task_id, inputResponses={key: CANCEL})
        task = await client.task(task_id, "input_required")
        await client.ask("tasks/update", taskId=task_id, inputResponses={key: ACCEPT})
        await mill.runs.wait()
        working = await client.ask("tasks/get", taskId=task_id)
        mill.may_end.set()
        done = await client.task(task_id, "completed")

    assert (list(task["inputRequests"]), working["status"], done["status"]) == ([key], "working", "completed")
    assert mill.count == 1


async def test_a_tool_that_requires_tasks_becomes_a_task_after_its_first_answer(patient):
    async with raw_client(
        Runtime(asking({"mode": "several", "requests": {"who": form()}}, support="required")), WITH_TASKS
    ) as client:
        asks = await client.call("clerk__ask")
        made = await client.answer(asks, "clerk__ask", accepted(name="Ann"))
        task = await client.task(made["taskId"], "completed")

    assert (asks["resultType"], list(asks["inputRequests"])) == ("input_required", ["who"])
    assert "taskId" not in asks
    assert made["resultType"] == "task"
    assert not {"requestState", "inputRequests"} & made.keys()
    assert task["result"]["structuredContent"]["heard"] == [{"who": accepted(name="Ann")}]


async def test_a_tool_that_requires_tasks_is_a_pending_task_after_a_cancelled_dialog(patient):
    mill = Mill("required", "write", confirm=True)
    mill.may_end.set()
    async with Runtime(mill.tool) as runtime, raw_client(runtime, WITH_TASKS) as client:
        asks = await client.call("grind")
        made = await client.answer(asks, "grind", CANCEL)
        await runtime.approve(made["taskId"])
        done = await client.task(made["taskId"], "completed")

    assert (made["resultType"], made["status"], mill.count) == ("task", "input_required", 1)
    assert text_of(done["result"]) == "ground corn"


# Whose it is


async def test_tasks_of_other_users_are_unknown():
    mill = Mill()
    async with Runtime(mill.tool) as runtime, raw_client(runtime, WITH_TASKS, user="ann") as ann:
        task_id = (await ann.call("grind"))["taskId"]
        async with raw_client(runtime, WITH_TASKS, user="bob") as bob:
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                told = []
                for each in (task_id, "no such task", "\x00", "x" * 200):
                    with pytest.raises(MCPError) as error:
                        await bob.ask(method, taskId=each, inputResponses={})
                    told.append((error.value.code, error.value.message))
                assert set(told) == {(-32602, "There is no such task, or it is no longer remembered.")}
        assert (await ann.ask("tasks/get", taskId=task_id))["status"] == "working"
        assert not mill.stopped.is_set()


async def test_a_client_without_the_extension_gets_the_required_capability():
    async with raw_client(Runtime(quick), FORMS) as client:
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(MCPError) as error:
                await client.ask(method, taskId="any", inputResponses={})
            assert refused(error) == (-32021, {"requiredCapabilities": {"extensions": {TASKS: {}}}})


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_there_are_no_other_methods(method):
    async with raw_client(Runtime(quick), WITH_TASKS) as client:
        with pytest.raises(MCPError) as error:
            await client.ask(method, taskId="any")

    assert error.value.code == -32601


# What is remembered


async def test_a_task_outlives_the_server_that_began_it(tmp_path):
    store, mill = tmp_path / "calls.db", Mill("required")
    mill.may_end.set()
    async with raw_client(Runtime(mill.tool, asking(form()), store=store), WITH_TASKS) as client:
        done = (await client.call("grind"))["taskId"]
        await client.task(done, "completed")
        waiting, requests = await asked(client)

    async with raw_client(Runtime(mill.tool, asking(form()), store=store), WITH_TASKS) as client:
        assert text_of((await client.ask("tasks/get", taskId=done))["result"]) == "ground corn"
        assert (await client.ask("tasks/get", taskId=waiting))["inputRequests"] == requests
        await client.ask("tasks/update", taskId=waiting, inputResponses=dict.fromkeys(requests, accepted(name="Ann")))
        assert (await client.task(waiting, "completed"))["result"]["structuredContent"]["heard"] == [
            accepted(name="Ann")
        ]


async def test_answers_that_came_first_outlive_the_server_as_well(tmp_path):
    several, store = {"mode": "several", "requests": {"first": form(), "second": form()}}, tmp_path / "calls.db"
    async with raw_client(Runtime(asking(several), store=store), WITH_TASKS) as client:
        task_id, (first, second) = await asked(client)
        await client.ask("tasks/update", taskId=task_id, inputResponses={second: DECLINE})

    async with raw_client(Runtime(asking(several), store=store), WITH_TASKS) as client:
        left = await client.ask("tasks/get", taskId=task_id)
        await client.ask("tasks/update", taskId=task_id, inputResponses={first: ACCEPT})
        task = await client.task(task_id, "completed")

    assert list(left["inputRequests"]) == [first]
    assert task["result"]["structuredContent"]["heard"] == [{"first": ACCEPT, "second": DECLINE}]


async def test_answers_that_come_at_the_same_moment_all_count():
    keys = [str(number) for number in range(8)]
    several = {"mode": "several", "requests": {key: form() for key in keys}}
    async with raw_client(Runtime(asking(several)), WITH_TASKS) as client:
        task_id, requests = await asked(client)
        updates = [client.ask("tasks/update", taskId=task_id, inputResponses={key: ACCEPT}) for key in requests]
        await asyncio.gather(*updates)
        task = await client.task(task_id, "completed")

    assert task["result"]["structuredContent"]["heard"] == [dict.fromkeys(keys, ACCEPT)]


@pytest.mark.parametrize("effects", ["read", "write"])
async def test_a_task_that_ran_when_the_server_stopped_is_failed(tmp_path, effects):
    store = tmp_path / "calls.db"
    async with raw_client(Runtime(Mill(effects=effects).tool, store=store), WITH_TASKS) as client:
        task_id = (await client.call("grind"))["taskId"]

    async with raw_client(Runtime(Mill(effects=effects).tool, store=store), WITH_TASKS) as client:
        task = await client.ask("tasks/get", taskId=task_id)

    assert task["status"] == "cancelled"
    assert "grind was cancelled" in task["statusMessage"]


KILLED = """
import asyncio, sys
from surehand import Runtime, tool
from surehand.core.ids import new_id

async def grind(what: str = "corn") -> str:
    "Grind something."
    await asyncio.sleep(60)

async def main():
    tools = [tool(effects={"read"})(grind), *(tool(effects={"write"}, name=each)(grind) for each in ("write", "check"))]
    async with Runtime(*tools, store=sys.argv[1]) as runtime:
        ids = {each.name: f"{new_id()}@{runtime.runtime_id}" for each in tools}
        calls = [asyncio.create_task(runtime.call(name, call_id=ids[name])) for name in ids]
        states = []
        while states != ["idle", "running", "running"]:
            states = [getattr(await runtime.status(each), "state", None) for each in ids.values()]
            await asyncio.sleep(0.01)
        print(*ids.values(), flush=True)
        await asyncio.gather(*calls)

asyncio.run(main())
"""


@pytest.mark.timeout(60)
async def test_a_task_whose_process_was_killed_is_failed(tmp_path):
    def here() -> Runtime:
        checks = Mill(effects="write", name="check", verify=lambda arguments, context: "found out")
        return Runtime(Mill().tool, Mill(effects="write", name="write").tool, checks.tool, store=tmp_path / "calls.db")

    command = [sys.executable, "-c", KILLED, str(tmp_path / "calls.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ids = (await asyncio.to_thread(process.stdout.readline)).split()
        async with raw_client(here(), WITH_TASKS) as client:
            before = [(await client.ask("tasks/get", taskId=each))["status"] for each in ids]
        process.kill()

    async with raw_client(here(), WITH_TASKS) as client:
        lost, unknown, checked = [await client.task(each, "failed", "completed") for each in ids]

    assert before == ["working"] * 3
    assert lost["error"]["code"] == -32603
    assert "interrupted" in lost["error"]["message"]
    assert unknown["result"]["_meta"]["surehand/code"] == "unknown_effect"
    assert text_of(checked["result"]) == "found out"


async def test_a_task_says_how_long_it_is_remembered(tmp_path):
    for kept, told in ((None, None), (7 * 86_400.0, 7 * 86_400_000)):
        opening = Store.open(tmp_path / f"{told}.db", retention=Retention(calls=kept))
        async with opening as store, raw_client(Runtime(Mill().tool, store=store), WITH_TASKS) as client:
            assert (await client.call("grind"))["ttlMs"] == told
    async with raw_client(Runtime(Mill().tool), WITH_TASKS) as client:
        assert (await client.call("grind"))["ttlMs"] == 600_000


async def test_without_a_store_tasks_are_remembered_for_less_when_there_are_many(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.tasks.retention.MAX_RETAINED_TASKS", 4)
    async with raw_client(Runtime(Mill().tool), WITH_TASKS) as client:
        told = [(await client.call("grind"))["ttlMs"] for _ in range(4)]

    assert told == [600_000, 600_000, 600_000, 300_000]


TTL = 600 + 60
"""Seconds after which a task is not remembered, and a little more."""


def large(size: int = 60_000) -> Tool[..., Any]:
    @tool(effects={"read"}, max_bytes=size * 2, provider_options=can("required"))
    async def give() -> str:
        """Give much."""
        return "x" * size

    return give


async def test_without_a_store_an_unfetched_result_is_deleted_after_its_ttl():
    clock = ManualClock()
    async with Runtime(large(), clock=clock) as runtime, raw_client(runtime, WITH_TASKS) as client:
        task_id = (await client.call("give"))["taskId"]
        before = await runtime.status(task_id)
        await clock.advance(TTL)
        after = await runtime.status(task_id)

    assert before.outcome.data == "x" * 60_000
    assert after is None


async def test_without_a_store_a_task_that_outlives_its_time_is_forgotten_after_its_end():
    clock, mill = ManualClock(), Mill()
    async with Runtime(mill.tool, clock=clock) as runtime, raw_client(runtime, WITH_TASKS) as client:
        task_id = (await client.call("grind"))["taskId"]
        await clock.advance(TTL)
        mill.may_end.set()
        done = await client.task(task_id, "completed")
        await clock.advance(TTL)
        after = await runtime.status(task_id)

    assert text_of(done["result"]) == "ground corn"
    assert after is None


async def test_without_a_store_unfetched_results_have_a_limit_of_bytes(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.tasks.retention.MAX_RETAINED_BYTES_PER_USER", 100_000)
    clock = ManualClock()
    async with Runtime(large(), clock=clock) as runtime, raw_client(runtime, WITH_TASKS) as client:
        for _ in range(2):
            await client.call("give")
        with pytest.raises(MCPError) as error:
            await client.call("give")
        await clock.advance(TTL)
        again = await client.call("give")

    assert "Too many tasks" in error.value.message
    assert again["resultType"] == "task"


async def test_tasks_from_before_the_runtime_closed_expire(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.tasks.retention.MAX_RETAINED_TASKS", 1)
    clock = ManualClock()
    server = gateway.mcp.server(Runtime(large(), clock=clock))
    async with raw_client(server, WITH_TASKS) as client:
        await client.call("give")
    await clock.advance(TTL)
    async with raw_client(server, WITH_TASKS) as client:
        again = await client.call("give")

    assert again["resultType"] == "task"


async def test_a_result_in_place_of_a_task_is_not_kept():
    async with Runtime(quick) as runtime, raw_client(runtime, WITH_TASKS) as client:
        results = [await client.call("quick") for _ in range(5)]
        kept = await runtime.store.database.read("SELECT call_id FROM ledger", {})

    assert [text_of(each) for each in results] == ["done"] * 5
    assert kept == []


async def test_unfetched_tasks_leave_no_state_in_the_server():
    several = {"mode": "several", "requests": {"first": form(), "second": form()}}
    async with Runtime(asking(several), Mill().tool, quick) as runtime:
        server = gateway.mcp.server(runtime)
        async with raw_client(server, WITH_TASKS) as client:
            for _ in range(20):
                task_id, requests = await asked(client)
                await client.ask("tasks/update", taskId=task_id, inputResponses={next(iter(requests)): ACCEPT})
                await client.ask("tasks/cancel", taskId=task_id)
            await client.ask("tasks/cancel", taskId=(await client.call("grind"))["taskId"])
            await client.call("quick")
        tasks = server.task_handlers
        await eventually(lambda: not len(tasks.running_tasks) and not runtime._parts.listeners.callbacks)
        assert not tasks.running_tasks._count_by_user
        assert not tasks.waiter_counts
        assert not tasks.call_watcher._signals


async def test_too_many_tasks_of_one_user_are_no_tasks(monkeypatch):
    monkeypatch.setattr("surehand.gateway.mcp.tasks.running_tasks.MAX_RUNNING_TASKS_PER_USER", 2)
    mill, must = Mill(), Mill("required", name="must")
    async with Runtime(mill.tool, must.tool) as runtime:
        server = gateway.mcp.server(runtime)
        async with raw_client(server, WITH_TASKS) as client:
            made = [await client.call("grind") for _ in range(2)]
            third = asyncio.create_task(client.call("grind"))
            with pytest.raises(MCPError) as error:
                await client.call("must")
            mill.may_end.set()
            result = await third
            for each in made:
                await client.task(each["taskId"], "completed")

    assert [each["resultType"] for each in made] == ["task", "task"]
    assert text_of(result) == "ground corn"
    assert "Too many tasks" in error.value.message


async def test_the_status_of_a_task_is_read_from_one_row(tmp_path):
    mill = Mill("required")
    mill.may_end.set()
    async with Runtime(mill.tool, store=tmp_path / "calls.db") as runtime, raw_client(runtime, WITH_TASKS) as client:
        task_id = (await client.call("grind"))["taskId"]
        await client.task(task_id, "completed")
        database, read = runtime.store.database, runtime.store.database.read
        asked: list[list[str]] = []

        async def explained(sql: str, params: Any = None) -> Any:
            asked[-1].extend(row["detail"] for row in await read(f"EXPLAIN QUERY PLAN {sql}", params or {}))
            return await read(sql, params or {})

        database.read = explained
        try:
            for _ in range(5):  # the runtime itself looks at all that waits from time to time
                asked.append([])
                await client.ask("tasks/get", taskId=task_id)
        finally:
            del database.read

    assert any(plans and not [plan for plan in plans if plan.startswith("SCAN")] for plans in asked)


# Being told


async def listen(client: RawClient, *task_ids: str, **more: Any) -> dict[str, Any]:
    await client.begin("subscriptions/listen", notifications={"taskIds": list(task_ids), **more})
    return await client.next_notification("notifications/subscriptions/acknowledged")


async def test_a_subscribed_client_is_notified_of_its_tasks():
    several = {"mode": "several", "requests": {"first": form(), "second": form()}}
    async with raw_client(Runtime(asking(several), Mill().tool), WITH_TASKS) as client:
        task_id, requests = await asked(client)
        agreed = await listen(client, task_id)
        first = await client.next_notification("notifications/tasks")
        one, other = requests
        await client.ask("tasks/update", taskId=task_id, inputResponses={one: ACCEPT})
        second = await client.next_notification("notifications/tasks")
        await client.ask("tasks/update", taskId=task_id, inputResponses={other: ACCEPT})
        ended = await client.next_notification("notifications/tasks")
        while ended["status"] == "working":
            ended = await client.next_notification("notifications/tasks")
        now = await client.ask("tasks/get", taskId=task_id)

    assert agreed["notifications"]["taskIds"] == [task_id]
    number = agreed["_meta"]["io.modelcontextprotocol/subscriptionId"]
    assert (first["status"], list(first["inputRequests"])) == ("input_required", [one, other])
    assert (second["status"], list(second["inputRequests"])) == ("input_required", [other])
    assert first["_meta"]["io.modelcontextprotocol/subscriptionId"] == number
    ours = {"_meta", "resultType"}
    assert {key: value for key, value in ended.items() if key not in ours} == {
        key: value for key, value in now.items() if key not in ours
    }
    assert (ended["status"], ended["taskId"]) == ("completed", task_id)


async def test_a_client_hears_only_of_the_tasks_that_it_named_and_that_are_its_own():
    mill = Mill("required")
    async with Runtime(mill.tool) as runtime, raw_client(runtime, WITH_TASKS, user="ann") as ann:
        mine, unnamed = [(await ann.call("grind", {"what": each}))["taskId"] for each in ("rye", "oats")]
        async with raw_client(runtime, WITH_TASKS, user="bob") as bob:
            others = (await bob.call("grind"))["taskId"]
            agreed = await listen(ann, mine, others, "no such task", mine)
            mill.may_end.set()
            told = await ann.next_notification("notifications/tasks")
            for client, each in ((ann, unnamed), (bob, others)):
                await client.task(each, "completed")
            await ann.ask("tasks/cancel", taskId=mine)
            assert ann.notifications.empty()

    assert agreed["notifications"]["taskIds"] == [mine]
    assert (told["taskId"], told["status"], text_of(told["result"])) == (mine, "completed", "ground rye")


async def test_a_task_that_ended_before_the_subscription_is_notified_once():
    mill = Mill("required")
    mill.may_end.set()
    async with raw_client(Runtime(mill.tool), WITH_TASKS) as client:
        task_id = (await client.call("grind"))["taskId"]
        await client.task(task_id, "completed")
        await listen(client, task_id)
        told = await client.next_notification("notifications/tasks")
        await client.task(task_id, "completed")
        assert client.notifications.empty()

    assert told["status"] == "completed"


async def test_a_stream_over_http_tells_of_tasks_as_well():
    mill = Mill()
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN}
    meta = {f"io.modelcontextprotocol/{key}": value for key, value in _ENVELOPE.items()}

    def request(method: str, **params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta, **params}}

    async with serve_app(gateway.mcp.app(Runtime(mill.tool))) as url, httpx2.AsyncClient(headers=headers) as http:
        call = request("tools/call", name="grind", arguments={})
        made = await http.post(url, json=call, headers={"Mcp-Method": "tools/call", "Mcp-Name": "grind"})
        listen = request("subscriptions/listen", notifications={"taskIds": [made.json()["result"]["taskId"]]})
        sent = http.stream("POST", url, json=listen, headers={"Mcp-Method": "subscriptions/listen"})
        async with within(), sent as stream:
            told = (json.loads(line[5:]) async for line in stream.aiter_lines() if line.startswith("data: {"))
            agreed = await anext(told)
            mill.may_end.set()
            ended = await anext(told)

    assert agreed["params"]["notifications"]["taskIds"] == [made.json()["result"]["taskId"]]
    assert (ended["method"], ended["params"]["status"]) == ("notifications/tasks", "completed")


_ENVELOPE = {
    "protocolVersion": MODERN,
    "clientInfo": {"name": "bare", "version": "1"},
    "clientCapabilities": WITH_TASKS,
}


async def test_list_changes_are_sent_on_the_same_stream():
    mill = Mill()
    async with Runtime(mill.tool) as runtime, raw_client(runtime, WITH_TASKS) as client:
        task_id = (await client.call("grind"))["taskId"]
        agreed = await listen(client, task_id, toolsListChanged=True)
        await runtime.add(quick)
        await client.next_notification("notifications/tools/list_changed")
        await client.ask("tasks/cancel", taskId=task_id)
        told = await client.next_notification("notifications/tasks")

    assert agreed["notifications"] == {"toolsListChanged": True, "taskIds": [task_id]}
    assert told["status"] == "cancelled"


async def test_a_client_without_tasks_cannot_subscribe_to_them():
    async with raw_client(Runtime(quick), FORMS) as client:
        with pytest.raises(MCPError) as error:
            await client.ask("subscriptions/listen", notifications={"taskIds": []})

    assert refused(error) == (-32021, {"requiredCapabilities": {"extensions": {TASKS: {}}}})


@pytest.mark.parametrize("ids", ["all", [1], ["x"] * 101, {"a": 1}])
async def test_invalid_task_ids_are_refused(ids):
    async with raw_client(Runtime(quick), WITH_TASKS) as client:
        with pytest.raises(MCPError) as error:
            await client.ask("subscriptions/listen", notifications={"taskIds": ids})

    assert error.value.code == -32602


async def test_a_closed_stream_leaves_no_listener():
    mill = Mill()
    async with Runtime(mill.tool) as runtime:
        server = gateway.mcp.server(runtime)
        async with raw_client(server, WITH_TASKS) as client:
            task_id = (await client.call("grind"))["taskId"]
            before = runtime._parts.listeners.callbacks
            number, _ = await client.begin("subscriptions/listen", notifications={"taskIds": [task_id]})
            await client.next_notification("notifications/subscriptions/acknowledged")
            assert server.task_handlers.call_watcher._signals
            await client.cancel(number)
            await eventually(
                lambda: not server.task_handlers.call_watcher._signals and runtime._parts.listeners.callbacks == before
            )
            mill.may_end.set()
            await eventually(lambda: not runtime._parts.listeners.callbacks)


async def test_a_task_that_runs_in_another_process_is_notified_as_well(tmp_path):
    till, store = Till(), tmp_path / "calls.db"
    async with Runtime(till.tool, store=store) as runtime, raw_client(runtime, ONLY_TASKS) as client:
        task_id = (await client.call("pay", {"amount": 5}))["taskId"]
        await listen(client, task_id)
        async with Runtime(store=store) as other:
            await other.reject(task_id)
        told = await client.next_notification("notifications/tasks")

    assert (told["status"], told["result"]["isError"]) == ("completed", True)
