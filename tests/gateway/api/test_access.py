"""Tokens and scopes: which request is whose, what it may do, and which hosts and origins are served."""

import asyncio
from datetime import UTC, datetime
from urllib.parse import quote

import httpx2
import pytest

from surehand import DefinitionError, tool
from surehand.gateway.access.identity import Identity
from surehand.gateway.access.request_limits import GatewayLimits
from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token, new_token, operator_token
from surehand.gateway.http_app import app
from tests.gateway.api.served_gateway import Gate, bearer, build_runtime, serve

PAST = datetime(2020, 1, 1, tzinfo=UTC)
PUBLIC = {"/healthz", "/readyz"}


def routes():
    """Every route of the OpenAPI document, with its parameters filled in, and those that it does not describe."""
    document = app(build_runtime()).openapi()
    documented = [
        (method.upper(), path.replace("{", "").replace("}", ""))
        for path, operations in document["paths"].items()
        for method in operations
    ]
    return [*documented, ("GET", "/docs"), ("GET", "/openapi.json"), ("POST", "/mcp"), ("GET", "/mcp"), ("GET", "/x")]


async def test_every_route_needs_a_valid_token():
    tokens = [Token(hash_token("ada"), "ada"), Token(hash_token("old"), "ada", expires_at=PAST)]
    async with serve(build_runtime(), auth=bearer_tokens(*tokens)) as gateway:
        for method, path in routes():
            for headers in ({}, bearer("wrong"), bearer("old"), {"authorization": "Basic ada"}, {"cookie": "t=ada"}):
                response = await gateway.client.request(method, path, headers=headers)
                if path in PUBLIC:
                    assert response.status_code == 200, path
                else:
                    assert response.status_code == 401, (method, path, headers)
                    is_signed = path.startswith("/api/webhooks/")
                    assert response.headers["www-authenticate"] == ("Webhook-Signature" if is_signed else "Bearer")
                    assert response.json()["code"] == "unauthorized"
        in_url = await gateway.client.get("/api/tools?token=ada")

    assert in_url.status_code == 401


async def test_another_users_things_are_404_on_every_route(tmp_path):
    tokens = bearer_tokens(Token(hash_token("ada"), "ada"), Token(hash_token("bob"), "bob"))
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=tokens) as gateway:
        call_id = (await gateway.call("pick", token="ada", turn="r", session="s")).json()["call_id"]
        await gateway.client.post("/api/spaces", json={"id": "space"}, headers=bearer("ada"))
        result = {"callId": call_id, "result": 1}
        requests = [
            ("GET", f"/api/calls/{call_id}", None),
            ("GET", f"/api/calls/{call_id}/events", None),
            ("POST", f"/api/calls/{call_id}/cancel", {}),
            ("GET", f"/api/pending/{call_id}", None),
            ("POST", f"/api/pending/{call_id}/approve", {}),
            ("POST", f"/api/pending/{call_id}/reject", {}),
            ("POST", f"/api/pending/{call_id}/result", {"result": 1}),
            ("POST", "/tool-results", result),
            ("POST", "/api/runs/r/tool-results", result),
            ("GET", "/api/spaces/space", None),
            ("GET", "/api/spaces/space/events", None),
            ("GET", "/api/spaces/space/messages", None),
            ("POST", "/api/spaces/space/messages", {"content": "x"}),
            ("GET", "/api/spaces/space/members", None),
            ("POST", "/api/spaces/space/members", {"id": "bob"}),
            ("DELETE", "/api/spaces/space/members/ada", None),
        ]
        for method, path, body in requests:
            response = await gateway.client.request(method, path, json=body, headers=bearer("bob"))
            assert response.status_code == 404, (method, path, response.text)
        for path in ("/api/calls", "/api/pending", "/api/spaces"):
            assert (await gateway.client.get(path, headers=bearer("bob"))).json()["items"] == [], path
        call = (await gateway.client.get(f"/api/pending/{call_id}", headers=bearer("ada"))).json()

    assert call["user"] == "ada"


async def test_a_token_calls_only_the_tools_of_its_scopes(tmp_path):
    tokens = bearer_tokens(Token(hash_token("t"), "ada", frozenset({"tools:a*"})))
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=tokens) as gateway:
        allowed = await gateway.call("add", {"a": 1, "b": 2}, token="t")
        denied = await gateway.call("pay", {"amount": 1}, token="t")
        listed = (await gateway.client.get("/api/tools", headers=bearer("t"))).json()["items"]
        mcp = await gateway.client.post("/mcp", json={}, headers=bearer("t"))
        metrics = await gateway.client.get("/metrics", headers=bearer("t"))
        store = gateway.api.gateway.runtime.store
        audited = await store.audit.list(user="ada")

    assert allowed.status_code == 200
    assert (denied.status_code, denied.json()["code"]) == (403, "denied")
    assert [each["name"] for each in listed] == ["add"]
    assert mcp.status_code == metrics.status_code == 403
    assert sorted(row.detail["action"] for row in audited if row.kind == "refused") == [
        "POST /mcp",
        "call",
        "read metrics",
    ]


async def test_keys_of_two_users_are_two_calls():
    tokens = bearer_tokens(Token(hash_token("ada"), "ada"), Token(hash_token("bob"), "bob"))
    async with serve(build_runtime(), auth=tokens) as gateway:
        answers = [
            await gateway.client.post(
                "/api/tools/add/call",
                json={"arguments": {"a": 1, "b": number}},
                headers={**bearer(user), "Idempotency-Key": "k"},
            )
            for number, user in enumerate(("ada", "bob"))
        ]

    assert [answer.json()["data"] for answer in answers] == [1, 2]


async def test_the_operator_sees_the_calls_of_all_users():
    tokens = bearer_tokens(Token(hash_token("ada"), "ada"), operator_token("root"))
    async with serve(build_runtime(), auth=tokens) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5}, token="ada")).json()["call_id"]
        [listed] = (await gateway.client.get("/api/pending", headers=bearer("root"))).json()["items"]
        approved = await gateway.client.post(f"/api/pending/{call_id}/approve", headers=bearer("root"))

    assert listed["call_id"] == call_id
    assert approved.json()["data"] == "ada paid 5"


async def test_a_function_may_authenticate():
    async def auth(request):
        user = request.headers.get("x-user")
        if user == "broken":
            raise RuntimeError("the directory is down")
        return None if user is None else Identity(user)

    async with serve(build_runtime(), auth=auth) as gateway:
        anonymous = await gateway.client.get("/api/tools")
        named = await gateway.client.get("/api/tools", headers={"x-user": "ada"})
        broken = await gateway.client.get("/api/tools", headers={"x-user": "broken"})

    assert (anonymous.status_code, named.status_code, broken.status_code) == (401, 200, 503)


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:{port}", None, 200),
        ("localhost:{port}", None, 200),
        ("gateway.example", None, 200),
        ("gateway.example:8443", None, 200),
        ("127.0.0.1:1", None, 421),
        ("evil.test", None, 421),
        ("localhost.evil.test:{port}", None, 421),
        ("127.0.0.1@evil.test", None, 421),
        ("", None, 421),
        ("localhost:{port}", "http://localhost:{port}", 200),
        ("localhost:{port}", "https://app.example", 200),
        ("localhost:{port}", "http://localhost:3000", 403),
        ("localhost:{port}", "http://127.0.0.1:{port}", 403),
        ("localhost:{port}", "https://evil.test", 403),
        ("localhost:{port}", "null", 403),
    ],
)
async def test_only_known_hosts_and_origins_are_served(host, origin, status):
    port = 8765
    api = app(build_runtime(), hosts=["gateway.example"], origins=["https://app.example"], port=port)
    headers = {"host": host.format(port=port)}
    if origin is not None:
        headers["origin"] = origin.format(port=port)
    client = httpx2.AsyncClient(transport=httpx2.ASGITransport(api), base_url="http://x")
    async with api.router.lifespan_context(api), client:
        for path in ("/api/tools", "/healthz", "/mcp"):
            response = await client.get(path, headers=headers)
            expected = {"/mcp": 400}.get(path, 200) if status == 200 else status
            assert response.status_code == expected, path
    if status != 200:
        assert response.headers["content-type"] == "application/problem+json"


async def test_pages_of_other_sites_cannot_send_requests_without_an_origin():
    async with serve(build_runtime()) as gateway:
        hidden = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
        refused = await gateway.client.get("/api/tools", headers=hidden)
        form = await gateway.client.post("/api/tools/fail/call", data={"arguments": ""})
        link = await gateway.client.get("/docs", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})

    assert (refused.status_code, form.status_code, link.status_code) == (403, 415, 200)
    assert "send `Content-Type: application/json`" in form.json()["detail"]


async def test_a_preflight_of_an_allowed_site_is_answered_without_a_token():
    async with serve(
        build_runtime(), auth=bearer_tokens(operator_token("t")), origins=["https://app.example"]
    ) as gateway:
        headers = {"origin": "https://app.example", "access-control-request-method": "POST"}
        preflight = await gateway.client.options("/api/tools/add/call", headers=headers)
        mcp = await gateway.client.get("/mcp", headers={"origin": "https://app.example", **bearer("t")})

    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "https://app.example"
    assert mcp.headers.get_list("access-control-allow-origin") == ["https://app.example"]


async def test_every_response_has_the_security_headers():
    async with serve(build_runtime()) as gateway:
        for response in (await gateway.client.get("/api/tools"), await gateway.client.get("/nothing")):
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["content-security-policy"].startswith("default-src 'none'")
            assert response.headers["cache-control"] == "no-store"
            assert "server" not in response.headers


async def test_a_body_over_the_limit_is_413():
    async with serve(build_runtime(), limits=GatewayLimits(body_bytes=1_000)) as gateway:
        announced = await gateway.call("add", {"a": "x" * 2_000})

        async def parts():
            for _ in range(4):
                yield b" " * 500

        chunked = await gateway.client.post(
            "/api/tools/add/call", content=parts(), headers={"content-type": "application/json"}
        )

    assert announced.status_code == chunked.status_code == 413
    assert announced.json()["code"] == "too_large"


async def test_a_token_has_limits_of_its_own():
    gate = Gate()
    tokens = bearer_tokens(
        Token(hash_token("few"), "ada", concurrent=1),
        Token(hash_token("slow"), "ada", rate="2/h"),
        Token(hash_token("free"), "ada"),
    )
    async with serve(build_runtime(gate.tool), auth=tokens) as gateway:
        running = asyncio.create_task(gateway.call("wait", token="few"))
        await gate.started.wait()
        second = await gateway.call("add", {"a": 1, "b": 2}, token="few")
        rates = [(await gateway.call("add", {"a": 1, "b": 2}, token="slow")) for _ in range(3)]
        free = await gateway.call("add", {"a": 1, "b": 2}, token="free")
        gate.opened.set()
        await running

    assert (second.status_code, second.json()["code"]) == (429, "rate_limited")
    assert second.headers["retry-after"] == "1"
    assert [each.status_code for each in rates] == [200, 200, 429]
    assert 1 <= int(rates[2].headers["retry-after"]) <= 1800
    assert free.status_code == 200


async def test_one_stream_too_many_is_429():
    tokens = bearer_tokens(Token(hash_token("ada"), "ada"))
    async with serve(build_runtime(), auth=tokens, limits=GatewayLimits(streams_per_identity=1)) as gateway:
        async with gateway.events(token="ada"):
            second = await gateway.client.get("/api/events", headers=bearer("ada"))
        assert second.status_code == 429

        while True:  # until the server has noticed that the first client left
            async with gateway.events(token="ada") as events:
                if events.response.status_code == 200:
                    break


async def test_a_gateway_whose_lifespan_was_not_entered_says_so():
    api = app(build_runtime())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(api), base_url="http://localhost") as client:
        response = await client.get("/api/tools")
        health = await client.get("/healthz")
        ready = await client.get("/readyz")

    assert (response.status_code, health.status_code, ready.status_code) == (503, 200, 503)
    assert "lifespan" in response.json()["detail"]


def test_a_new_token_is_random_and_only_its_hash_is_kept():
    token = new_token()

    assert token != new_token()
    assert len(token) > 40
    assert token not in repr(Token(hash_token(token), "ada"))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"hash": "secret", "user": "ada"}, "hash must be 'sha256:'"),
        ({"hash": hash_token("x")}, "must have the scope '\\*'"),
        ({"hash": hash_token("x"), "user": "ada", "scopes": {"tool:x"}}, "'tool:x' is not a scope"),
        ({"hash": hash_token("x"), "user": "ada", "rate": "often"}, "is not a rate"),
        ({"hash": hash_token("x"), "user": "ada", "expires_at": datetime(2030, 1, 1)}, "no time zone"),  # noqa: DTZ001
    ],
)
def test_mistakes_in_a_token_are_definition_errors(arguments, problem):
    with pytest.raises(DefinitionError, match=problem):
        Token(**arguments)


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        ("tools:*_read", "bank_delete<|_read"),
        ("tools:BANK_*", "BANK_delete"),
        ("tools:functions.*", "functions.bank_delete"),
        ("tools:secret*", "secret"),
    ],
)
async def test_a_name_that_only_resembles_that_of_a_tool_does_not_pass_the_scope_of_a_token(scope, name):
    deleted = []

    @tool(name="bank_delete")
    async def delete() -> str:
        """Delete."""
        deleted.append(1)
        return "gone"

    @tool(name="bank__secret")
    async def secret() -> str:
        """Tell."""
        deleted.append(2)
        return "told"

    tokens = bearer_tokens(Token(hash_token("t"), "ada", frozenset({scope})))
    async with serve(build_runtime(delete, secret), auth=tokens) as gateway:
        answer = await gateway.call(quote(name, safe=""), {}, token="t")

    assert answer.status_code in (403, 404)
    assert deleted == []


async def test_every_request_counts_against_the_rate_of_its_token():
    tokens = bearer_tokens(Token(hash_token("t"), "ada", rate="2/hour"))
    async with serve(build_runtime(), auth=tokens) as gateway:
        statuses = [
            (await gateway.client.get(path, headers=bearer("t"))).status_code
            for path in ("/api/tools/events", "/api/calls/events", "/api/spaces/events", "/api/events")
        ]

    assert statuses == [404, 404, 429, 429]


async def test_a_token_without_the_tool_answers_no_call_of_it():
    narrow = Token(hash_token("narrow"), "ada", frozenset({"tools:add", "spaces:*"}))
    async with serve(build_runtime(), auth=bearer_tokens(Token(hash_token("ada"), "ada"), narrow)) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5}, token="ada")).json()["call_id"]
        url = f"/api/pending/{call_id}"
        seen = await gateway.client.get(url, headers=bearer("narrow"))
        answered = await gateway.client.post(
            f"{url}/approve", json={"arguments": {"amount": 9}}, headers=bearer("narrow")
        )
        approved = await gateway.client.post(f"{url}/approve", headers=bearer("ada"))

    assert (seen.status_code, answered.status_code) == (404, 404)
    assert approved.json()["data"] == "ada paid 5"


@pytest.mark.parametrize("path", ["/", "/api/events", "/api/tools", "/mcp", "/healthz"])
async def test_a_websocket_is_closed_before_it_is_accepted(path):
    api = app(build_runtime(), auth=bearer_tokens(Token(hash_token("t"), "ada")))
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer t"), (b"origin", b"http://localhost")]
    scope = {"type": "websocket", "path": path, "root_path": "", "query_string": b"", "headers": headers}
    async with api.router.lifespan_context(api):
        await api(scope, receive, send)

    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(("origin", "status"), [(None, 200), ("https://evil.example", 403)])
async def test_an_upgrade_to_a_websocket_is_served_as_the_plain_request(origin, status):
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    key = {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
    sent = {**upgrade, **key, **({} if origin is None else {"origin": origin})}
    async with serve(build_runtime()) as gateway:
        response = await gateway.client.get("/api/tools", headers=sent)

    assert response.status_code == status
    assert "sec-websocket-accept" not in response.headers
