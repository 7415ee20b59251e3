"""The OpenAPI document: complete, and every answer is as it says."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.generation import GenerationMode

from surehand import Agent
from surehand.gateway.access.access_control import SIGNED_PATHS
from surehand.gateway.http_app import app
from surehand.gateway.webhooks.signatures import new_webhook_secret, sign_webhook
from surehand.gateway.webhooks.webhook import Webhook
from surehand.providers.openapi.factory import openapi
from surehand.testing import ScriptedModel
from tests.gateway.api.served_gateway import build_runtime, serve
from tests.providers.openapi import api_server

# Event streams do not end by themselves.
SCHEMA = schemathesis.openapi.from_dict(app(build_runtime()).openapi()).exclude(path_regex="/events$")
OPERATIONS = [each.ok() for each in SCHEMA.get_all_operations()]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SECRET = new_webhook_secret()


def has_input(operation: schemathesis.APIOperation) -> bool:
    """Whether a request has anything that may be wrong."""
    return bool(operation.body or operation.path_parameters or operation.query or operation.headers)


CASES = [
    pytest.param(operation, mode, id=f"{operation.label} {mode.value}")
    for operation in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or has_input(operation)
]


def answer_of_model(messages: list[Any]) -> Any:
    """Ask for a payment on the first message of a run, so that it waits."""
    return "Done." if messages[-1]["role"] == "tool" else [("pay", {"amount": 1})]


class GatewayWithThings:
    """A gateway with an agent, a server and a webhook; each request gets things of its own that it can use up."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client
        self._post("/api/spaces", {"id": "home"})

    def _post(self, path: str, body: Any) -> Any:
        return self.client.post(path, json=body).json()

    def ids(self, path: str) -> dict[str, str]:
        """The ids of things that exist, by the parameter or field that names them."""
        known = {
            "name": "add", "space": "home", "agent": "clerk", "session": "s1", "server": "shop", "webhook": "bridge",
            "member": "ada", "run": "r1",
        }  # fmt: skip
        if "{space}" in path:
            self._post("/api/spaces/home/members", {"id": "ada"})
        if "{event}" in path:
            known["event"] = self._post("/api/agents/clerk/trigger", {"data": 1})["event_id"]
        if "{call_id}" in path or "result" in path or "{webhook}" in path:
            tool, arguments = ("pick", {}) if "result" in path else ("pay", {"amount": 1})
            known["call_id"] = self._post(f"/api/tools/{tool}/call", {"arguments": arguments, "turn": "r1"})["call_id"]
        elif "{run}" in path:
            known["run"] = self._post("/api/agents/clerk/run", {"prompt": "Pay."})["run_id"]
        if "/grants/" in path:
            known["name"] = "pay"
            asking = self._post("/api/tools/pay/call", {"arguments": {"amount": 1}})["call_id"]
            self._post(f"/api/pending/{asking}/approve", {"always": True})
        return known


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWithThings]:
    """A gateway that runs in a thread, because schemathesis sends its requests synchronously."""
    urls: list[str] = []
    is_ready = threading.Event()
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run(store: Path) -> None:
        clerk = Agent("clerk", model=ScriptedModel(*[answer_of_model] * 20_000), tools=["pay"])
        paths = {"/orders": {"post": api_server.operation(operationId="order")}}
        root = api_server.document(paths, servers=[{"url": "http://127.0.0.1:9"}])
        runtime = build_runtime(openapi(root, namespace="shop"), store=store)
        async with serve(runtime, agents=[clerk], webhooks=[Webhook("bridge", (SECRET,), people=("ada",))]) as gateway:
            urls.append(gateway.url)
            is_ready.set()
            await stop.wait()

    store = tmp_path_factory.mktemp("gateway") / "calls.db"
    thread = threading.Thread(target=loop.run_until_complete, args=(run(store),))
    thread.start()
    assert is_ready.wait(60)
    with httpx2.Client(base_url=urls[0], timeout=20, trust_env=False) as client:
        yield GatewayWithThings(client)
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def name_things(case: schemathesis.Case, ids: dict[str, str]) -> None:
    """Let a request be about things that exist, where it is about any."""
    for name in case.path_parameters or ():
        if name in ids:
            case.path_parameters[name] = ids[name]
    if isinstance(case.body, dict):
        for name, known in (("callId", "call_id"), ("call_id", "call_id"), ("sender", "member"), ("by", "member")):
            if name in case.body and known in ids:
                case.body[name] = ids[known]


def send(gateway: GatewayWithThings, case: schemathesis.Case) -> None:
    """Send a request, signed if its route wants that, and check the answer."""
    headers = {"accept": "application/json"}
    options = {"base_url": str(gateway.client.base_url), "timeout": 20}
    if SIGNED_PATHS.fullmatch(case.operation.path):
        content = json.dumps(case.body if isinstance(case.body, dict) else None).encode()
        case.headers = {}
        headers |= {**sign_webhook(content, [SECRET]), "content-type": "application/json"}
        response = gateway.client.request(case.method, case.formatted_path, content=content, headers=headers)
        case.validate_response(response, checks=CHECKS)
    else:
        case.call_and_validate(checks=CHECKS, headers=headers, **options)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("operation", "mode"), CASES)
def test_every_answer_to_a_generated_request_is_documented(
    operation: schemathesis.APIOperation, mode: GenerationMode, gateway: GatewayWithThings
) -> None:
    @given(case=operation.as_strategy(generation_mode=mode), is_known=st.booleans())
    @settings(max_examples=20, deadline=None, suppress_health_check=[*HealthCheck])
    def check(case: schemathesis.Case, is_known: bool) -> None:
        if is_known:
            name_things(case, gateway.ids(operation.path))
        send(gateway, case)

    check()


def test_the_document_describes_every_route():
    document = app(build_runtime()).openapi()

    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["description"], (method, path)
            assert {"400", "401", "403", "404", "421", "429", "503"} <= set(operation["responses"]), (method, path)
    assert {"/api/tools/{name}/call", "/api/pending/{call_id}/approve", "/tool-results"} <= set(document["paths"])
    assert document["components"]["schemas"]["ProblemDetails"]


def test_the_document_says_how_requests_are_authenticated():
    document = app(build_runtime()).openapi()
    schemes = document["components"]["securitySchemes"]
    security = {
        path: operation.get("security", document["security"])
        for path, operations in document["paths"].items()
        for operation in operations.values()
    }

    assert (schemes["bearer"]["type"], schemes["bearer"]["scheme"]) == ("http", "bearer")
    assert security.pop("/healthz") == security.pop("/readyz") == []
    assert security.pop("/api/webhooks/{webhook}/answers") == [{"webhook_signature": []}]
    assert all(each == [{"bearer": []}] for each in security.values())
    assert "`/mcp`" in document["info"]["description"]


async def test_another_method_is_405_and_documented_where_an_id_can_lead_to_it():
    async with serve(build_runtime()) as gateway:
        wrong = await gateway.client.put("/api/tools")
        slash = await gateway.client.get("/api/tools/add%2Fcall")
        paths = gateway.api.openapi()["paths"]

    for response, allowed in ((wrong, "GET"), (slash, "POST")):
        assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")
        assert response.headers["allow"] == allowed
    for path, operations in paths.items():
        for operation in operations.values():
            assert ("405" in operation["responses"]) == ("{" in path), path


async def test_the_page_of_the_routes_needs_no_script():
    async with serve(build_runtime()) as gateway:
        page = (await gateway.client.get("/docs")).text

    assert "POST /api/tools/{name}/call" in page
    assert "<script" not in page
