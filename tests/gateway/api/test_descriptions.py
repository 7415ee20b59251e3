"""Descriptions of the tools for model APIs over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from surehand import mcp
from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token
from tests.gateway.api.served_gateway import bearer, build_runtime, serve

TOKENS = bearer_tokens(Token(hash_token("ada"), "ada"), Token(hash_token("few"), "ada", frozenset({"tools:add"})))
FORMATS = ["openai", "responses", "anthropic", "gemini", "mcp"]


@pytest.mark.parametrize("name", FORMATS)
async def test_tools_are_described_as_the_runtime_describes_them(name: str) -> None:
    runtime = build_runtime()
    async with serve(runtime) as gateway:
        described = (await gateway.client.get(f"/api/describe?format={name}")).json()
        expected = runtime.describe(name)

    assert described == {"tools": list(expected), "left_out": {}, "instructions": runtime.instructions()}


@pytest.mark.parametrize("name", FORMATS)
async def test_a_token_is_told_only_of_its_tools_and_of_no_instructions(name: str) -> None:
    async with serve(build_runtime(), auth=TOKENS) as gateway:
        described = (await gateway.client.get(f"/api/describe?format={name}", headers=bearer("few"))).json()

    [entry] = described["tools"]
    assert entry.get("function", entry)["name"] == "add"
    assert described["instructions"] is None


async def test_the_tools_of_a_session_are_described_to_that_session_alone() -> None:
    colour = {"name": "colour", "description": "Ask for a colour."}
    async with serve(build_runtime(), auth=TOKENS) as gateway:
        await gateway.client.post("/api/sessions/s1/tools", json={"tools": [colour]}, headers=bearer("ada"))
        names = [
            [
                each["name"]
                for each in (
                    await gateway.client.get(f"/api/describe?format=mcp{query}", headers=bearer("ada"))
                ).json()["tools"]
            ]
            for query in ("", "&session=s1")
        ]

    assert "colour" not in names[0]
    assert "colour" in names[1]


async def test_an_unknown_format_is_422() -> None:
    async with serve(build_runtime()) as gateway:
        refused = await gateway.client.get("/api/describe?format=other")

    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_arguments")


async def test_the_instructions_of_servers_are_there_for_a_token_of_all_tools(tmp_path: Path) -> None:
    notes = mcp.http("http://127.0.0.1:1/mcp", namespace="notes", manifest=False)
    async with serve(build_runtime(notes), auth=TOKENS) as gateway:
        described = (await gateway.client.get("/api/describe", headers=bearer("ada"))).json()

    assert "## notes" in described["instructions"]  # that they are not available now
