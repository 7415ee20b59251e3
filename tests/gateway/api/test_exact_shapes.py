"""Shapes of the HTTP API that programs rely on, as far as no other test is about them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from surehand import Agent, Policy, tool
from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token
from surehand.gateway.http_app import app
from surehand.providers.openapi.factory import openapi
from surehand.testing import ManualClock, ScriptedModel
from tests.gateway.api.served_gateway import Gate, bearer, build_runtime, serve
from tests.providers.openapi.api_server import document, operation


def list_paths() -> list[str]:
    """The paths of all lists: `GET` routes whose answer has `items`."""
    described: Mapping[str, Any] = app(build_runtime()).openapi()
    schemas = described["components"]["schemas"]
    found = []
    for path, methods in described["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        model = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
        if "items" in schemas.get(model, {}).get("properties", ()):
            found.append(path)
    return found


def shop(namespace: str) -> Any:
    """A provider."""
    root = document({"/orders": {"post": operation(operationId="order")}}, servers=[{"url": "http://127.0.0.1:9"}])
    return openapi(root, namespace=namespace)


def asking_tool(name: str) -> Any:
    @tool(name=name, confirm=True)
    async def ask() -> str:
        """Ask first."""
        return "done"

    return ask


async def test_every_list_has_items_and_the_cursor_of_the_next_page(tmp_path: Path) -> None:
    agents = [Agent(name, model=ScriptedModel(*["Done."] * 9), tools=[]) for name in ("ann", "ben", "cid")]
    sources = [source for number in range(3) for source in (shop(f"shop{number}"), asking_tool(f"ask{number}"))]
    async with serve(build_runtime(*sources, store=tmp_path / "calls.db"), agents=agents) as gateway:
        for number in range(3):
            await gateway.call("pick", session=f"s{number}")
            asking = (await gateway.call(f"ask{number}", {})).json()["call_id"]
            await gateway.client.post(f"/api/pending/{asking}/approve", json={"always": True})
            await gateway.client.post("/api/agents/ann/run", json={"prompt": "Go."})
            await gateway.client.post("/api/agents/ben/trigger", json={"data": f"Go {number}."})
            await gateway.client.post("/api/spaces", json={"id": f"space-{number}"})
            member = {"id": f"member-{number}"}
            await gateway.client.post("/api/spaces/space-0/members", json=member)
            message = {"content": str(number), "sender": "member-0"}
            await gateway.client.post("/api/spaces/space-0/messages", json=message)
        assert {"/api/tools", "/api/servers", "/api/spaces/{space}/members", "/api/grants"} <= set(list_paths())
        for path in list_paths():
            path = path.replace("{space}", "space-0").replace("{agent}", "ben")
            items: list[Any] = []
            cursor = None
            while cursor is not None or not items:
                params = {"limit": 1, **({} if cursor is None else {"cursor": cursor})}
                page = (await gateway.client.get(path, params=params)).json()
                assert set(page) == {"items", "next"}, (path, page)
                assert len(page["items"]) == 1 or page["next"] is None, (path, page)
                items += page["items"]
                cursor = page["next"]
            assert len(items) >= 3, path
            assert all(items.count(each) == 1 for each in items), path  # no item is on two pages


async def test_a_call_has_the_timeout_of_its_body() -> None:
    gate = Gate()
    async with serve(build_runtime(gate.tool)) as gateway:
        timed_out = await gateway.call("wait", {}, timeout=0.05)
        invalid = await gateway.call("add", {"a": 1, "b": 2}, timeout="soon")
        in_time = await gateway.call("add", {"a": 1, "b": 2}, timeout="30s")

    assert (timed_out.status_code, timed_out.json()["code"]) == (200, "timed_out")
    assert (invalid.status_code, in_time.json()["data"]) == (422, 3)


async def test_a_body_may_have_16_megabytes() -> None:
    body = b'{"arguments": "' + b"x" * (16 << 20) + b'"}'
    headers = {"content-type": "application/json"}
    async with serve(build_runtime()) as gateway:
        refused = await gateway.client.post("/api/tools/add/call", content=body, headers=headers)
        fitting = body[: -len('"}') - (len(body) - (16 << 20))] + b'"}'
        taken = await gateway.client.post("/api/tools/add/call", content=fitting, headers=headers)

    assert len(fitting) == 16 << 20
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert (taken.status_code, taken.json()["code"]) == (200, "too_large")  # the call was made, with too much for it


async def test_the_app_keeps_the_policy_of_its_runtime() -> None:
    @tool(effects={"execute"})
    async def launch() -> str:
        """Launch."""
        return "launched"

    async with serve(build_runtime(launch)) as gateway:
        allowed = await gateway.call("launch")
    async with serve(build_runtime(launch, policy=Policy.default())) as gateway:
        asked = await gateway.call("launch")

    assert (allowed.status_code, asked.status_code) == (200, 202)


# The results of client tools, one status each

RESULT_URLS = ("/tool-results", "/api/runs/run1/tool-results")
USERS = bearer_tokens(Token(hash_token("ada"), "ada"), Token(hash_token("bob"), "bob"))


@pytest.mark.parametrize("url", RESULT_URLS)
@pytest.mark.parametrize("body", [{"result": 1}, {"callId": "", "result": 1}])
async def test_a_result_without_a_call_id_is_400(url: str, body: Any) -> None:
    async with serve(build_runtime()) as gateway:
        refused = await gateway.client.post(url, json=body)

    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize("url", RESULT_URLS)
async def test_a_result_for_an_unknown_call_is_404(url: str) -> None:
    async with serve(build_runtime()) as gateway:
        refused = await gateway.client.post(url, json={"callId": "nothing", "result": 1})

    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")


async def test_a_result_for_a_call_of_another_run_is_403_and_leaves_it_waiting() -> None:
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pick", turn="run2")).json()["call_id"]
        refused = await gateway.client.post(RESULT_URLS[1], json={"callId": call_id, "result": 1})
        waiting = await gateway.client.get(f"/api/pending/{call_id}")

    assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    assert waiting.status_code == 200


async def test_access_is_checked_before_the_run_of_a_result() -> None:
    async with serve(build_runtime(), auth=USERS) as gateway:
        call_id = (await gateway.call("pick", turn="run2", token="ada")).json()["call_id"]
        body = {"callId": call_id, "result": 1}
        refused = await gateway.client.post(RESULT_URLS[1], json=body, headers=bearer("bob"))

    assert refused.status_code == 404  # and not 403, which would tell bob that there is such a call


@pytest.mark.parametrize("url", RESULT_URLS)
async def test_another_result_for_an_answered_call_is_409(url: str) -> None:
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pick", turn="run1")).json()["call_id"]
        taken = await gateway.client.post(url, json={"callId": call_id, "result": 1})
        same = await gateway.client.post(url, json={"callId": call_id, "result": 1})
        other = await gateway.client.post(url, json={"callId": call_id, "result": 2})

    assert [each.status_code for each in (taken, same, other)] == [200, 200, 409]
    assert taken.json() == same.json()
    assert (taken.json()["data"], other.json()["code"]) == (1, "conflict")


@pytest.mark.parametrize("url", RESULT_URLS)
async def test_a_result_for_a_cancelled_call_is_409(url: str) -> None:
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pick", turn="run1")).json()["call_id"]
        await gateway.client.post(f"/api/calls/{call_id}/cancel")
        refused = await gateway.client.post(url, json={"callId": call_id, "result": 1})

    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize("url", RESULT_URLS)
async def test_a_result_for_an_expired_call_is_409(url: str) -> None:
    clock = ManualClock()
    question = tool.client("question", "Ask.", reply="later", expires=60)
    async with serve(build_runtime(question, clock=clock)) as gateway:
        call_id = (await gateway.call("question", turn="run1")).json()["call_id"]
        await clock.advance(61)
        refused = await gateway.client.post(url, json={"callId": call_id, "result": 1})

    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize("url", RESULT_URLS)
async def test_a_body_without_a_result_is_400_and_null_is_a_result(url: str) -> None:
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pick", turn="run1")).json()["call_id"]
        refused = await gateway.client.post(url, json={"callId": call_id})
        waiting = await gateway.client.get(f"/api/pending/{call_id}")
        taken = await gateway.client.post(url, json={"callId": call_id, "result": None})

    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
    assert waiting.status_code == 200
    assert (taken.status_code, taken.json()["status"], taken.json()["data"]) == (200, "done", None)


@pytest.mark.parametrize("body", [{}, {"round": 1}, {"failed": None}])
async def test_an_answer_without_a_result_or_a_failure_is_422_and_null_is_a_result(body: Any) -> None:
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pick")).json()["call_id"]
        refused = await gateway.client.post(f"/api/pending/{call_id}/result", json=body)
        waiting = await gateway.client.get(f"/api/pending/{call_id}")
        taken = await gateway.client.post(f"/api/pending/{call_id}/result", json={"result": None})

    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_arguments")
    assert waiting.status_code == 200
    assert (taken.status_code, taken.json()["status"], taken.json()["data"]) == (200, "done", None)
