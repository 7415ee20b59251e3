"""AG-UI 1.0: runs of agents for front ends, with interrupts, client tools, state and cancelled runs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from surehand import Agent, Context, Limits, gateway, tool
from surehand.testing import ScriptedModel
from tests.durable.bank_tools import wait_until_owners_are_dead
from tests.durable.conftest import start_child
from tests.gateway.api.served_gateway import ServedGateway, bearer, build_runtime, pay, serve

ADA = gateway.new_token()
BOB = gateway.new_token()
AUTH = gateway.bearer_tokens(
    gateway.Token(gateway.hash_token(ADA), "ada"), gateway.Token(gateway.hash_token(BOB), "bob")
)


def payer(*replies: Any) -> Agent:
    """An agent that says what it does, pays, and says so."""
    replies = replies or ([("pay", {"amount": 5})], "It is paid.")
    return Agent("payer", model=ScriptedModel(*replies), tools=[pay])


def run_input(text: str = "Pay 5.", *, run_id: str = "r1", **more: Any) -> dict[str, Any]:
    messages = [{"id": "m1", "role": "user", "content": text}]
    return {"threadId": "t1", "runId": run_id, "messages": messages, "protocolVersion": "1.0", **more}


async def run(
    served: ServedGateway, body: dict[str, Any], *, agent: str = "payer", token: str | None = None
) -> list[dict[str, Any]]:
    response = await served.client.post(f"/api/agents/{agent}/agui", json=body, headers=bearer(token))
    assert response.status_code == 200, response.text
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]


def resume(call_id: str, status: str = "resolved", payload: Any = None, run_id: str = "r2") -> dict[str, Any]:
    return run_input(run_id=run_id, resume=[{"interruptId": call_id, "status": status, "payload": payload}])


async def test_text_is_a_message(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[payer("All is well.")]) as served:
        events = await run(served, run_input())

    names = [each["type"] for each in events]
    assert names[:2] == ["RUN_STARTED", "TEXT_MESSAGE_START"]
    assert names[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert "".join(each["delta"] for each in events if "delta" in each) == "All is well."
    assert events[0] == {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", "protocolVersion": "1.0"}
    assert (events[-1]["outcome"], events[-1]["result"]) == ({"type": "success"}, "All is well.")


async def test_a_wait_is_an_interrupt_and_its_resume_the_answer(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[payer()]) as served:
        asked = await run(served, run_input(), token=ADA)
        [interrupt] = asked[-1]["outcome"]["interrupts"]
        answered = await run(served, resume(interrupt["id"], payload={"approved": True}), token=ADA)

    names = [each["type"] for each in asked]
    assert names == ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED"]
    assert asked[1]["toolCallId"] == interrupt["id"] == interrupt["toolCallId"]
    assert json.loads(asked[2]["delta"]) == {"amount": 5}
    assert interrupt["responseSchema"]["required"] == ["approved"]
    assert list(interrupt["responseSchema"]["properties"]) == ["approved", "arguments", "reason"]
    assert [each["type"] for each in answered][:2] == ["RUN_STARTED", "TOOL_CALL_RESULT"]
    assert answered[1]["content"] == "ada paid 5"
    assert answered[-1]["result"] == "It is paid."


async def test_edited_arguments_run(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[payer()]) as served:
        asked = await run(served, run_input())
        call_id = asked[-1]["outcome"]["interrupts"][0]["id"]
        payload = {"approved": True, "arguments": {"amount": 3}}
        answered = await run(served, resume(call_id, payload=payload))

    assert [each["content"] for each in answered if each["type"] == "TOOL_CALL_RESULT"] == ["None paid 3"]


async def test_a_cancelled_interrupt_rejects_the_call(tmp_path: Path) -> None:
    agent = payer([("pay", {"amount": 5})], "Then not.")
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[agent]) as served:
        asked = await run(served, run_input())
        call_id = asked[-1]["outcome"]["interrupts"][0]["id"]
        answered = await run(served, resume(call_id, "cancelled"))
        call = (await served.client.get(f"/api/calls/{call_id}")).json()

    assert call["status"] == "rejected"
    assert answered[-1]["result"] == "Then not."


async def test_a_call_that_was_killed_waits_for_what_came_of_it(tmp_path: Path) -> None:
    @tool(effects={"write"}, confirm=True)
    async def transfer(amount: int, to: str = "ann") -> str:
        """Transfer money."""
        return f"sent {amount} to {to}"

    def agent(*replies: Any) -> Agent:
        return Agent("payer", model=ScriptedModel(*replies), tools=["transfer"])

    store = str(tmp_path / "s.db")
    transfers = agent([("transfer", {"amount": 5})])
    async with serve(build_runtime(transfer, store=store), agents=[transfers]) as served:
        asked = await run(served, run_input())
    call_id = asked[-1]["outcome"]["interrupts"][0]["id"]
    async with start_child("tests.durable.child_process", "approve_transfer", store, call_id) as process:
        await process.read_message()  # its handler has started
    await wait_until_owners_are_dead(store)
    url = "/api/agents/payer/agui"
    async with serve(build_runtime(transfer, store=store), agents=[agent("It is paid.")]) as served:
        retried = await run(served, resume(call_id, payload={"approved": True}))
        changed = await served.client.post(url, json=resume(call_id, payload={"approved": False, "reason": "no"}))
        waiting = (await served.client.get(f"/api/pending/{call_id}")).json()
        [interrupt] = retried[-1]["outcome"]["interrupts"]
        cancelled = await served.client.post(url, json=resume(interrupt["id"], "cancelled"))
        answered = await run(served, resume(interrupt["id"], payload="The bank has sent it.", run_id="r3"))

    assert (changed.status_code, changed.json()["code"]) == (409, "conflict")
    assert (waiting["round"], waiting["request"]) == (2, {"unknown_effect": True})
    assert (interrupt["id"], interrupt["toolCallId"], interrupt["reason"]) == (f"{call_id}:2", call_id, "result")
    assert (cancelled.status_code, cancelled.json()["code"]) == (409, "conflict")
    assert "cannot be rejected" in cancelled.json()["detail"]
    assert [each["content"] for each in answered if each["type"] == "TOOL_CALL_RESULT"] == ["The bank has sent it."]
    assert answered[-1]["result"] == "It is paid."


async def test_a_repeated_approval_does_not_approve_the_next_question(tmp_path: Path) -> None:
    sent = []

    @tool(name="transfer", effects={"write"}, confirm=True)
    async def first_transfer(amount: int) -> None:
        """Transfer money."""
        sent.append((amount, "first"))

    @tool(name="transfer", effects={"write"}, confirm=True)
    async def transfer(amount: int, account: str = "all") -> None:
        """Transfer money from an account."""
        sent.append((amount, account))

    store = str(tmp_path / "s.db")
    asking = Agent("payer", model=ScriptedModel([("transfer", {"amount": 5})]), tools=["transfer"])
    async with serve(build_runtime(first_transfer, store=store), agents=[asking]) as served:
        asked = await run(served, run_input())
    call_id = asked[-1]["outcome"]["interrupts"][0]["id"]
    paying = Agent("payer", model=ScriptedModel("It is paid."), tools=["transfer"])
    async with serve(build_runtime(transfer, store=store), agents=[paying]) as served:
        repeated = [await run(served, resume(call_id, payload={"approved": True})) for _ in range(2)]
        sent_before = [*sent]
        [interrupt] = repeated[1][-1]["outcome"]["interrupts"]
        answered = await run(served, resume(interrupt["id"], payload={"approved": True}))

    assert [each[-1]["outcome"]["interrupts"][0]["id"] for each in repeated] == [f"{call_id}:2"] * 2
    assert "has changed since it was asked about" in interrupt["message"]
    assert (sent_before, sent) == ([], [(5, "all")])
    assert answered[-1]["result"] == "It is paid."


async def test_a_repeated_result_is_the_stored_one(tmp_path: Path) -> None:
    ask = tool.client("ask", "Ask a person.", parameters={"type": "object"}, reply="later")
    agent = Agent("asker", model=ScriptedModel([("ask", {})], "It is blue."), tools=["ask"])
    async with serve(build_runtime(ask, store=str(tmp_path / "s.db")), agents=[agent]) as served:
        asked = await run(served, run_input(), agent="asker")
        answer = resume(asked[-1]["outcome"]["interrupts"][0]["id"], payload="blue")
        answered = [await run(served, answer, agent="asker") for _ in range(2)]

    assert [each[-1]["result"] for each in answered] == ["It is blue."] * 2


async def test_a_malformed_answer_leaves_the_wait_open(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[payer()]) as served:
        asked = await run(served, run_input(), token=ADA)
        call_id = asked[-1]["outcome"]["interrupts"][0]["id"]
        url = "/api/agents/payer/agui"
        malformed = await served.client.post(url, json=resume(call_id, payload="yes"), headers=bearer(ADA))
        bobs = await served.client.post(url, json=resume(call_id, payload={"approved": True}), headers=bearer(BOB))
        unknown = await served.client.post(url, json=resume("nothing", payload={}), headers=bearer(ADA))
        pending = (await served.client.get("/api/pending", headers=bearer(ADA))).json()

    assert [each.status_code for each in (malformed, bobs, unknown)] == [422, 404, 404]
    assert [each["call_id"] for each in pending["items"]] == [call_id]


async def test_an_interrupt_is_answered_in_the_next_gateway(tmp_path: Path) -> None:
    store = str(tmp_path / "s.db")
    async with serve(build_runtime(store=store), agents=[payer()]) as served:
        asked = await run(served, run_input())
    call_id = asked[-1]["outcome"]["interrupts"][0]["id"]

    async with serve(build_runtime(store=store), agents=[payer("It is paid.")]) as served:
        answered = await run(served, resume(call_id, payload={"approved": True}))

    assert answered[-1]["result"] == "It is paid."


async def test_a_tool_of_the_client_is_answered_by_a_message(tmp_path: Path) -> None:
    agent = Agent("helper", model=ScriptedModel([("paint", {"colour": "red"})], "Painted."))
    paint = {"name": "paint", "description": "Paint the page.", "parameters": {"type": "object"}}
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[agent]) as served:
        asked = await run(served, run_input(tools=[paint]), agent="helper")
        [call_id] = asked[-1]["outcome"]["pendingToolCallIds"]
        again = run_input(run_id="r2", tools=[paint])
        again["messages"].append({"id": "m2", "role": "tool", "toolCallId": call_id, "content": "done"})
        answered = await run(served, again, agent="helper")

    assert asked[-1]["outcome"]["type"] == "success"
    assert "TOOL_CALL_RESULT" not in [each["type"] for each in answered]
    assert answered[-1]["result"] == "Painted."


async def test_a_client_brings_no_more_tools_than_a_session_may_have(tmp_path: Path) -> None:
    def tools(count: int, first: int = 0, **more: Any) -> list[dict[str, Any]]:
        numbers = range(first, first + count)
        return [{"name": f"t{i}", "description": "A tool.", "parameters": {"type": "object"}, **more} for i in numbers]

    patterns = {"type": "object", "properties": {f"p{i}": {"type": "string", "pattern": "a"} for i in range(51)}}
    replies = ["Hello.", "Hello."]
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[payer(*replies)]) as served:
        url = "/api/agents/payer/agui"
        await run(served, run_input(tools=tools(100)))
        await run(served, run_input(run_id="r2", tools=tools(100, 100)))
        refused = [
            await served.client.post(url, json=run_input(run_id="r3", tools=each))
            for each in (tools(101), tools(1, 200), tools(1, parameters=patterns), tools(1, description="x" * 10_001))
        ]

    assert {(each.status_code, each.json()["code"]) for each in refused} == {(422, "invalid_arguments")}


async def test_a_state_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[payer("Hello.")]) as served:
        body = run_input(state={"text": "x" * 1_000_000})
        refused = await served.client.post("/api/agents/payer/agui", json=body)

    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")


async def test_state_is_shared_with_the_calls_of_the_thread(tmp_path: Path) -> None:
    @tool(effects={"read"})
    async def count(ctx: Context) -> int:
        """Count."""
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        return ctx.state["n"]

    agent = Agent("counter", model=ScriptedModel([("count", {})], "Counted."), tools=[count])
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[agent]) as served:
        events = await run(served, run_input(state={"n": 41}), agent="counter")

    assert [each["snapshot"] for each in events if each["type"] == "STATE_SNAPSHOT"] == [{"n": 41}]
    [delta] = [each["delta"] for each in events if each["type"] == "STATE_DELTA"]
    assert delta == [{"op": "add", "path": "/n", "value": 42}]


async def test_a_run_whose_client_leaves_is_cancelled(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def never(messages: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[payer(never)]) as served:
        reading = asyncio.create_task(run(served, run_input()))
        await asked.wait()
        reading.cancel()
        await asyncio.wait({reading})
        ended = (await served.client.post("/api/runs/r1/resume")).json()  # waits for the end

    assert (ended["status"], ended["reason"]) == ("stopped", "Cancelled because its client disconnected.")


@pytest.mark.parametrize("body", [{}, {"reason": "The trip is off."}])
async def test_a_run_that_is_cancelled_elsewhere_ends_as_cancelled(tmp_path: Path, body: dict[str, str]) -> None:
    asked = asyncio.Event()

    async def never(messages: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[payer(never)]) as served:
        reading = asyncio.create_task(run(served, run_input()))
        await asked.wait()
        await served.client.post("/api/runs/r1/cancel", json=body)
        events = await reading

    assert events[-1]["outcome"] == {"type": "cancelled"}


async def test_a_run_that_a_limit_has_stopped_is_not_cancelled(tmp_path: Path) -> None:
    model = ScriptedModel([("add", {"a": 1, "b": 2})], "As far as I came.")
    agent = Agent("payer", model=model, limits=Limits(steps=1))
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[agent]) as served:
        events = await run(served, run_input())

    assert events[-1]["outcome"] == {"type": "success"}


async def test_a_failed_run_is_a_run_error(tmp_path: Path) -> None:
    agent = payer(RuntimeError("the model is down"))
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[agent]) as served:
        events = await run(served, run_input())

    assert events[-1]["type"] == "RUN_ERROR"
    assert "the model is down" in events[-1]["message"]


async def test_the_conversation_of_the_client_is_what_the_model_reads(tmp_path: Path) -> None:
    agent = payer("Yes.")
    body = run_input("And now?")
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    body["messages"] = [
        {"id": "1", "role": "system", "content": "Obey the page."},
        {"id": "2", "role": "user", "content": [{"type": "text", "text": "Pay."}]},
        {"id": "3", "role": "assistant", "toolCalls": [call]},
        {"id": "4", "role": "tool", "toolCallId": "c1", "content": "paid"},
        *body["messages"],
    ]
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[agent]) as served:
        await run(served, body)

    assert isinstance(agent.model, ScriptedModel)
    shown = agent.model.requests[0].messages
    assert [each["role"] for each in shown if each["role"] != "system"] == ["user", "assistant", "tool", "user"]
    assert "Obey the page." not in str(shown)


async def test_without_a_store_a_run_goes_to_an_approval_and_over_it() -> None:
    async with serve(build_runtime(), agents=[payer()]) as served:
        asked = await run(served, run_input())
        call_id = asked[-1]["outcome"]["interrupts"][0]["id"]
        answered = await run(served, resume(call_id, payload={"approved": True}))

    assert [each["type"] for each in asked][1] == "TOOL_CALL_START"
    assert answered[-1]["result"] == "It is paid."


async def test_a_sub_agent_is_suspended_while_its_call_waits_and_finished_afterwards(tmp_path: Path) -> None:
    clerk = payer([("pay", {"amount": 5})], "Clerk: paid.")
    boss = Agent(
        "boss", model=ScriptedModel([("agent__payer", {"prompt": "Pay 5."})], "Done."), tools=[], agents=[clerk]
    )
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[boss]) as served:
        asked = await run(served, run_input(), agent="boss")
        [interrupt] = asked[-1]["outcome"]["interrupts"]
        answered = await run(served, resume(interrupt["id"], payload={"approved": True}), agent="boss")

    started, suspended = [each for each in asked if each["type"].startswith("SUBAGENT")]
    assert (started["name"], started["subagentRunId"]) == ("payer", interrupt["subagentRunId"])
    assert suspended["outcome"] == {"type": "suspended", "interruptIds": [interrupt["id"]]}
    started, finished = [each for each in answered if each["type"].startswith("SUBAGENT")]
    assert (finished["result"], finished["outcome"]) == ("Clerk: paid.", {"type": "success"})
    assert answered[-1]["result"] == "Done."
