"""Servers over the HTTP API: their state, definitions that are held back, and beginning a sign-in."""

import asyncio

from surehand import Provider, gateway, mcp
from surehand.gateway.access.tokens import Token, hash_token
from surehand.providers.openapi.factory import openapi
from tests.gateway.api.served_gateway import bearer, build_runtime, serve
from tests.http.server import only_loopback
from tests.providers.mcp.oauth_server import run_oauth_server
from tests.providers.openapi.api_server import document, operation


async def test_only_the_operator_begins_a_sign_in_and_another_one_replaces_the_first(monkeypatch, tmp_path):
    only_loopback(monkeypatch)
    tokens = gateway.bearer_tokens(
        gateway.operator_token("operator"), Token(hash_token("reader"), "ada", ["tools:*", "calls:all"])
    )
    with run_oauth_server() as authority:
        auth = mcp.oauth(tokens=tmp_path / "tokens", interactive=False)
        notes = mcp.http(authority.url, namespace="notes", auth=auth, manifest=False)
        async with serve(build_runtime(notes), auth=tokens) as served:
            path = "/api/servers/notes/sign-in"
            refused = await served.client.post(path, headers=bearer("reader"))
            begun = await served.client.post(path, headers=bearer("operator"))
            again = await served.client.post(path, headers=bearer("operator"))
            [server] = (await served.client.get("/api/servers", headers=bearer("operator"))).json()["items"]

    assert refused.status_code == 403
    assert begun.json()["url"].startswith(f"{authority.issuer}/authorize?")
    assert again.json()["url"] != begun.json()["url"]
    assert server["sign_in"] == "running"


async def test_a_server_that_asks_nobody_to_sign_in_has_no_sign_in(tmp_path):
    notes = mcp.http("http://127.0.0.1:1/mcp", namespace="notes", manifest=False)
    async with serve(build_runtime(notes)) as served:
        refused = await served.client.post("/api/servers/notes/sign-in")
        [server] = (await served.client.get("/api/servers")).json()["items"]

    assert refused.status_code == 404
    assert server["sign_in"] is None


async def test_of_sign_ins_that_begin_at_the_same_time_one_goes_on(monkeypatch, tmp_path):
    only_loopback(monkeypatch)
    with run_oauth_server() as authority:
        auth = mcp.oauth(tokens=tmp_path / "tokens", interactive=False)
        notes = mcp.http(authority.url, namespace="notes", auth=auth, manifest=False)
        async with serve(build_runtime(notes)) as served:
            path = "/api/servers/notes/sign-in"
            await served.client.post(path)
            begun = await asyncio.gather(*(served.client.post(path) for _ in range(3)))

    assert [each.status_code for each in begun] == [200, 200, 200]
    assert [each.json()["url"] is not None for each in begun].count(True) == 1


async def test_a_changed_operation_of_a_document_is_shown_with_its_diff_and_accepted(tmp_path):
    lock = tmp_path / "surehand.lock"

    def shop(description):
        paths = {"/orders": {"post": operation(operationId="order", description=description)}}
        root = document(paths, servers=[{"url": "http://127.0.0.1:9/v1"}])
        return openapi(root, namespace="shop", lock=lock)

    async with build_runtime(shop("Order a book.")):
        pass
    async with serve(build_runtime(shop("Order a book, and pay."))) as served:
        [changed] = (await served.client.get("/api/servers")).json()["items"]
        [change] = changed["changes"]
        body = {"tool": change["tool"], "sha256": change["sha256"]}
        stale = await served.client.post("/api/servers/shop/accept", json={**body, "sha256": "0"})
        accepted = await served.client.post("/api/servers/shop/accept", json=body)
        tool = await served.client.get("/api/tools/shop__order")

    assert (changed["state"], changed["address"]) == ("up", "http://127.0.0.1:9/v1")
    assert change["tool"] == "order"
    assert "description" in change["summary"]
    assert "and pay." in change["diff"]
    assert stale.status_code == 409
    assert (accepted.status_code, accepted.json()["changes"]) == (200, [])
    assert tool.status_code == 200


async def test_what_a_server_supports_is_not_looked_for_again_by_a_request():
    looked_for: list[str] = []

    class Lamps(Provider):
        namespace = "lamps"

        def __getattribute__(self, name):
            looked_for.append(name)
            return super().__getattribute__(name)

        async def tools(self):
            return []

        async def invoke(self, call, context):
            return None

    async with serve(build_runtime(Lamps())) as served:
        looked_for.clear()
        [server] = (await served.client.get("/api/servers")).json()["items"]
        refused = await served.client.post("/api/servers/lamps/sign-in")

    assert server["can_refresh"] is False
    assert refused.status_code == 404
    assert not {"refresh", "sign_in", "server_status", "held_back_definitions"} & set(looked_for)
