"""The OpenAPI document: complete, and every answer is as it says."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from surehand.gateway.http_app import app
from tests.gateway.api.served_gateway import build_runtime, serve

# Event streams do not end by themselves.
SCHEMA = schemathesis.openapi.from_dict(app(build_runtime()).openapi()).exclude(path_regex="/events$")
OPERATIONS = [each.ok() for each in SCHEMA.get_all_operations()]


@pytest.fixture(scope="module")
def gateway_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway that runs in a thread, because schemathesis sends its requests synchronously."""
    urls: list[str] = []
    is_ready = threading.Event()
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run(store: Path) -> None:
        async with serve(build_runtime(store=store)) as gateway:
            urls.append(gateway.url)
            is_ready.set()
            await stop.wait()

    store = tmp_path_factory.mktemp("gateway") / "calls.db"
    thread = threading.Thread(target=loop.run_until_complete, args=(run(store),))
    thread.start()
    assert is_ready.wait(60)
    yield urls[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_answer_to_a_generated_request_is_documented(operation: schemathesis.APIOperation, gateway_url: str):
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

    @given(case=operation.as_strategy())
    @settings(max_examples=25, deadline=None, suppress_health_check=[*HealthCheck])
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(base_url=gateway_url, checks=checks, headers={"accept": "application/json"}, timeout=20)

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
