"""AG-UI 1.0 as its own client, `@ag-ui/client`, reads it: the client verifies the order and the shape of all events."""

import asyncio
import json
import re
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from surehand import Agent, Context, gateway, tool
from surehand.agent.models.base import ModelAnswer, ModelCall
from surehand.testing import ScriptedModel
from tests import node_packages
from tests.gateway.agui.agui_client import AguiClient, agui_client, cancelled, resolved
from tests.gateway.api.served_gateway import ServedGateway, build_runtime, pay, serve, until
from tests.gateway.kills.gateway_process import GatewayProcess
from tests.requirements import needs

PROJECT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parent / "gateway_program.py"

pytestmark = [pytest.mark.timeout(120), pytest.mark.long, needs("node servers")]
PAYMENT = ("pay", {"amount": 5})
TEXT_AND_PAYMENT = ModelAnswer("I will pay.", (ModelCall("pay", '{"amount": 5}'),))


def agent_of(name: str, *replies: Any, **options: Any) -> Agent:
    return Agent(name, model=ScriptedModel(*replies), **{"tools": [pay], **options})


@asynccontextmanager
async def served(folder: Path, *agents: Agent, **options: Any) -> AsyncIterator[tuple[AguiClient, ServedGateway]]:
    """A gateway with agents, and the client of the first one."""
    async with (
        serve(build_runtime(store=str(folder / "calls.db")), agents=agents, **options) as api,
        agui_client(f"{api.url}/api/agents/{agents[0].name}/agui") as client,
    ):
        yield client, api


async def test_a_run_goes_to_an_approval_and_over_it(tmp_path: Path) -> None:
    async with served(tmp_path, agent_of("payer", TEXT_AND_PAYMENT, "It is paid.")) as (client, _):
        asked = await client.run("Pay 5.")
        [interrupt] = asked.interrupts
        answered = await client.resume(resolved(interrupt, {"approved": True}))

    assert (asked.error, answered.error) == (None, None)
    assert asked.types == [
        "RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "TOOL_CALL_START",
        "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED",
    ]  # fmt: skip
    assert asked.events[0]["protocolVersion"] == "1.0"
    assert (interrupt["id"], interrupt["reason"]) == (interrupt["toolCallId"], "approval")
    assert set(interrupt["responseSchema"]["properties"]) == {"approved", "arguments", "reason"}
    assert interrupt["responseSchema"]["properties"]["arguments"]["properties"] == {"amount": {"type": "integer"}}
    assert answered.types == [
        "RUN_STARTED", "TOOL_CALL_RESULT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]  # fmt: skip
    assert (answered.result, answered.interrupts) == ("It is paid.", [])
    assert [each["role"] for each in answered.messages] == ["user", "assistant", "tool", "assistant"]
    [call] = answered.messages[1]["toolCalls"]
    assert (call["id"], json.loads(call["function"]["arguments"])) == (interrupt["id"], {"amount": 5})
    assert answered.messages[1]["content"] == "I will pay."
    assert answered.messages[2]["content"] == "None paid 5"
    assert len({each["id"] for each in answered.messages}) == 4


async def test_two_interrupts_are_answered_together(tmp_path: Path) -> None:
    agent = agent_of("payer", [PAYMENT, ("pay", {"amount": 6})], "One is paid.")
    async with served(tmp_path, agent) as (client, _):
        asked = await client.run("Pay 5 and 6.")
        first, second = asked.interrupts
        edited = resolved(first, {"approved": True, "arguments": {"amount": 4}})
        answered = await client.resume(edited, cancelled(second))

    assert [len(each.get("toolCalls", ())) for each in answered.messages if each["role"] == "assistant"] == [2, 0]
    results = [each["content"] for each in answered.of_type("TOOL_CALL_RESULT")]
    assert results[0] == "None paid 4"
    assert "rejected" in results[1]
    assert answered.result == "One is paid."


async def test_sub_agents_have_events_of_their_own(tmp_path: Path) -> None:
    clerk = agent_of("clerk", TEXT_AND_PAYMENT, "Clerk: paid.")
    bookkeeper = agent_of("bookkeeper", [("agent__clerk", {"prompt": "Pay 5."})], "Booked.", tools=[], agents=[clerk])
    boss = agent_of("boss", [("agent__bookkeeper", {"prompt": "Go."})], "All done.", tools=[], agents=[bookkeeper])
    async with served(tmp_path, boss) as (client, _):
        asked = await client.run("Pay 5.")
        [interrupt] = asked.interrupts
        answered = await client.resume(resolved(interrupt, {"approved": True}))

    assert (asked.error, answered.error) == (None, None)
    for run in (asked, answered):
        outer, inner = run.of_type("SUBAGENT_STARTED")
        assert (outer["name"], inner["name"]) == ("bookkeeper", "clerk")
        assert inner["parentSubagentRunId"] == outer["subagentRunId"]
        assert "parentSubagentRunId" not in outer
    calls = {each["toolCallName"]: each for each in asked.of_type("TOOL_CALL_START")}
    assert outer["parentToolCallId"] == calls["agent__bookkeeper"]["toolCallId"]
    assert calls["pay"]["subagentRunId"] == inner["subagentRunId"] == interrupt["subagentRunId"]
    suspended = [each["outcome"] for each in asked.of_type("SUBAGENT_FINISHED")]
    assert suspended == [{"type": "suspended", "interruptIds": [interrupt["id"]]}, {"type": "suspended"}]
    finished = [(each["result"], each["outcome"]) for each in answered.of_type("SUBAGENT_FINISHED")]
    assert finished == [("Clerk: paid.", {"type": "success"}), ("Booked.", {"type": "success"})]
    texts = {each.get("subagentRunId"): each["delta"] for each in answered.of_type("TEXT_MESSAGE_CONTENT")}
    assert texts == {
        inner["subagentRunId"]: "Clerk: paid.", outer["subagentRunId"]: "Booked.", None: "All done.",
    }  # fmt: skip


async def test_the_next_run_of_a_thread_has_the_conversation_without_that_of_sub_agents(tmp_path: Path) -> None:
    helper = agent_of("helper", "Helper speaks.", tools=[])
    boss = agent_of("boss", [("agent__helper", {"prompt": "Go."})], "Done.", "Again.", tools=[], agents=[helper])
    async with served(tmp_path, boss) as (client, _):
        await client.run("Go.")
        second = await client.run("And now?")

    assert second.result == "Again."
    assert isinstance(boss.model, ScriptedModel)
    shown = [each for each in boss.model.requests[-1].messages if each["role"] != "system"]
    assert [each["role"] for each in shown] == ["user", "assistant", "tool", "assistant", "user"]
    assert "Helper speaks." in shown[2]["content"]  # as the result of the call, and only there
    assert [each["content"] for each in shown if each["role"] == "assistant"][-1] == "Done."


async def test_a_tool_of_the_client_is_called_and_answered(tmp_path: Path) -> None:
    agent = agent_of("painter", [("paint", {"colour": "red"})], "Painted.", tools=None)
    paint = {"name": "paint", "description": "Paint the page.", "parameters": {"type": "object"}}
    async with served(tmp_path, agent) as (client, _):
        asked = await client.run("Paint.", parameters={"tools": [paint]})
        [call_id] = asked.events[-1]["outcome"]["pendingToolCallIds"]
        message = {"id": "m2", "role": "tool", "toolCallId": call_id, "content": "done"}
        answered = await client.run(message=message, parameters={"tools": [paint]})

    assert [each["toolCallId"] for each in asked.of_type("TOOL_CALL_START")] == [call_id]
    assert (answered.error, answered.result) == (None, "Painted.")
    assert answered.of_type("TOOL_CALL_RESULT") == []


async def test_the_state_of_the_thread_is_shared(tmp_path: Path) -> None:
    @tool(effects={"read"})
    async def count(ctx: Context) -> int:
        """Count."""
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        return ctx.state["n"]

    agent = agent_of("counter", [("count", {})], "One more.", [("count", {})], "And one.", tools=[count])
    async with served(tmp_path, agent) as (client, _):
        first = await client.run("Count.", state={"n": 41, "a/b": "kept"})
        second = await client.run("Again.")

    assert first.state == {"n": 42, "a/b": "kept"}
    assert second.state == {"n": 43, "a/b": "kept"}
    assert [each["type"] for each in second.events].count("STATE_DELTA") == 1


async def test_a_run_that_the_client_aborts_is_cancelled(tmp_path: Path) -> None:
    started = asyncio.Event()

    @tool(effects={"read"})
    async def wait() -> None:
        """Wait."""
        started.set()
        await asyncio.Event().wait()

    agent = agent_of("waiter", [("wait", {})], "Next.", tools=[wait])
    async with served(tmp_path, agent) as (client, api):
        aborted = await client.run("Wait.", abortAt="TOOL_CALL_END", parameters={"runId": "run-1"})
        ended = (await api.client.post("/api/runs/run-1/resume")).json()  # waits for the end
        next_run = await client.run("Go on.")

    assert aborted.types[-2:] == ["TOOL_CALL_END", "RUN_ERROR"]
    assert aborted.events[-1]["code"] == "abort"  # from the client itself
    assert (ended["status"], ended["reason"]) == ("stopped", "Cancelled because its client disconnected.")
    assert next_run.result == "Next."
    assert isinstance(agent.model, ScriptedModel)
    roles = [each["role"] for each in agent.model.requests[-1].messages if each["role"] != "system"]
    assert roles == ["user", "assistant", "tool", "user"]  # the aborted call has a result, as models want it


async def test_the_gateway_is_killed_between_the_interrupt_and_its_answer(tmp_path: Path) -> None:
    server = GatewayProcess(tmp_path, PROGRAM)
    async with server, agui_client(f"{server.url}/api/agents/payer/agui") as client:
        asked = await client.run("Pay 5.")
        await server.end(signal.SIGKILL)
        await server.start()
        answered = await client.resume(resolved(asked.interrupts[0], {"approved": True}))

    assert (answered.error, answered.result) == (None, "It is paid.")
    assert [each["role"] for each in answered.messages] == ["user", "assistant", "tool", "assistant"]
    assert (tmp_path / "effects.txt").read_text().splitlines() == ["paid 5"]


async def test_a_run_whose_gateway_is_killed_goes_on_and_is_read_from_its_beginning(tmp_path: Path) -> None:
    server = GatewayProcess(tmp_path, PROGRAM)
    async with server, agui_client(f"{server.url}/api/agents/looker/agui") as client:
        reading = asyncio.create_task(client.run("Look.", parameters={"runId": "run-1"}))
        await until((tmp_path / "looking").exists)
        await server.end(signal.SIGKILL)
        broken = await reading
        (tmp_path / "seen").touch()
        await server.start()
        again = await client.run(parameters={"runId": "run-1"})

    assert broken.types[-1] != "RUN_FINISHED"
    assert (again.error, again.result) == (None, "I have seen it.")
    assert again.types[:2] == ["RUN_STARTED", "TOOL_CALL_RESULT"]  # the client has the call itself
    assert [each["role"] for each in again.messages] == ["user", "assistant", "tool", "assistant"]
    [call] = again.messages[1]["toolCalls"]
    assert (call["function"]["arguments"], again.messages[2]["content"]) == ("{}", "a bird")


async def test_the_front_end_of_the_documentation_runs(tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "how-to" / "stream-to-a-front-end.md").read_text()
    [program] = re.findall(r"```js file=front_end\.mjs\n(.*?)```", page, re.DOTALL)
    (tmp_path / "front_end.mjs").write_text(program)
    (tmp_path / "node_modules").symlink_to(node_packages.PACKAGES)
    booker = agent_of("travel", [("pay", {"amount": 5})], "Have a nice trip.")
    async with serve(build_runtime(store=str(tmp_path / "calls.db")), agents=[booker]) as api:
        command = (node_packages.node_path(), "front_end.mjs", f"{api.url}/api/agents/travel/agui")
        process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=PIPE, stderr=PIPE)
        printed, errors = await process.communicate()

    assert errors.decode() == ""
    assert printed.decode().splitlines() == [
        'calls pay with {"amount":5}', "Allow pay to execute? yes", "pay: None paid 5", "Have a nice trip.",
    ]  # fmt: skip


async def test_a_run_that_is_cancelled_elsewhere_ends_as_cancelled(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def never(messages: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    async with served(tmp_path, agent_of("payer", never)) as (client, api):
        reading = asyncio.create_task(client.run("Go.", parameters={"runId": "run-1"}))
        await asked.wait()
        await api.client.post("/api/runs/run-1/cancel")
        run = await reading

    assert (run.error, run.types) == (None, ["RUN_STARTED", "RUN_FINISHED"])
    assert run.events[-1]["outcome"] == {"type": "cancelled"}


async def test_a_failed_run_and_a_failed_sub_agent_are_errors(tmp_path: Path) -> None:
    clerk = agent_of("clerk", RuntimeError("the clerk's model is down"))
    boss = agent_of("boss", [("agent__clerk", {"prompt": "Go."})], RuntimeError("down, too"), tools=[], agents=[clerk])
    async with served(tmp_path, boss) as (client, _):
        run = await client.run("Go.")

    [subagent_error] = run.of_type("SUBAGENT_ERROR")
    assert "the clerk's model is down" in subagent_error["message"]
    assert "down, too" in run.events[-1]["message"]
    assert run.events[-1]["type"] == "RUN_ERROR"


async def test_a_refused_request_is_an_error_of_the_client(tmp_path: Path) -> None:
    token = gateway.new_token()
    auth = gateway.bearer_tokens(gateway.Token(gateway.hash_token(token), "ada"))
    async with served(tmp_path, agent_of("payer", "Hello."), auth=auth) as (client, _):
        refused = await client.run("Hello.")
        allowed = await client.run(headers={"Authorization": f"Bearer {token}"})

    assert "401" in (refused.error or "")
    assert (allowed.error, allowed.result) == (None, "Hello.")


async def test_an_interrupt_that_was_answered_elsewhere_is_read_to_its_end(tmp_path: Path) -> None:
    async with served(tmp_path, agent_of("payer", [PAYMENT], "It is paid.")) as (client, api):
        asked = await client.run("Pay 5.", parameters={"runId": "run-1"})
        [interrupt] = asked.interrupts
        await api.client.post(f"/api/pending/{interrupt['id']}/approve")
        await api.client.post("/api/runs/run-1/resume")  # waits for the end
        other = await client.resume(cancelled(interrupt))
        same = await client.resume(resolved(interrupt, {"approved": True}))

    assert "409" in (other.error or "")
    assert (same.error, same.result) == (None, "It is paid.")
    assert [each["content"] for each in same.messages[2:]] == ["None paid 5", "It is paid."]
