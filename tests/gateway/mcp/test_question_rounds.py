"""Which question an answer counts for, if a call asks several and several clients may answer."""

import asyncio
from typing import Any

import pytest
from mcp_types import ElicitResult, Implementation

from surehand import Context, Pending, Provider, Runtime, Tool, tool
from surehand.runtime.scope import Scope
from tests.gateway.mcp.raw_client import ACCEPT, DECLINE, FORMS, WITH_TASKS, raw_client
from tests.gateway.mcp.sdk_clients import ERAS, HANDSHAKE, sdk_client, within


def asks(message: str) -> dict[str, Any]:
    return {"mode": "form", "message": message, "schema": {"type": "object", "properties": {}}}


class Cleaner(Provider):
    """Asks before it deletes each of these."""

    namespace = "disk"

    def __init__(self, support: str = "forbidden") -> None:
        self.deleted, self._support = list[str](), support

    async def tools(self) -> list[Tool[..., Any]]:
        shown = {"mcp": {"execution": {"taskSupport": self._support}}}
        return [tool.provided("clean", "Delete files.", effects={"write"}, provider_options=shown)]

    async def invoke(self, call: Any, context: Context) -> Any:
        return self._ask("A")

    async def resume(self, call: Any, state: Any, answer: Any, context: Any) -> Any:
        if answer["action"] == "accept":
            self.deleted.append(state)
        return self._ask("B") if state == "A" else {"deleted": self.deleted}

    def _ask(self, file: str) -> Pending:
        return Pending("input", message=f"Delete {file}?", request=asks(f"Delete {file}?"), state=file)


@pytest.mark.parametrize("is_here", [True, False])
async def test_an_approval_after_a_rejection_elsewhere_does_not_answer_the_next_question(tmp_path, is_here):
    disks, shown = (Cleaner(), Cleaner()), list[str]()
    runtime, there = (Runtime(disk, store=tmp_path / "calls.db") for disk in disks)
    other = runtime if is_here else there

    async def person(context: Any, params: Any) -> ElicitResult:
        shown.append(params.message)
        if len(shown) == 1:
            [waiting] = await other.pending()
            await other.settle(waiting.call_id, {"action": "decline"})
            return ElicitResult(action="accept", content={})
        return ElicitResult(action="decline")

    async with within(), runtime, there, sdk_client(runtime, HANDSHAKE, elicitation_callback=person) as client:
        await client.call_tool("disk__clean")

    assert shown == ["Delete A?", "Delete B?"]
    assert [disk.deleted for disk in disks] == [[], []]


async def answered_before(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else says no to the first question in the very moment in which an answer of this scope comes."""
    settle, came = Scope.settle, asyncio.Event()

    async def late(self: Scope, call_id: str, *given: Any, **more: Any) -> Any:
        if not came.is_set():
            came.set()
            await settle(scope, call_id, {"action": "decline"})
        return await settle(self, call_id, *given, **more)

    monkeypatch.setattr(Scope, "settle", late)


async def test_a_late_answer_in_the_modern_protocol_gets_the_open_question(monkeypatch):
    disk = Cleaner()
    async with Runtime(disk) as runtime, raw_client(runtime, FORMS) as client:
        first = await client.call("disk__clean")
        await answered_before(runtime, monkeypatch)
        second = await client.answer(first, "disk__clean", ACCEPT)
        result = await client.answer(second, "disk__clean", DECLINE)

    assert [each["params"]["message"] for each in second["inputRequests"].values()] == ["Delete B?"]
    assert result["structuredContent"] == {"deleted": []}


async def test_an_update_of_a_task_that_is_too_late_changes_nothing(monkeypatch):
    disk = Cleaner("optional")
    async with Runtime(disk) as runtime, raw_client(runtime, WITH_TASKS) as client:
        task_id = (await client.call("disk__clean"))["taskId"]
        await client.task(task_id, "input_required")
        await answered_before(runtime, monkeypatch)
        await client.ask("tasks/update", taskId=task_id, inputResponses={"answer-1": ACCEPT})
        task = await client.task(task_id, "input_required")
        await client.ask("tasks/update", taskId=task_id, inputResponses={"answer-2": DECLINE})
        done = await client.task(task_id, "completed")

    assert list(task["inputRequests"]) == ["answer-2"]
    assert done["result"]["structuredContent"] == {"deleted": []}


async def test_a_tool_that_requires_tasks_asks_the_open_question(monkeypatch):
    monkeypatch.setattr(
        "surehand.gateway.mcp.tasks.task_handlers.IMMEDIATE_RESULT_SECONDS", 60.0
    )  # that is how long it may take to ask
    disk = Cleaner("required")
    async with Runtime(disk) as runtime, raw_client(runtime, WITH_TASKS) as client:
        first = await client.call("disk__clean")
        await answered_before(runtime, monkeypatch)
        second = await client.answer(first, "disk__clean", ACCEPT)
        made = await client.answer(second, "disk__clean", DECLINE)
        done = await client.task(made["taskId"], "completed")

    assert [each["params"]["message"] for each in second["inputRequests"].values()] == ["Delete B?"]
    assert done["result"]["structuredContent"] == {"deleted": []}


# A call that waits for another one


@tool(effects={"write"}, confirm=True, confirm_message="Erase?")
async def erase(file: str) -> str:
    """Erase a file."""
    return f"erased {file}"


@tool(effects={"read"})
async def tidy(ctx: Context) -> Any:
    """Tidy up."""
    return await ctx.call("erase", {"file": "old.txt"})


@tool(effects={"read"})
async def tidy_all(ctx: Context) -> Any:
    """Tidy up everything."""
    return await ctx.call("disk__clean")


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_is_shown_the_call_that_would_run(era):
    shown: list[str] = []

    async def person(context: Any, params: Any) -> ElicitResult:
        shown.append(params.message)
        return ElicitResult(action="accept", content={})

    async with within(), sdk_client(Runtime(tidy, erase), era, elicitation_callback=person) as client:
        result = await client.call_tool("tidy")

    assert [block.text for block in result.content] == ["erased old.txt"]
    [message] = shown
    assert "old.txt" in message
    assert "erase" in message


@pytest.mark.parametrize("era", ERAS)
async def test_all_questions_of_a_call_that_is_waited_for_are_asked_in_turn(era):
    disk, shown = Cleaner(), list[str]()

    async def person(context: Any, params: Any) -> ElicitResult:
        shown.append(params.message)
        return ElicitResult(action="accept", content={})

    async with within(), sdk_client(Runtime(disk, tidy_all), era, elicitation_callback=person) as client:
        await client.call_tool("tidy_all")

    assert shown == ["Delete A?", "Delete B?"]
    assert disk.deleted == ["A", "B"]


# Who answered


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("desk", "mcp:desk"),
        ("de\x00s\x1b[31mk\u202e\n", "mcp:desk"),
        ("é" * 500, "mcp:" + "é" * 97 + "..."),
        ("\n", "mcp"),
    ],
)
async def test_the_audit_names_the_client_that_answered(tmp_path, era, name, kept):
    async def person(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={})

    info = Implementation(name=name, version="1")
    async with Runtime(erase, store=tmp_path / "calls.db") as runtime:
        async with sdk_client(runtime, era, elicitation_callback=person, client_info=info) as client:
            result = await client.call_tool("erase", {"file": "a"})
        rows = await runtime.store.database.read("SELECT by_whom FROM audit WHERE kind = 'answer'")

    assert not result.is_error
    assert [row["by_whom"] for row in rows] == [kept]
