"""Every route of the OpenAPI document, for requests that may not see what is behind it: so that none is forgotten."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from surehand import Agent, tool
from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token, operator_token
from surehand.gateway.http_app import app
from surehand.testing import ScriptedModel
from tests.gateway.api.served_gateway import ServedGateway, bearer, build_runtime, serve

SECRET = "the-secret-of-ada"
PUBLIC = {"/healthz", "/readyz"}
TOKENS = bearer_tokens(
    Token(hash_token("ada"), "ada"),
    Token(hash_token("bob"), "bob"),
    Token(hash_token("few"), "ada", frozenset({"nothing"})),
    operator_token("root"),
)
SIGNED = {"/api/webhooks/{webhook}/answers"}
"""Routes that know their senders by a signature instead of a token."""
ABOUT_ALL_USERS = {
    "/metrics", "/api/statistics", "/api/audit/verify", "/api/servers", "/api/servers/{server}/refresh",
    "/api/servers/{server}/accept", "/api/servers/{server}/sign-in",
}  # fmt: skip
"""Routes that need `calls:all` or `*`."""
BODIES: dict[str, Any] = {
    "/api/tools/{name}/call": {"arguments": {"text": "mine"}},
    "/api/pending/{call_id}/result": {"result": 1},
    "/api/runs/{run}/tool-results": {"callId": "{call_id}", "result": 1},
    "/tool-results": {"callId": "{call_id}", "result": 1},
    "/api/sessions/{session}/tools": {"tools": [{"name": "colour", "description": "Ask for a colour."}]},
    "/api/agents/{agent}/run": {"prompt": "Go."},
    "/api/agents/{agent}/trigger": {"data": {}},
    "/api/agents/{agent}/agui": {
        "threadId": "t", "runId": "bobs-run", "messages": [{"id": "1", "role": "user", "content": "Go."}], "tools": [],
        "context": [], "state": {}, "forwardedProps": {},
    },
    "/api/runs/{run}/steer": {"text": "Go on."},
    "/api/runs/{run}/follow_up": {"text": "Go on."},
    "/api/spaces": {"name": "mine"},
    "/api/spaces/{space}/members": {"id": "bob"},
    "/api/spaces/{space}/messages": {"content": "Hello."},
    "/api/servers/{server}/accept": {"sha256": "0"},
}  # fmt: skip
"""Bodies that are valid: a request must be refused for its identity, not for its body."""


@tool(effects={"write"}, confirm=True)
async def whisper(text: str) -> str:
    """Whisper."""
    return text


def operations() -> list[tuple[str, str]]:
    """The method and the path of every operation."""
    document = app(build_runtime()).openapi()
    return [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]


@asynccontextmanager
async def gateway_with_things_of_ada(folder: Path) -> AsyncIterator[tuple[ServedGateway, dict[str, str]]]:
    """A gateway, and the ids of a call that waits, a run, a space and more, all of ada."""
    replies = [lambda messages: SECRET if SECRET in str(messages) else "Done."] * 9
    clerk = Agent("clerk", model=ScriptedModel(*replies), tools=[])
    runtime = build_runtime(whisper, store=folder / "calls.db")
    async with serve(runtime, auth=TOKENS, agents=[clerk]) as gateway:
        call = await gateway.call("whisper", {"text": SECRET}, token="ada", turn="ada-turn", session="ada-session")
        always = (await gateway.call("whisper", {"text": "always"}, token="ada")).json()["call_id"]
        await gateway.client.post(f"/api/pending/{always}/approve", json={"always": True}, headers=bearer("ada"))
        run = {"prompt": SECRET, "run_id": "ada-run"}
        await gateway.client.post("/api/agents/clerk/run", json=run, headers=bearer("ada"))
        trigger = {"data": SECRET}
        event = await gateway.client.post("/api/agents/clerk/trigger", json=trigger, headers=bearer("ada"))
        space = {"id": "ada-space", "name": SECRET}
        await gateway.client.post("/api/spaces", json=space, headers=bearer("ada"))
        yield gateway, {
            "call_id": call.json()["call_id"], "run": "ada-run", "space": "ada-space", "name": "whisper",
            "agent": "clerk", "session": "ada-session", "member": "ada", "server": "nothing",
            "event": event.json()["event_id"],
        }  # fmt: skip


def fill(template: str, ids: dict[str, str]) -> str:
    for name, value in ids.items():
        template = template.replace(f"{{{name}}}", value)
    return template


async def request(
    gateway: ServedGateway, method: str, path: str, ids: dict[str, str], token: str
) -> tuple[httpx2.Response, str]:
    """The response to a valid request, and its text; of an event stream only its beginning."""
    options: dict[str, Any] = {}
    if method == "POST" and path in BODIES:
        options["json"] = json.loads(fill(json.dumps(BODIES[path]), ids))
    async with gateway.client.stream(method, fill(path, ids), headers=bearer(token), **options) as response:
        if response.headers["content-type"].startswith("text/event-stream") and path.endswith("/events"):
            return response, (await anext(response.aiter_bytes())).decode()
        return response, (await response.aread()).decode()


async def refusals(gateway: ServedGateway, user: str) -> list[Any]:
    """What was refused to a user, as the audit has it."""
    query = {"user": user, "limit": 200}
    rows = (await gateway.client.get("/api/audit", params=query, headers=bearer("root"))).json()["items"]
    return [row["detail"] for row in rows if row["kind"] == "refused"]


async def test_a_token_without_scopes_gets_nothing_from_any_route(tmp_path: Path) -> None:
    async with gateway_with_things_of_ada(tmp_path) as (gateway, ids):
        for method, path in operations():
            if path in PUBLIC:
                continue
            refused_before = await refusals(gateway, "ada")
            response, text = await request(gateway, method, path, ids, "few")

            is_list = method == "GET" and "{" not in path and path not in ABOUT_ALL_USERS
            case = (method, path, response.status_code, text)
            assert SECRET not in text, case
            if path in SIGNED:
                assert response.status_code == 401, case
            elif path == "/api/describe":
                assert json.loads(text) == {"tools": [], "left_out": {}, "instructions": None}, case
            elif is_list and path != "/api/events":
                assert (response.status_code, json.loads(text)["items"]) == (200, []), case
            elif path.endswith("/events") and response.status_code == 200:
                assert text == ": ping\n\n", case  # events are filtered one by one
            else:
                assert response.status_code in (403, 404), case
                assert response.headers["content-type"] == "application/problem+json", case
                assert len(await refusals(gateway, "ada")) > len(refused_before), case


async def test_the_things_of_a_user_are_404_for_another_one_on_every_route(tmp_path: Path) -> None:
    async with gateway_with_things_of_ada(tmp_path) as (gateway, ids):
        for method, path in operations():
            is_of_ada = any(f"{{{name}}}" in path for name in ("call_id", "run", "space", "member", "event"))
            has_call = "{call_id}" in json.dumps(BODIES.get(path, {}))
            refused_before = await refusals(gateway, "bob")
            response, text = await request(gateway, method, path, ids, "bob")

            case = (method, path, response.status_code, text)
            assert SECRET not in text, case
            if path in SIGNED:
                assert response.status_code == 401, case
            elif path in ABOUT_ALL_USERS:
                assert response.status_code == 403, case
                assert len(await refusals(gateway, "bob")) > len(refused_before), case
            elif is_of_ada or (has_call and method == "POST"):
                assert response.status_code == 404, case
                assert response.headers["content-type"] == "application/problem+json", case
                assert len(await refusals(gateway, "bob")) > len(refused_before), case
            else:
                assert response.status_code in (200, 201, 202, 404), case  # of bob's own, or unknown


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_requests_without_a_valid_token_are_audited(tmp_path: Path, token: str) -> None:
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=TOKENS) as gateway:
        refused = await gateway.client.get("/api/tools?token=wrong", headers=bearer(token) if token else {})
        host = await gateway.client.get("/api/tools", headers={"host": "evil.test", **bearer("root")})
        origin = await gateway.client.get("/api/tools", headers={"origin": "https://evil.test", **bearer("root")})
        audit = (await gateway.client.get("/api/audit", headers=bearer("root"))).json()["items"]

    assert [each.status_code for each in (refused, host, origin)] == [401, 421, 403]
    details = [row["detail"] for row in reversed(audit) if row["kind"] == "refused"]
    assert [each["code"] for each in details] == ["unauthorized", "misdirected", "denied"]
    assert {each["action"] for each in details} == {"GET /api/tools"}
    assert {each["client"] for each in details} == {"127.0.0.1"}


async def test_refusals_of_a_route_about_all_users_are_audited(tmp_path: Path) -> None:
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=TOKENS) as gateway:
        for path in ("/metrics", "/api/statistics", "/api/servers"):
            assert (await gateway.client.get(path, headers=bearer("bob"))).status_code == 403
        audit = (await gateway.client.get("/api/audit?user=bob", headers=bearer("root"))).json()["items"]

    actions = [row["detail"]["action"] for row in reversed(audit)]
    assert actions == ["read metrics", "read statistics", "list servers"]


async def test_refused_answers_are_audited_and_what_does_not_exist_is_not(tmp_path: Path) -> None:
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=TOKENS) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5}, token="ada")).json()["call_id"]
        url = f"/api/pending/{call_id}"
        for path, body in (
            (f"{url}/approve", {"arguments": {"amount": "much"}}),
            (f"{url}/approve", {"round": 7}),
            (f"{url}/result", {"result": 1}),
        ):
            await gateway.client.post(path, json=body, headers=bearer("ada"))
        for path in ("/api/calls/nothing", "/api/pending/nothing", "/api/tools/nothing", "/api/runs/nothing"):
            assert (await gateway.client.get(path, headers=bearer("ada"))).status_code == 404
        refused = await refusals(gateway, "ada")
        waiting = await gateway.client.get(url, headers=bearer("ada"))

    assert [each["code"] for each in reversed(refused)] == ["invalid_arguments", "conflict", "conflict"]
    assert waiting.status_code == 200


async def test_a_flood_of_requests_without_a_token_is_a_bounded_number_of_audit_rows(tmp_path: Path) -> None:
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=TOKENS) as gateway:
        for _ in range(130):
            assert (await gateway.client.get("/api/tools")).status_code == 401
        audit = (await gateway.client.get("/api/audit?limit=200", headers=bearer("root"))).json()["items"]

    assert len(audit) == 100
