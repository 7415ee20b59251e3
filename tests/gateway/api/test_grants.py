"""Standing approvals over HTTP: listing them, and revoking them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token, operator_token
from tests.gateway.api.served_gateway import ServedGateway, bearer, build_runtime, serve

TOKENS = bearer_tokens(
    Token(hash_token("ada"), "ada"),
    Token(hash_token("bob"), "bob"),
    Token(hash_token("few"), "ada", frozenset({"tools:add"})),
    Token(hash_token("reader"), "eve", frozenset({"tools:*", "calls:all"})),
    operator_token("root"),
)


async def approve_always(gateway: ServedGateway, user: str) -> None:
    call_id = (await gateway.call("pay", {"amount": 1}, token=user)).json()["call_id"]
    body = {"always": True}
    await gateway.client.post(f"/api/pending/{call_id}/approve", json=body, headers=bearer(user))


async def list_grants(gateway: ServedGateway, token: str, query: str = "") -> list[Any]:
    items: list[Any] = (await gateway.client.get(f"/api/grants{query}", headers=bearer(token))).json()["items"]
    return items


async def test_a_standing_approval_is_listed_and_revoked_by_its_user(tmp_path: Path) -> None:
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=TOKENS) as gateway:
        await approve_always(gateway, "ada")
        allowed = await gateway.call("pay", {"amount": 2}, token="ada")
        [grant] = await list_grants(gateway, "ada")
        revoked = await gateway.client.delete("/api/grants/pay", headers=bearer("ada"))
        again = await gateway.client.delete("/api/grants/pay", headers=bearer("ada"))
        asked = await gateway.call("pay", {"amount": 3}, token="ada")
        rows = await gateway.api.gateway.runtime.store.audit.list(user="ada")

    assert (allowed.status_code, asked.status_code) == (200, 202)
    assert (grant["tool"], grant["user"], grant["by"], grant["session"]) == ("pay", "ada", "ada", None)
    assert revoked.json() == {"tool": "pay", "user": "ada", "revoked": 1}
    assert (again.status_code, again.json()["code"]) == (404, "not_found")
    assert [(row.kind, row.by) for row in rows if row.kind in ("granted", "revoked")] == [
        ("revoked", "ada"),
        ("granted", "ada"),
    ]


async def test_a_user_sees_and_revokes_only_their_own_standing_approvals(tmp_path: Path) -> None:
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=TOKENS) as gateway:
        await approve_always(gateway, "ada")
        listed = [await list_grants(gateway, token) for token in ("bob", "few")]
        by_reader = await list_grants(gateway, "reader")
        hidden = await gateway.client.delete("/api/grants/pay", headers=bearer("bob"))
        outside = await gateway.client.delete("/api/grants/pay", headers=bearer("few"))
        named = await gateway.client.delete("/api/grants/pay?user=ada", headers=bearer("reader"))
        rows = await gateway.api.gateway.runtime.store.audit.list()
        kept = await list_grants(gateway, "ada")

    assert listed == [[], []]
    assert [each["user"] for each in by_reader] == ["ada"]
    assert [hidden.status_code, outside.status_code, named.status_code] == [404, 404, 403]
    refused = [(row.user, row.detail["action"], row.detail["code"]) for row in rows if row.kind == "refused"]
    assert sorted(refused) == [
        ("ada", "revoke", "not_found"),
        ("eve", "revoke", "denied"),
    ]
    assert len(kept) == 1


async def test_the_operator_revokes_those_of_one_user_or_of_all(tmp_path: Path) -> None:
    async with serve(build_runtime(store=tmp_path / "calls.db"), auth=TOKENS) as gateway:
        for user in ("ada", "bob", "root"):
            await approve_always(gateway, user)
        of_bob = await list_grants(gateway, "root", "?user=bob&tool=pay")
        of_one = await gateway.client.delete("/api/grants/pay?user=bob", headers=bearer("root"))
        left = await list_grants(gateway, "root")
        of_all = await gateway.client.delete("/api/grants/pay", headers=bearer("root"))
        none = await list_grants(gateway, "root")

    assert [each["user"] for each in of_bob] == ["bob"]
    assert of_one.json() == {"tool": "pay", "user": "bob", "revoked": 1}
    assert [each["user"] for each in left] == [None, "ada"]  # newest first
    assert of_all.json() == {"tool": "pay", "user": None, "revoked": 2}
    assert none == []


async def test_without_a_store_standing_approvals_last_as_long_as_the_gateway() -> None:
    async with serve(build_runtime(), auth=TOKENS) as gateway:
        nothing = await list_grants(gateway, "ada")
        await approve_always(gateway, "ada")
        listed = await list_grants(gateway, "ada")
        revoked = await gateway.client.delete("/api/grants/pay", headers=bearer("ada"))

    assert (nothing, len(listed), revoked.json()["revoked"]) == ([], 1, 1)
