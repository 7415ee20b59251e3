"""Events for agents over HTTP: stored with 202, run by the gateway's worker, and seen by those whose they are."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from surehand import Runtime
from tests.gateway.api.served_gateway import ServedGateway, bearer, build_runtime, serve
from tests.gateway.api.test_agents import ADA, AUTH, BOB, READER, greeter, payer


async def trigger(served: ServedGateway, data: Any, *, token: str | None = None, key: str | None = None) -> Any:
    headers = {**bearer(token), **({} if key is None else {"idempotency-key": key})}
    return await served.client.post("/api/agents/greeter/trigger", json={"data": data}, headers=headers)


async def wait_for_end(served: ServedGateway, event: dict[str, Any], token: str | None = None) -> dict[str, Any]:
    path = f"/api/agents/{event['agent']}/inbox/{event['event_id']}"
    while True:
        found = (await served.client.get(path, headers=bearer(token))).json()
        if found["status"] != "waiting":
            return found
        await asyncio.sleep(0.02)


async def test_an_event_is_answered_with_202_and_run_by_the_gateway(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[greeter()]) as served:
        answer = await trigger(served, {"order": 7}, token=ADA)
        event = answer.json()
        ended = await wait_for_end(served, event, ADA)
        run = (await served.client.get(f"/api/runs/{event['run_id']}", headers=bearer(ADA))).json()

    assert (answer.status_code, event["status"], event["run_status"]) == (202, "waiting", None)
    assert (event["agent"], event["user"], event["data"]) == ("greeter", "ada", {"order": 7})
    assert (ended["status"], ended["run_status"]) == ("done", "done")
    assert (run["status"], run["text"]) == ("done", "Hello.")


async def test_a_key_is_one_event_of_its_user_and_other_data_under_it_are_a_conflict(tmp_path: Path) -> None:
    agent = greeter("Hello.", "Hello.")
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[agent]) as served:
        first = (await trigger(served, "Hi", token=ADA, key="k1")).json()
        again = (await trigger(served, "Hi", token=ADA, key="k1")).json()
        other_data = await trigger(served, "Bye", token=ADA, key="k1")
        of_bob = (await trigger(served, "Bye", token=BOB, key="k1")).json()
        for event, token in [(first, ADA), (of_bob, BOB)]:
            await wait_for_end(served, event, token)

    assert again["run_id"] == first["run_id"] != of_bob["run_id"]
    assert (other_data.status_code, other_data.json()["code"]) == (409, "conflict")
    assert len(agent.model.requests) == 2  # type: ignore[attr-defined]


async def test_events_are_listed_in_pages_to_the_user_whose_they_are(tmp_path: Path) -> None:
    runtime = build_runtime(store=str(tmp_path / "s.db"))
    async with serve(runtime, auth=AUTH, agents=[greeter("a", "b", "c")]) as served:
        events = [(await trigger(served, number, token=ADA)).json() for number in range(3)]
        for event in events:
            await wait_for_end(served, event, ADA)
        first = (await served.client.get("/api/agents/greeter/inbox?limit=2", headers=bearer(ADA))).json()
        rest = await served.client.get(f"/api/agents/greeter/inbox?limit=2&cursor={first['next']}", headers=bearer(ADA))
        of_bob = (await served.client.get("/api/agents/greeter/inbox", headers=bearer(BOB))).json()
        hidden = await served.client.get(f"/api/agents/greeter/inbox/{events[0]['event_id']}", headers=bearer(BOB))
        no_cursor = await served.client.get("/api/agents/greeter/inbox?cursor=x", headers=bearer(ADA))

    assert [each["data"] for each in (*first["items"], *rest.json()["items"])] == [2, 1, 0]
    assert rest.json()["next"] is None
    assert of_bob == {"items": [], "next": None}
    assert (hidden.status_code, no_cursor.status_code) == (404, 400)


@pytest.mark.parametrize("path", ["trigger", "inbox", "inbox/e1"])
async def test_who_may_not_run_an_agent_may_not_trigger_it(tmp_path: Path, path: str) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), auth=AUTH, agents=[greeter()]) as served:
        method = "POST" if path == "trigger" else "GET"
        body = {"json": {"data": "Hi"}} if path == "trigger" else {}
        refused = await served.client.request(method, f"/api/agents/greeter/{path}", headers=bearer(READER), **body)
        unknown = await served.client.request(method, f"/api/agents/nobody/{path}", headers=bearer(ADA), **body)

    assert (refused.status_code, unknown.status_code) == (404, 404)


async def test_what_is_no_event_is_refused(tmp_path: Path) -> None:
    async with serve(build_runtime(store=str(tmp_path / "s.db")), agents=[greeter()]) as served:
        without_data = await served.client.post("/api/agents/greeter/trigger", json={})
        with_more = await served.client.post("/api/agents/greeter/trigger", json={"data": 1, "prompt": "Hi"})
    async with serve(build_runtime(), agents=[greeter()]) as served:
        without_store = await trigger(served, "Hi")

    assert (without_data.status_code, with_more.status_code) == (422, 422)
    assert without_store.status_code == 503


async def test_a_gateway_that_stops_leaves_its_runs_to_the_next_one(tmp_path: Path) -> None:
    store = str(tmp_path / "s.db")
    asked = asyncio.Event()

    async def answer(messages: Any) -> Any:
        asked.set()
        return [("pay", {"amount": 5})]

    async with serve(build_runtime(store=store), agents=[payer(answer)]) as served:
        event = (await served.client.post("/api/agents/payer/trigger", json={"data": "Pay."})).json()
        await asked.wait()
    async with serve(build_runtime(store=store), agents=[payer("It is paid.")]) as served:
        while not (waits := (await served.client.get("/api/pending")).json()["items"]):  # noqa: ASYNC110 - the gateway has no event for this
            await asyncio.sleep(0.02)
        await served.client.post(f"/api/pending/{waits[0]['call_id']}/approve")
        ended = await wait_for_end(served, event)

    assert (ended["status"], ended["run_id"]) == ("done", event["run_id"])


async def test_an_event_of_another_process_is_run_by_the_gateway(tmp_path: Path) -> None:
    store = str(tmp_path / "s.db")
    async with Runtime(store=store) as elsewhere:
        await elsewhere.trigger("greeter", "Hi", "e1")
    async with serve(build_runtime(store=store), agents=[greeter()]) as served:
        ended = await wait_for_end(served, {"agent": "greeter", "event_id": "e1"})

    assert ended["status"] == "done"
