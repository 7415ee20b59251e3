"""A secret is sent, and shown nowhere: no result, error, event, journal, preview, log, trace or file holds it."""

import asyncio
import base64
import json
import logging
from pathlib import Path
from urllib.parse import quote

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from surehand import Policy, Runtime, rest
from surehand.observe import telemetry
from tests.http.server import chunked, redirect, reply, serving
from tests.providers.rest.calling import object_schema

CANARY = 'canary/+"4711"=ß'
ENVIRONMENT = {"CANARY": CANARY}
FORMS = (
    CANARY,
    json.dumps(CANARY)[1:-1],
    quote(CANARY, safe=""),
    base64.b64encode(CANARY.encode()).decode(),
    base64.b64encode(f"ada:{CANARY}".encode()).decode(),
    CANARY.encode().hex(),
)
LATIN = "canary-4711-value"


def echo_everything(asked):
    """A server that sends back all that it was sent, in many forms."""
    forms = [] if LATIN in str(asked.headers) else FORMS
    sent = json.dumps({"path": asked.path, "headers": asked.headers, "body": asked.body.decode(), "forms": forms})
    if asked.path.startswith("/error"):
        return reply(sent, 400, "Bad Request", content_type="application/json")
    if asked.path.startswith("/text"):
        return reply(sent, content_type="text/plain")
    if asked.path.startswith("/html"):
        return reply(f"<title>{sent}</title>", 500, "Oops", content_type="text/html")
    if asked.path.startswith("/stream"):
        return chunked(sent.encode(), b"\n", content_type="application/x-ndjson")
    if asked.path.startswith("/redirect"):
        return redirect(f"http://127.0.0.1:1/?leak={quote(sent)}")
    return reply(sent, content_type="application/json")


def tools(url):
    """Tools with a secret in every place, for every kind of answer."""
    parameters = object_schema(kind={"type": "string"})
    auths = {
        "query": {"api_key": "${env.CANARY}", "query": "key"},
        "cookie": {"api_key": "${env.CANARY}", "cookie": "sid"},
        "basic": {"username": "ada", "password": "${env.CANARY}"},
        "bearer": {"bearer": "${env.LATIN}"},
        "constant": None,
        "body": None,
    }
    for name, auth in auths.items():
        options = {}
        if name == "body":
            options = {"body": {"a": "${env.CANARY}", "kind": "{{input.kind}}"}}
        if name == "constant":
            options = {"headers": {"X-Auth-Token": f"Token {LATIN}"}}
        yield rest(
            "POST",
            f"{url}/{{kind}}",
            name=name,
            parameters=parameters,
            auth=auth,
            environment={**ENVIRONMENT, "LATIN": LATIN},
            **options,
        )


@pytest.mark.parametrize("kind", ["json", "text", "error", "html", "stream", "redirect"])
async def test_a_secret_is_sent_and_shown_nowhere(kind, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "surehand")
    spans = InMemorySpanExporter()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    seen = []
    store = tmp_path / "calls.db"
    async with serving(echo_everything) as server:
        defined = list(tools(f"http://127.0.0.1:{server.port}"))
        async with Runtime(*defined, store=str(store), policy=Policy.default()) as runtime:
            runtime.listen(seen.append)
            telemetry(runtime, tracing, content=True)
            for tool in defined:
                waits = await runtime.call(tool.name, {"kind": kind}, call_id=f"{tool.name}-1")
                seen.append(waits.request)
                outcome = await asyncio.wait_for(runtime.approve(waits.call_id), 10)
                seen += [
                    outcome,
                    outcome.text,
                    repr(outcome),
                    outcome.as_legacy("001"),
                    tool.schema,
                    repr(tool.handler),
                ]

    wire = b"".join(asked.raw + asked.body for asked in server.asked).decode("latin-1")
    assert all(form in wire for form in (quote(CANARY, safe=""), FORMS[4], LATIN)), "the secrets have been sent"
    files = b"".join(path.read_bytes() for path in Path(tmp_path).rglob("*") if path.is_file()).decode("latin-1")
    shown = "\n".join([repr(seen), caplog.text, files, *(span.to_json() for span in spans.get_finished_spans())])
    for form in (*FORMS, LATIN):
        assert form not in shown
    assert "[redacted]" in shown
