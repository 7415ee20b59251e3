"""Agents over HTTP: running one, its runs, its events, and who may see them."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from surehand import Agent, gateway
from surehand.testing import ScriptedModel
from tests.gateway.api.served_gateway import ServedGateway, add, bearer, build_runtime, pay, pick, serve

ADA = gateway.new_token()
BOB = gateway.new_token()
READER = gateway.new_token()
AUTH = gateway.bearer_tokens(
    gateway.Token(gateway.hash_token(ADA), "ada"),
    gateway.Token(gateway.hash_token(BOB), "bob"),
    gateway.Token(gateway.hash_token(READER), "ada", scopes=frozenset({"tools:*"}), name="reader"),
)


def payer(*replies: Any) -> Agent:
    """An agent that pays and then says so."""
    return Agent("payer", model=ScriptedModel(*(replies or ([("pay", {"amount": 5})], "It is paid."))), tools=[pay])


def greeter(*replies: Any) -> Agent:
    return Agent("greeter", model=ScriptedModel(*(replies or ("Hello.",))), tools=[])


async def run(served: ServedGateway, agent: str, prompt: Any = "Go.", *, token: str | None = None, **rest: Any) -> Any:
    headers = {**bearer(token), **rest.pop("headers", {})}
    return await served.client.post(f"/api/agents/{agent}/run", json={"prompt": prompt, **rest}, headers=headers)


async def wait_for_status(served: ServedGateway, run_id: str, status: str, token: str | None = None) -> dict[str, Any]:
    while True:
        found = (await served.client.get(f"/api/runs/{run_id}", headers=bearer(token))).json()
        if found.get("status") == status:
            return found
        await asyncio.sleep(0.05)


async def wait_after_steps(served: ServedGateway, run_id: str, steps: int, token: str) -> None:
    """Return when the run waits and has so many steps."""
    while True:
        found = await wait_for_status(served, run_id, "waiting", token)
        if len(found["steps"]) >= steps:
            return
        await asyncio.sleep(0.05)


async def test_agents_are_listed_with_their_tools() -> None:
    async with serve(build_runtime(), agents=[payer(), greeter()]) as served:
        listed = (await served.client.get("/api/agents")).json()
        one = (await served.client.get("/api/agents/payer")).json()
        unknown = await served.client.get("/api/agents/nobody")

    assert listed == {
        "items": [{"id": "greeter", "model": "scripted"}, {"id": "payer", "model": "scripted"}],
        "next": None,
    }
    assert one["tools"] == ["pay"]
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_run_answers_with_its_end(tmp_path: Path, is_stored: bool) -> None:
    runtime = build_runtime(store=str(tmp_path / "s.db") if is_stored else None)
    async with serve(runtime, agents=[greeter()]) as served:
        answer = await run(served, "greeter", session="s1")
        shown = (await served.client.get(f"/api/runs/{answer.json()['run_id']}")).json()
        listed = (await served.client.get("/api/runs", params={"agent": "greeter"})).json()

    body = answer.json()
    assert (answer.status_code, body["status"], body["text"], body["waiting"]) == (200, "done", "Hello.", [])
    assert body["usage"]["requests"] == 1
    assert (shown["status"], shown["text"], shown["session"]) == ("done", "Hello.", "s1")
    assert [each["run_id"] for each in listed["items"]] == [body["run_id"]]
    if is_stored:
        assert [each["text"] for each in shown["steps"]] == ["Hello."]


async def test_a_run_that_waits_is_202_and_goes_on_by_itself_when_it_is_answered(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[payer()]) as served:
        answer = await run(served, "payer", token=ADA)
        [wait] = answer.json()["waiting"]
        approved = await served.client.post(f"/api/pending/{wait['call_id']}/approve", headers=bearer(ADA))
        ended = await wait_for_status(served, answer.json()["run_id"], "done", ADA)

    assert (answer.status_code, answer.json()["status"], wait["tool"]) == (202, "waiting", "pay")
    assert approved.json()["data"] == "ada paid 5"
    assert ended["text"] == "It is paid."
    assert [call["outcome"]["data"] for step in ended["steps"] for call in step["calls"]] == ["ada paid 5"]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_run_that_waits_shows_the_agents_above_each_call(tmp_path: Path, is_stored: bool) -> None:
    model = ScriptedModel([("agent__payer", {"prompt": "Pay."}), ("pay", {"amount": 7})], "Done.")
    boss = Agent("boss", model=model, tools=[pay], agents=[payer()])
    runtime = build_runtime(store=str(tmp_path / "s.db") if is_stored else None)
    async with serve(runtime, agents=[boss]) as served:
        run_id = (await run(served, "boss", "Go on.")).json()["run_id"]
        shown = (await served.client.get(f"/api/runs/{run_id}")).json()

    assert sorted((wait["arguments"]["amount"], wait["path"]) for wait in shown["waiting"]) == [
        (5, ["boss", "payer"]),
        (7, ["boss"]),
    ]
    if is_stored:
        assert [each["content"] for each in shown["prompt"]] == ["Go on."]


async def test_answers_to_the_calls_of_a_run_may_come_one_after_the_other(tmp_path: Path) -> None:
    replies = [("pay", {"amount": 5}), ("pay", {"amount": 7})], "One is paid.", "Both are paid."
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[payer(*replies)]) as served:
        answer = (await run(served, "payer", token=ADA)).json()
        first, second = (wait["call_id"] for wait in answer["waiting"])
        await served.client.post(f"/api/pending/{first}/approve", headers=bearer(ADA))
        await wait_after_steps(served, answer["run_id"], 2, ADA)
        await served.client.post(f"/api/pending/{second}/approve", headers=bearer(ADA))
        ended = await wait_for_status(served, answer["run_id"], "done", ADA)

    assert ended["text"] == "Both are paid."


async def test_an_answer_after_a_message_is_not_overlooked(tmp_path: Path) -> None:
    replies = [("pay", {"amount": 5})], "I hurry.", "It is paid."
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[payer(*replies)]) as served:
        answer = (await run(served, "payer", token=ADA)).json()
        run_id = answer["run_id"]
        await served.client.post(f"/api/runs/{run_id}/steer", json={"text": "Hurry."}, headers=bearer(ADA))
        await wait_after_steps(served, run_id, 2, ADA)
        await served.client.post(f"/api/pending/{answer['waiting'][0]['call_id']}/approve", headers=bearer(ADA))
        ended = await wait_for_status(served, run_id, "done", ADA)

    assert ended["text"] == "It is paid."


async def test_a_run_whose_gateway_has_ended_goes_on_in_the_next_one(tmp_path: Path) -> None:
    store = str(tmp_path / "s.db")
    async with serve(build_runtime(store=store), agents=[payer()]) as served:
        answer = (await run(served, "payer")).json()
    async with build_runtime(store=store) as elsewhere:
        await elsewhere.approve(answer["waiting"][0]["call_id"])

    async with serve(build_runtime(store=store), agents=[payer("It is paid.")]) as served:
        ended = await wait_for_status(served, answer["run_id"], "done")

    assert ended["text"] == "It is paid."


async def test_a_run_that_a_stopped_gateway_has_interrupted_is_taken_over(tmp_path: Path) -> None:
    store = str(tmp_path / "s.db")
    asked = asyncio.Event()

    async def never(messages: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    async with serve(build_runtime(store=store), agents=[greeter(never)]) as served:
        stuck = asyncio.create_task(run(served, "greeter", run_id="r1"))
        await asked.wait()
    await asyncio.wait({stuck})

    async with serve(build_runtime(store=store), agents=[greeter("Hello again.")]) as served:
        ended = await wait_for_status(served, "r1", "done")

    assert ended["text"] == "Hello again."


async def test_the_same_key_is_the_same_run(tmp_path: Path) -> None:
    agent = greeter("One.", "Two.")
    key = {"idempotency-key": "k1"}
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[agent]) as served:
        first = await run(served, "greeter", token=ADA, headers=key)
        again = await run(served, "greeter", token=ADA, headers=key)
        other = await run(served, "greeter", "Other.", token=ADA, headers=key)
        bobs = await run(served, "greeter", token=BOB, headers=key)

    assert first.json() == again.json()
    assert other.status_code == 409
    assert (bobs.status_code, bobs.json()["text"]) == (200, "Two.")


async def test_an_id_of_another_user_is_a_conflict_and_tells_nothing(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[greeter()]) as served:
        await run(served, "greeter", token=ADA, run_id="mine")
        taken = await run(served, "greeter", token=BOB, run_id="mine")

    assert taken.status_code == 409
    assert "Hello" not in taken.text
    assert "ada" not in taken.text


async def test_another_user_s_run_is_unknown_on_every_route(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[payer()]) as served:
        await run(served, "payer", token=ADA, run_id="r1")
        bob = bearer(BOB)
        responses: list[httpx2.Response] = [
            await served.client.get("/api/runs/r1", headers=bob),
            await served.client.get("/api/runs/r1/events", headers=bob),
            await served.client.post("/api/runs/r1/resume", headers=bob),
            await served.client.post("/api/runs/r1/steer", json={"text": "x"}, headers=bob),
            await served.client.post("/api/runs/r1/follow_up", json={"text": "x"}, headers=bob),
            await served.client.post("/api/runs/r1/cancel", headers=bob),
        ]
        listed = (await served.client.get("/api/runs", headers=bob)).json()

    assert [each.status_code for each in responses] == [404] * 6
    assert listed["items"] == []


async def test_a_token_without_the_scope_cannot_see_or_run_an_agent(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[greeter()]) as served:
        listed = (await served.client.get("/api/agents", headers=bearer(READER))).json()
        refused = await run(served, "greeter", token=READER)

    assert listed["items"] == []
    assert refused.status_code == 404


async def test_events_of_a_run_stream_until_it_ends(tmp_path: Path) -> None:
    agent = greeter("A long hello.")
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[agent]) as served:
        request = {"method": "POST", "json": {"prompt": "Go.", "run_id": "r1"}}
        reader = type(served.events())(
            served.client, "/api/agents/greeter/run", {"accept": "text/event-stream"}, **request
        )
        async with reader as events:
            seen = await events.rest()

    assert [seen[0]["sse_event"], seen[-1]["sse_event"]] == ["RunStarted", "RunEnded"]
    assert "".join(each["text"] for each in seen if each["sse_event"] == "TextDelta") == "A long hello."
    assert (seen[-1]["status"], seen[-1]["text"], seen[-1]["run_id"]) == ("done", "A long hello.", "r1")


async def test_the_stream_of_a_run_is_read_on_in_the_next_gateway(tmp_path: Path) -> None:
    store = str(tmp_path / "s.db")
    async with serve(build_runtime(store=store), agents=[payer()]) as served, served.events() as events:
        answer = (await run(served, "payer", run_id="r1")).json()
        started = (await events.until("RunStarted"))[-1]
    async with build_runtime(store=store) as elsewhere:
        await elsewhere.approve(answer["waiting"][0]["call_id"])
    async with (
        serve(build_runtime(store=store), agents=[payer("It is paid.")]) as served,
        served.events("/api/runs/r1/events", last_event_id=started["sse_id"]) as events,
    ):
        seen = await events.rest()

    names = [each["sse_event"] for each in seen]
    assert names[-1] == "RunEnded"
    assert seen[-1]["status"] == "done"
    assert names.count("CallPending") == 1
    assert "".join(each["text"] for each in seen if each["sse_event"] == "TextDelta") == "It is paid."


async def test_the_stream_of_a_run_that_has_ended_tells_its_end(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[greeter()]) as served:
        await run(served, "greeter", run_id="r1")
        async with served.events("/api/runs/r1/events") as events:
            *_, end = await events.rest()  # the last text may be published only now: events are stored first

    assert (end["sse_event"], end["status"], end["text"]) == ("RunEnded", "done", "Hello.")


async def test_events_of_runs_are_shown_to_their_user_alone(tmp_path: Path) -> None:
    async with (
        serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[greeter("a", "b")]) as served,
        served.events(token=BOB) as events,
    ):
        await run(served, "greeter", token=ADA, run_id="adas")
        await run(served, "greeter", token=BOB, run_id="bobs")
        seen = await events.until("RunEnded")

    assert {each["run_id"] for each in seen} == {"bobs"}


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_cancelled_run_is_stopped_with_what_it_waits_for(tmp_path: Path, is_stored: bool) -> None:
    runtime = build_runtime(store=str(tmp_path / "s.db") if is_stored else None)
    async with serve(runtime, agents=[payer()]) as served:
        await run(served, "payer", run_id="r1")
        cancelled = await served.client.post("/api/runs/r1/cancel", json={"reason": "too late"})
        again = await served.client.post("/api/runs/r1/cancel")
        pending = (await served.client.get("/api/pending")).json()

    body = cancelled.json()
    assert (cancelled.status_code, body["status"], body["reason"]) == (200, "stopped", "too late")
    assert again.status_code == 409
    assert pending["items"] == []


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_run_that_asks_its_model_is_cancelled_at_once(tmp_path: Path, is_stored: bool) -> None:
    asked = asyncio.Event()

    async def never(messages: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    runtime = build_runtime(store=str(tmp_path / "s.db") if is_stored else None)
    async with serve(runtime, agents=[greeter(never)]) as served:
        running = asyncio.create_task(run(served, "greeter", run_id="r1"))
        await asked.wait()
        cancelled = await served.client.post("/api/runs/r1/cancel")
        answer = await running

    assert cancelled.status_code == 200
    assert (answer.status_code, answer.json()["status"]) == (200, "stopped")


async def test_messages_reach_a_run_that_waits(tmp_path: Path) -> None:
    is_asked = asyncio.Event()

    def reply(messages: Any) -> str:
        is_asked.set()
        return f"Then: {messages[-1]['content']}"

    agent = payer([("pay", {"amount": 5})], reply)
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[agent]) as served:
        await run(served, "payer", run_id="r1")
        steered = await served.client.post("/api/runs/r1/steer", json={"text": "Never mind."})
        await is_asked.wait()

    assert steered.status_code == 202
    assert isinstance(agent.model, ScriptedModel)
    assert "Never mind." in str(agent.model.requests[1].messages)


async def test_a_client_tool_of_a_run_is_answered_by_its_run(tmp_path: Path) -> None:
    agent = Agent("asker", model=ScriptedModel([("pick", {})], "Blue it is."), tools=[pick])
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[agent]) as served:
        answer = (await run(served, "asker", run_id="r1")).json()
        body = {"callId": answer["waiting"][0]["call_id"], "result": "blue"}
        foreign = await served.client.post("/api/runs/r2/tool-results", json=body)
        settled = await served.client.post("/api/runs/r1/tool-results", json=body)
        ended = await wait_for_status(served, "r1", "done")

    assert (foreign.status_code, settled.status_code, ended["text"]) == (403, 200, "Blue it is.")


async def test_one_process_drives_a_run(tmp_path: Path) -> None:
    store = str(tmp_path / "s.db")
    model = ScriptedModel([("pay", {"amount": 1})], "Paid.")
    agent = Agent("payer", model=model, tools=[pay])
    async with (
        serve(build_runtime(store=store), agents=[agent]) as one,
        serve(build_runtime(store=store), agents=[agent]),
    ):
        answer = (await run(one, "payer", run_id="r1")).json()
        await one.client.post(f"/api/pending/{answer['waiting'][0]['call_id']}/approve")
        await wait_for_status(one, "r1", "done")

    assert len(model.requests) == 2


@pytest.mark.parametrize("is_stored", [True, False])
async def test_the_tree_of_a_call_of_an_agent_is_shown_to_whom_may_run_the_agent(
    tmp_path: Path, is_stored: bool
) -> None:
    runtime = build_runtime(store=str(tmp_path / "s.db") if is_stored else None)
    runner = gateway.new_token()
    auth = gateway.bearer_tokens(
        gateway.Token(gateway.hash_token(runner), "ada", scopes=frozenset({"agents:*", "tools:agent__*"}))
    )
    boss = Agent(
        "boss",
        model=ScriptedModel([("agent__adder", {"prompt": "Add."})], "Added."),
        tools=[],
        agents=[Agent("adder", model=ScriptedModel([("add", {"a": 1, "b": 2})], "3."), tools=[add])],
    )
    async with serve(runtime, auth=auth, agents=[boss]) as served:
        await run(served, "boss", token=runner)
        while True:  # the journal is written in batches
            calls = (await served.client.get("/api/calls", headers=bearer(runner))).json()["items"]
            call_ids = [each["call_id"] for each in calls if each["tool"] == "add"]
            if call_ids:
                break
            await asyncio.sleep(0.05)
        [call_id] = call_ids
        tree = (await served.client.get(f"/api/calls/{call_id}/tree", headers=bearer(runner))).json()["calls"]

    assert call_id in [each["call_id"] for each in tree]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_the_pages_of_runs_have_each_run_once_though_one_has_gone_on(tmp_path: Path, is_stored: bool) -> None:
    runtime = build_runtime(store=str(tmp_path / "s.db") if is_stored else None)
    async with serve(runtime, agents=[payer(), greeter()]) as served:
        first = (await run(served, "payer")).json()["run_id"]
        second = (await run(served, "greeter")).json()["run_id"]
        await served.client.post(f"/api/runs/{first}/resume")
        pages = []
        cursor: dict[str, str] = {}
        while len(pages) < 3:
            page = (await served.client.get("/api/runs", params={"limit": 1, **cursor})).json()
            pages.append([each["run_id"] for each in page["items"]])
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}

    assert pages == [[second], [first]]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_the_list_says_which_run_has_called_a_sub_agent(tmp_path: Path, is_stored: bool) -> None:
    runtime = build_runtime(store=str(tmp_path / "s.db") if is_stored else None)
    boss = Agent(
        "boss",
        model=ScriptedModel([("agent__greeter", {"prompt": "Greet."})], "Greeted."),
        tools=[],
        agents=[greeter()],
    )
    async with serve(runtime, agents=[boss]) as served:
        top = (await run(served, "boss")).json()["run_id"]
        listed = (await served.client.get("/api/runs")).json()["items"]

    assert {each["agent"]: each["parent_run"] for each in listed} == {"boss": None, "greeter": top}


async def test_an_invalid_prompt_is_refused() -> None:
    async with serve(build_runtime(), agents=[greeter()]) as served:
        empty = await run(served, "greeter", "")
        no_role = await run(served, "greeter", [{"content": "x"}])
        both = await run(served, "greeter", run_id="r", headers={"idempotency-key": "k"})

    assert [each.status_code for each in (empty, no_role, both)] == [422, 422, 422]
