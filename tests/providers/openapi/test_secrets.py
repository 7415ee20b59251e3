"""The secrets of a document's security schemes are sent, and shown nowhere, also if the service sends them back."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from surehand import Policy
from surehand.observe import telemetry
from tests.http.server import Asked, Server, chunked, redirect, reply, serving
from tests.providers.openapi.api_server import document, operation, serving_api

CANARY = "canary/4711+value"
BASIC = b64encode(f"ada:{CANARY}".encode()).decode()
SCHEMES: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "oauth2": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://not.used/", "scopes": {}}}},
}
ISSUED = "canary-token/9+issued"
CLIENT = b64encode(f"ada:{quote_plus(CANARY)}".encode()).decode()
SECRETS: dict[str, Any] = dict.fromkeys(("bearer", "header", "query", "cookie"), "${env.CANARY}") | {
    "basic": {"username": "ada", "password": "${env.CANARY}"}
}


def secrets_with(token_server: Server) -> dict[str, Any]:
    """The secrets of all schemes, with the token endpoint on a server."""
    client = {"client_id": "ada", "client_secret": "${env.CANARY}"}
    return {**SECRETS, "oauth2": {**client, "token_url": f"http://127.0.0.1:{token_server.port}/token"}}


def echo(asked: Asked) -> bytes:
    """A service that sends back what it was sent."""
    sent = json.dumps({"path": asked.path, "headers": asked.headers, "again": CANARY})
    if asked.path == "/token":
        return reply(json.dumps({"access_token": ISSUED, "again": CANARY}), content_type="application/json")
    if asked.path.startswith("/error"):
        return reply(sent, 400, "Bad Request", content_type="application/json")
    if asked.path.startswith("/stream"):
        return chunked(sent.encode(), b"\n", content_type="application/x-ndjson")
    if asked.path.startswith("/redirect"):
        return redirect("http://127.0.0.1:1/?leak=" + CANARY)
    return reply(sent, content_type="application/json")


@pytest.mark.parametrize("kind", ["json", "error", "stream", "redirect"])
async def test_a_secret_is_in_no_result_error_event_journal_preview_log_trace_or_file(kind, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "surehand")
    spans = InMemorySpanExporter()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    paths = {
        f"/{kind}/{name}": {"post": operation(operationId=name, security=[{name: []}], responses={"200": {}})}
        for name in SCHEMES
    }
    described = document(paths, components={"securitySchemes": SCHEMES})
    seen: list[Any] = []
    runtime = {"store": str(tmp_path / "calls.db"), "policy": Policy.default()}
    options: dict[str, Any] = {"environment": {"CANARY": CANARY}}
    async with (
        serving(echo) as token_server,
        serving_api(described, echo, runtime=runtime, auth=secrets_with(token_server), **options) as api,
    ):
        api.runtime.listen(seen.append)
        telemetry(api.runtime, tracing, content=True)
        for name in SCHEMES:
            waits = await api.runtime.call(f"api__{name}", {}, call_id=name)
            outcome = await api.runtime.approve(name)
            tool = api.runtime.catalogue.find(f"api__{name}")
            seen += [
                waits.request,
                outcome,
                outcome.text,
                repr(outcome),
                tool,
                repr(api.provider),
                api.provider.options,
            ]
        wire = b"".join(asked.raw for asked in (*token_server.asked, *api.server.asked)).decode()

    assert CLIENT in wire
    assert f"Bearer {ISSUED}" in wire
    assert wire.count(CANARY) + wire.count(BASIC) + wire.count("canary%2F4711%2Bvalue") >= len(SECRETS)
    files = b"".join(path.read_bytes() for path in Path(tmp_path).rglob("*") if path.is_file()).decode("latin-1")
    shown = "\n".join([repr(seen), caplog.text, files, *(span.to_json() for span in spans.get_finished_spans())])
    for form in (CANARY, BASIC, "canary%2F4711%2Bvalue", ISSUED, CLIENT):
        assert form not in shown
    assert "[redacted]" in shown


@pytest.mark.parametrize("name", SECRETS)
async def test_a_secret_does_not_follow_a_redirect_to_another_port(name):
    described = document({"/x": {"get": operation(security=[{name: []}])}}, components={"securitySchemes": SCHEMES})
    async with serving_api(document({"/y": {"get": operation()}})) as other:

        def lead_away(asked: Asked) -> bytes:
            return redirect(f"http://127.0.0.1:{other.server.port}/y")

        http = {"allow_private": True}
        options = {"auth": SECRETS, "environment": {"CANARY": CANARY}}
        async with serving_api(described, lead_away, http=http, **options) as api:
            assert (await api.call("send")).ok

        received = str((other.last.path, other.last.headers))
        assert "canary" not in received
        assert BASIC not in received
