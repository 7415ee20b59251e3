"""Calling tools over HTTP, and what is remembered of the calls."""

import asyncio
import json

import pytest

from surehand import tool
from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token
from surehand.gateway.webhooks.signatures import new_webhook_secret, sign_webhook
from surehand.gateway.webhooks.webhook import Webhook
from tests.gateway.api.served_gateway import EventReader, Gate, bearer, build_runtime, serve


async def test_a_call_is_answered_with_its_outcome():
    async with serve(build_runtime()) as gateway:
        response = await gateway.call("add", {"a": 1, "b": 2})

    assert response.status_code == 200
    answer = response.json()
    assert answer == {"status": "done", "call_id": answer["call_id"], "data": 3, "text": "3"}


async def test_arguments_may_be_the_text_that_a_model_wrote():
    async with serve(build_runtime()) as gateway:
        response = await gateway.call("add", '{"a": 1, "b": 2}')

    assert response.json()["data"] == 3


async def test_a_tool_that_crashed_is_answered_with_200():
    async with serve(build_runtime()) as gateway:
        response = await gateway.call("fail")

    assert response.status_code == 200
    answer = response.json()
    assert (answer["status"], answer["code"], answer["executed"]) == ("failed", "crashed", True)
    assert "no luck" in answer["message"]


async def test_an_unknown_tool_is_404_with_the_nearest_name():
    async with serve(build_runtime()) as gateway:
        response = await gateway.call("ad")

    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert (problem["code"], problem["status"]) == ("not_found", 404)
    assert "add" in problem["detail"]


async def test_invalid_arguments_are_422():
    async with serve(build_runtime()) as gateway:
        response = await gateway.call("add", {"a": "x", "b": 2})

    assert (response.status_code, response.json()["code"]) == (422, "invalid_arguments")


async def test_a_body_that_is_no_json_is_400_and_an_unknown_field_422():
    async with serve(build_runtime()) as gateway:
        malformed = await gateway.client.post(
            "/api/tools/add/call", content=b"{", headers={"content-type": "application/json"}
        )
        unknown = await gateway.call("add", {"a": 1, "b": 2}, argument={})

    assert (malformed.status_code, malformed.json()["code"]) == (400, "bad_request")
    assert (unknown.status_code, unknown.json()["code"]) == (422, "invalid_arguments")
    assert "there is no field body." in unknown.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"arguments": {"a": 1, "a": 2, "b": 2}}', 422),
        (b'{"arguments": {"a": NaN, "b": 2}}', 400),
        (rb'{"arguments": {"a": "\ud800", "b": 2}}', 400),
        ('{"arguments": {"a": 1, "b": 2}}'.encode("utf-16"), 422),
        (b'{"arguments": ' + b"[" * 300 + b"]" * 300 + b"}", 422),
        (b'{"arguments": [' + b"0," * 100_001 + b"0]}", 413),
    ],
)
async def test_a_body_that_is_not_exactly_one_json_value_is_refused(body, status):
    async with serve(build_runtime()) as gateway:
        headers = {"content-type": "application/json"}
        response = await gateway.client.post("/api/tools/add/call", content=body, headers=headers)

    assert response.status_code == status


async def test_every_route_reads_its_body_strictly():
    secret = new_webhook_secret()
    body = b'{"number": NaN}'
    headers = {"content-type": "application/json", **sign_webhook(body, [secret])}
    async with serve(build_runtime(), webhooks=[Webhook("webhook", (secret,))]) as gateway:
        paths = [
            (method, path)
            for path, operations in gateway.api.openapi()["paths"].items()
            for method, operation in operations.items()
            if "requestBody" in operation
        ]
        for method, path in paths:
            url = path.replace("{", "").replace("}", "")
            response = await gateway.client.request(method, url, content=body, headers=headers)
            assert (response.status_code, response.json()["code"]) == (400, "bad_request"), (method, path)
            assert "not valid JSON" in response.json()["detail"], (method, path, response.text)

    assert len(paths) >= 18


async def test_a_call_that_needs_an_approval_is_202():
    async with serve(build_runtime()) as gateway:
        response = await gateway.call("pay", {"amount": 5})

    assert response.status_code == 202
    answer = response.json()
    assert (answer["status"], answer["waiting_for"]) == ("pending", "approval")


async def test_a_call_that_policy_denies_is_403():
    policy = [{"tools": "add", "decision": "deny"}]
    async with serve(build_runtime(policy=policy)) as gateway:
        response = await gateway.call("add", {"a": 1, "b": 2})

    assert (response.status_code, response.json()["code"]) == (403, "denied")


async def test_the_same_idempotency_key_is_the_same_call():
    runs = []

    @tool(effects={"write"})
    async def send(text: str) -> str:
        """Send a text."""
        runs.append(text)
        return "sent"

    async with serve(build_runtime(send)) as gateway:
        url = "/api/tools/send/call"
        first = await gateway.client.post(url, json={"arguments": {"text": "a"}}, headers={"Idempotency-Key": "k1"})
        again = await gateway.client.post(url, json={"arguments": {"text": "a"}}, headers={"Idempotency-Key": "k1"})
        other = await gateway.client.post(url, json={"arguments": {"text": "b"}}, headers={"Idempotency-Key": "k1"})

    assert runs == ["a"]
    assert first.json() == again.json()
    assert (other.status_code, other.json()["code"]) == (409, "conflict")


async def test_an_idempotency_key_that_is_empty_or_too_long_is_refused_before_the_call():
    runs = []

    @tool(effects={"write"})
    async def send() -> str:
        """Send."""
        runs.append("sent")
        return "sent"

    async with serve(build_runtime(send)) as gateway:
        for key in ("", "k" * 151):
            headers = {"Idempotency-Key": key}
            response = await gateway.client.post("/api/tools/send/call", json={}, headers=headers)
            problem = response.json()
            assert (response.status_code, problem["code"]) == (422, "invalid_arguments")
            assert "header.idempotency-key" in problem["detail"]

    assert not runs


async def test_a_call_can_be_followed_as_it_runs():
    @tool(effects={"read"})
    async def count(to: int):
        """Count."""
        for number in range(to):
            yield {"number": number}

    async with serve(build_runtime(count)) as gateway:
        headers = {"accept": "text/event-stream"}
        reader = EventReader(
            gateway.client, "/api/tools/count/call", headers, method="POST", json={"arguments": {"to": 3}}
        )
        async with reader as events:
            seen = await events.rest()

    names = [event["sse_event"] for event in seen]
    assert names == ["CallStarted", "CallProgress", "CallProgress", "CallProgress", "CallEnded"]
    assert seen[-1]["outcome"]["data"] == {"number": 2}
    assert all(event["call_id"] == seen[0]["call_id"] for event in seen)


async def test_a_call_whose_client_went_away_goes_on():
    gate = Gate()
    async with serve(build_runtime(gate.tool)) as gateway:
        request = asyncio.create_task(
            gateway.client.post("/api/tools/wait/call", json={}, headers={"Idempotency-Key": "w"})
        )
        await gate.started.wait()
        request.cancel()
        await asyncio.wait({request})
        gate.opened.set()

        outcome = await gateway.api.gateway.runtime.result("w", timeout=10)

    assert outcome.data == "opened"


async def test_a_running_call_can_be_cancelled():
    gate = Gate()
    async with serve(build_runtime(gate.tool)) as gateway:
        request = asyncio.create_task(
            gateway.client.post("/api/tools/wait/call", json={}, headers={"Idempotency-Key": "w"})
        )
        await gate.started.wait()
        cancelled = await gateway.client.post("/api/calls/w/cancel")
        answer = (await request).json()
        again = await gateway.client.post("/api/calls/w/cancel")
        unknown = await gateway.client.post("/api/calls/nothing/cancel")

    assert cancelled.status_code == 200
    assert (answer["status"], answer["code"]) == ("failed", "cancelled")
    assert again.status_code == 409
    assert unknown.status_code == 404


async def check_pages(runtime):
    async with serve(runtime) as gateway:
        made = [(await gateway.call("add", {"a": 1, "b": each})).json()["call_id"] for each in range(5)]
        first = (await gateway.client.get("/api/calls", params={"limit": 2})).json()
        second = (await gateway.client.get("/api/calls", params={"limit": 2, "cursor": first["next"]})).json()
        third = (await gateway.client.get("/api/calls", params={"limit": 2, "cursor": second["next"]})).json()
        bad = await gateway.client.get("/api/calls", params={"cursor": "x"})

    listed = [call["call_id"] for page in (first, second, third) for call in page["items"]]
    assert listed == [*reversed(made)]
    assert third["next"] is None
    assert first["items"][0]["status"] == "ok"
    assert bad.status_code == 400


async def test_calls_are_listed_newest_first_in_pages():
    await check_pages(build_runtime())


async def test_stored_calls_are_listed_newest_first_in_pages(tmp_path):
    await check_pages(build_runtime(store=tmp_path / "calls.db"))


async def test_a_call_is_shown_with_its_arguments_and_outcome(tmp_path):
    for store in (None, tmp_path / "calls.db"):
        async with serve(build_runtime(store=store)) as gateway:
            await gateway.client.post(
                "/api/tools/add/call", json={"arguments": {"a": 1, "b": 2}}, headers={"Idempotency-Key": "k"}
            )
            shown = (await gateway.client.get("/api/calls/k")).json()
            unknown = await gateway.client.get("/api/calls/nothing")

        assert (shown["tool"], shown["kind"], shown["status"]) == ("add", "ended", "ok")
        assert shown["arguments"] == {"a": 1, "b": 2}
        assert shown["outcome"]["data"] == 3
        assert unknown.status_code == 404


async def test_tools_are_listed_in_pages_and_shown():
    async with serve(build_runtime()) as gateway:
        first = (await gateway.client.get("/api/tools", params={"limit": 3})).json()
        rest = (await gateway.client.get("/api/tools", params={"cursor": first["next"]})).json()
        shown = (await gateway.client.get("/api/tools/add")).json()
        unknown = await gateway.client.get("/api/tools/nothing")

    names = [each["name"] for page in (first, rest) for each in page["items"]]
    assert names == sorted(names)
    assert {"add", "pay", "fail", "pick"} <= set(names)
    assert shown["parameters"]["required"] == ["a", "b"]
    assert unknown.status_code == 404


async def test_values_that_json_cannot_hold_are_answered_all_the_same():
    @tool(effects={"read"})
    async def odd() -> dict:
        """Return odd values."""
        return {"nan": float("nan"), "bytes": b"x", "text": "\ud800"[:0] + "a\0b"}

    async with serve(build_runtime(odd)) as gateway:
        response = await gateway.call("odd")

    assert response.status_code == 200
    assert json.loads(response.text)["data"]["text"] == "a\0b"


@pytest.mark.parametrize("is_stored", [True, False])
async def test_calls_are_filtered_by_their_status_over_all_pages(tmp_path, is_stored):
    gate = Gate()
    options = {"store": tmp_path / "s.db"} if is_stored else {}
    async with serve(build_runtime(gate.tool.evolve(effects={"write"}), **options)) as gateway:
        running = asyncio.create_task(gateway.call("wait"))
        await gate.started.wait()
        waiting = (await gateway.call("pay", {"amount": 1})).json()["call_id"]
        answered = (await gateway.call("pay", {"amount": 2})).json()["call_id"]
        await gateway.client.post(f"/api/pending/{answered}/approve")
        failed = {(await gateway.call("fail")).json()["call_id"] for _ in range(3)}
        for number in range(5):
            await gateway.call("add", {"a": number, "b": 0})
        listed = {
            each: await list_all(gateway, status=each, limit=2) for each in ("running", "waiting", "done", "failed")
        }
        refused = await gateway.client.get("/api/calls", params={"status": "ok"})
        gate.opened.set()
        await running

    assert [each["tool"] for each in listed["running"]] == ["wait"]
    assert [each["call_id"] for each in listed["waiting"]] == [waiting]
    assert {each["call_id"] for each in listed["failed"]} == failed
    assert len(listed["failed"]) == 3
    assert sorted(each["tool"] for each in listed["done"]) == ["add"] * 5 + ["pay"]
    assert refused.status_code == 422


async def list_all(gateway, **query):
    items = []
    cursor = None
    while True:
        page = (await gateway.client.get("/api/calls", params={**query, "cursor": cursor} if cursor else query)).json()
        items += page["items"]
        cursor = page["next"]
        if cursor is None:
            return items


async def test_calls_that_run_and_calls_that_ended_are_all_on_some_page(tmp_path):
    begun = asyncio.Semaphore(0)
    opened = asyncio.Event()

    @tool(effects={"write"}, timeout="off")
    async def build() -> str:
        """Build."""
        begun.release()
        await opened.wait()
        return "built"

    runtime = build_runtime(build, store=tmp_path / "calls.db")
    async with serve(runtime) as gateway:
        for number in range(6):
            await runtime.call("add", {"a": 1, "b": 2}, call_id=f"ended-{number}")
        running = [asyncio.create_task(runtime.call("build", {}, call_id=f"running-{number}")) for number in range(3)]
        for _ in running:
            await begun.acquire()
        listed: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await gateway.client.get("/api/calls", params={"limit": 3, **cursor})).json()
            listed += [each["call_id"] for each in page["items"]]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
        listed_running = await list_all(gateway, status="running", limit=2)
        opened.set()
        await asyncio.gather(*running)

    assert [each["call_id"] for each in listed_running] == ["running-2", "running-1", "running-0"]
    assert sorted(listed[:3]) == ["running-0", "running-1", "running-2"]
    assert sorted(listed[3:]) == [f"ended-{number}" for number in range(6)]


async def test_an_operator_with_a_name_cancels_calls_of_others_and_sees_all_spaces(tmp_path):
    gate = Gate()
    runtime = build_runtime(gate.tool, store=tmp_path / "calls.db")
    tokens = bearer_tokens(Token(hash_token("root"), "root", frozenset({"*"})))
    async with serve(runtime, auth=tokens) as gateway:
        await runtime.store.spaces.create("other", "x")
        running = asyncio.create_task(runtime.scope(user="bob").call("wait", {}, call_id="c1"))
        await gate.started.wait()
        cancelled = await gateway.client.post("/api/calls/c1/cancel", headers=bearer("root"))
        spaces = (await gateway.client.get("/api/spaces", headers=bearer("root"))).json()["items"]
        outcome = await running

    assert (cancelled.status_code, outcome.code) == (200, "cancelled")
    assert [space["id"] for space in spaces] == ["other"]
