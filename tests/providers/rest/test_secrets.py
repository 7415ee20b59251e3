"""A secret is sent, and shown nowhere: no result, error, event, journal, preview, log, trace or file holds it."""

import asyncio
import base64
import json
import logging
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote

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
ISSUED = "canary-token/9+issued"
"""The access token of the token endpoint."""
CLIENT = base64.b64encode(f"ada:{quote_plus(CANARY)}".encode()).decode()


def echo_everything(asked):
    """A server that sends back all that it was sent, in many forms."""
    forms = [] if LATIN in str(asked.headers) else FORMS
    sent = json.dumps({"path": asked.path, "headers": asked.headers, "body": asked.body.decode(), "forms": forms})
    if asked.path == "/token":
        return reply(json.dumps({"access_token": ISSUED, "sent": sent}), content_type="application/json")
    if asked.path == "/no-token":
        refusal = {"error": "invalid_client", "error_description": f"{unquote(asked.body.decode())} {sent}"}
        return reply(json.dumps(refusal), 401, "Unauthorized", content_type="application/json")
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
    client = {"token_url": f"{url}/token", "client_id": "ada", "client_secret": "${env.CANARY}"}
    auths = {
        "oauth2": {"oauth2": client},
        "oauth2-body": {"oauth2": {**client, "client_auth": "body"}},
        "oauth2-refused": {"oauth2": {**client, "token_url": f"{url}/no-token", "client_auth": "body"}},
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
    sent = (quote(CANARY, safe=""), FORMS[4], LATIN, quote_plus(CANARY), f"Bearer {ISSUED}")
    assert all(form in wire for form in sent), "the secrets have been sent"
    files = b"".join(path.read_bytes() for path in Path(tmp_path).rglob("*") if path.is_file()).decode("latin-1")
    shown = "\n".join([repr(seen), caplog.text, files, *(span.to_json() for span in spans.get_finished_spans())])
    for form in (*FORMS, LATIN, ISSUED, quote_plus(CANARY), CLIENT):
        assert form not in shown
    assert "[redacted]" in shown
    assert "gave no access token: HTTP 401 invalid_client" in shown


ENCODINGS = {
    "plain": lambda secret: secret,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 after a byte": lambda secret: base64.b64encode(b"a" + secret.encode() + b"zz").decode(),
    "URL-safe base64": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "basic": lambda secret: base64.b64encode(f"someone:{secret}".encode()).decode(),
    "URL": lambda secret: quote(secret, safe=""),
    "form": quote_plus,
    "hex": lambda secret: secret.encode().hex(),
    "HEX": lambda secret: secret.encode().hex().upper(),
    "JSON": json.dumps,
    "repr": repr,
    "two lines": lambda secret: f"{secret[:12]}\n{secret[12:]}",
    "colours": lambda secret: f"\x1b[1m{secret[:12]}\x1b[0m{secret[12:]}",
}
JSON = {"content_type": "application/json"}
PLACES = {
    "value": lambda text: reply(json.dumps({"a": ["b", {"c": f"x {text} y"}]}), **JSON),
    "key": lambda text: reply(json.dumps({text: 1}), **JSON),
    "broken JSON": lambda text: reply(f'{{"a": {text}', **JSON),
    "text": lambda text: reply(f"x {text} y", content_type="text/plain"),
    "error": lambda text: reply(json.dumps({"message": "x" * 480 + text}), 400, "Bad Request", **JSON),
    "error page": lambda text: reply(f"<html><body>{text}</body></html>", 503, "Down", content_type="text/html"),
    "event": lambda text: chunked(
        "".join(f"data: {line}\n" for line in text.split("\n")).encode() + b"\n", content_type="text/event-stream"
    ),
    "line": lambda text: chunked(json.dumps(text).encode(), b"\n", content_type="application/x-ndjson"),
    "image": lambda text: reply(b"\x00\xff" + text.encode(), content_type="image/png"),
}
ONE_LINE_PLACES = {
    "reason": lambda text: reply("", 400, f"{'x' * 50}{text}"),
    "file name": lambda text: reply(b"\x00\xff", content_disposition=f'attachment; filename="{text}"'),
    "redirect": lambda text: redirect(f"http://10.0.0.1/{quote(text)}"),
}
SECRET = "sk'9/Zq+Wv Lm2\"Kx=7&Tz"


def spellings(secret):
    raw = secret.encode()
    aligned = [base64.b64encode(b"a" * offset + raw).decode()[4:-8] for offset in (0, 1, 2)]
    url_safe = [text.replace("+", "-").replace("/", "_") for text in aligned]
    return [secret[2:9], *aligned, *url_safe, "9%2FZq", raw[2:14].hex(), "Kx=7"]


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_secret_that_comes_back_is_masked_in_every_encoding_and_place(encoding):
    text = ENCODINGS[encoding](SECRET)
    places = PLACES if set(text) & set("\n\x1b") else PLACES | ONE_LINE_PLACES
    if encoding not in ("plain", "URL"):  # bytes that are no text are searched for the secret as it is
        places = {name: answer for name, answer in places.items() if name != "image"}
    async with serving(lambda asked: places[unquote(asked.path[1:])](text)) as server:
        url = f"http://127.0.0.1:{server.port}/{{place}}"
        tool = rest("GET", url, name="api", headers={"X-Api-Key": SECRET}, retries=0)
        async with Runtime(tool) as runtime:
            for place in places:
                seen = []
                unsubscribe = runtime.listen(seen.append)
                outcome = await runtime.call("api", {"place": place})
                unsubscribe()

                told = repr([seen, outcome, outcome.data, outcome.content]) + outcome.text
                assert [each for each in spellings(SECRET) if each.lower() in told.lower()] == [], place


@pytest.mark.parametrize("secret", ["hunt", "s3cr3t!", "a+b/c"])
async def test_a_short_secret_is_masked_where_it_stands_alone_and_ordinary_words_are_left(secret):
    def answer(_):
        texts = {"said": f"pw={secret};", "quoted": quote(secret, safe=""), "word": f"x{secret}x hunter"}
        return reply(json.dumps(texts), content_type="application/json")

    async with serving(answer) as server:
        tool = rest(
            "GET",
            f"http://127.0.0.1:{server.port}/",
            name="read",
            auth={"username": "ada", "password": "${env.SHORT}"},
            environment={"SHORT": secret},
        )
        async with Runtime(tool) as runtime:
            outcome = await runtime.call("read", {})

    assert outcome.data == {"said": "pw=[redacted];", "quoted": "[redacted]", "word": f"x{secret}x hunter"}


async def test_the_credentials_of_a_short_password_are_masked_as_they_are_sent():
    async with serving(lambda asked: reply(json.dumps(asked.headers), content_type="application/json")) as server:
        tool = rest("GET", f"http://127.0.0.1:{server.port}/", name="read", auth=("ada", "hunt"))
        async with Runtime(tool) as runtime:
            outcome = await runtime.call("read", {})

    assert base64.b64encode(b"ada:hunt").decode() in str(server.asked[0].headers)
    assert base64.b64encode(b"ada:hunt").decode() not in repr(outcome)
    assert "[redacted]" in repr(outcome)


async def test_a_secret_that_is_too_short_to_be_masked_is_warned_about_once(caplog):
    async with serving(lambda _: reply("abc", content_type="text/plain")) as server:
        tool = rest("GET", f"http://127.0.0.1:{server.port}/", name="read", auth="abc")
        async with Runtime(tool) as runtime:
            outcomes = [await runtime.call("read", {}) for _ in range(2)]

    warnings = [record.getMessage() for record in caplog.records if "cannot be masked" in record.getMessage()]
    assert [outcome.text for outcome in outcomes] == ["abc", "abc"]
    assert len(warnings) == 1
    assert "abc" not in warnings[0]


async def test_a_secret_behind_the_name_of_its_scheme_is_masked_without_a_warning(caplog):
    async with serving(lambda _: reply("abcdefghijkl", content_type="text/plain")) as server:
        headers = {"Authorization": "Bearer ${env.WEATHER_KEY}"}
        environment = {"WEATHER_KEY": "abcdefghijkl"}
        tool = rest("GET", f"http://127.0.0.1:{server.port}/", name="read", headers=headers, environment=environment)
        async with Runtime(tool) as runtime:
            outcome = await runtime.call("read", {})

    assert outcome.text == "[redacted]"
    assert "cannot be masked" not in caplog.text
