"""Spaces, their members and messages over HTTP."""

from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token, operator_token
from tests.gateway.api.served_gateway import bearer, build_runtime, serve

TOKENS = bearer_tokens(
    Token(hash_token("ada"), "ada"),
    Token(hash_token("bob"), "bob"),
    Token(hash_token("few"), "ada", frozenset({"tools:*", "spaces:team-*"})),
    operator_token("root"),
)


async def test_a_space_is_shared_with_its_members(tmp_path):
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=TOKENS) as gateway:
        client = gateway.client
        created = await client.post("/api/spaces", json={"id": "trip", "name": "Our trip"}, headers=bearer("ada"))
        again = await client.post("/api/spaces", json={"id": "trip"}, headers=bearer("ada"))
        added = await client.post("/api/spaces/trip/members", json={"id": "bob"}, headers=bearer("ada"))
        posted = [
            await client.post("/api/spaces/trip/messages", json={"content": text}, headers=bearer(user))
            for user, text in (("ada", "Lisbon?"), ("bob", "Porto!"), ("ada", "Both."))
        ]
        first = (await client.get("/api/spaces/trip/messages?limit=2", headers=bearer("bob"))).json()
        url = f"/api/spaces/trip/messages?limit=2&cursor={first['next']}"
        second = (await client.get(url, headers=bearer("bob"))).json()
        left = await client.delete("/api/spaces/trip/members/bob", headers=bearer("ada"))
        gone = await client.get("/api/spaces/trip/messages", headers=bearer("bob"))

    assert (created.status_code, created.json()["name"]) == (201, "Our trip")
    assert again.status_code == 409
    assert added.json() == {"id": "bob", "kind": "person", "name": "bob"}
    assert [each.json()["number"] for each in posted] == [1, 2, 3]
    assert [each["content"] for each in first["items"]] == ["Both.", "Porto!"]
    assert [each["content"] for each in second["items"]] == ["Lisbon?"]
    assert second["next"] is None
    assert (left.status_code, gone.status_code) == (204, 404)


async def test_no_user_posts_in_the_name_of_another_and_the_operator_names_the_sender(tmp_path):
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=TOKENS) as gateway:
        client = gateway.client
        await client.post("/api/spaces", json={"id": "trip"}, headers=bearer("ada"))
        url = "/api/spaces/trip/messages"
        forged = await client.post(url, json={"content": "x", "sender": "bob"}, headers=bearer("ada"))
        nameless = await client.post(url, json={"content": "x"}, headers=bearer("root"))
        operated = await client.post(url, json={"content": "x", "sender": "ada"}, headers=bearer("root"))

    assert (forged.status_code, nameless.status_code, operated.status_code) == (403, 422, 201)


async def test_a_token_uses_only_the_spaces_of_its_scopes(tmp_path):
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=TOKENS) as gateway:
        client = gateway.client
        for space in ("team-a", "home"):
            await client.post("/api/spaces", json={"id": space}, headers=bearer("ada"))
        listed = (await client.get("/api/spaces", headers=bearer("few"))).json()["items"]
        everything = (await client.get("/api/spaces", headers=bearer("root"))).json()["items"]
        hidden = await client.get("/api/spaces/home", headers=bearer("few"))
        created = await client.post("/api/spaces", json={"id": "mine"}, headers=bearer("few"))
        called = await gateway.call("pick", token="few", space="home")

    assert [each["id"] for each in listed] == ["team-a"]
    assert [each["id"] for each in everything] == ["home", "team-a"]
    assert (hidden.status_code, created.status_code, called.status_code) == (404, 403, 404)


async def test_without_a_store_spaces_and_audit_are_not_available():
    async with serve(build_runtime()) as gateway:
        for path in ("/api/spaces", "/api/audit"):
            response = await gateway.client.get(path)
            assert (response.status_code, response.json()["code"]) == (503, "unavailable")


async def test_the_audit_is_listed_in_pages_newest_first(tmp_path):
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=TOKENS) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5}, token="ada")).json()["call_id"]
        await gateway.client.post(f"/api/pending/{call_id}/approve", headers=bearer("ada"))
        pages = []
        cursor = None
        while cursor is not None or not pages:
            params = {"limit": 2, "call": call_id} | ({} if cursor is None else {"cursor": cursor})
            page = (await gateway.client.get("/api/audit", params=params, headers=bearer("ada"))).json()
            pages.append(page["items"])
            cursor = page["next"]
        hidden = (await gateway.client.get("/api/audit?user=ada", headers=bearer("bob"))).json()["items"]

    kinds = [row["kind"] for page in pages for row in page]
    assert kinds == ["outcome", "intent", "answer", "wait"]
    assert hidden == []
