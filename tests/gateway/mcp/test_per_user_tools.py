"""A proxy for several users, in front of a server that offers different tools to each user."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS

from surehand import Runtime
from tests.gateway.mcp.http_peer import call_request, http_site
from tests.gateway.mcp.sdk_clients import ERAS, http_client, http_server, within
from tests.providers.mcp.steady_server import SteadyServer, tool_definition

USERS = ("anna", "ben")
either = pytest.mark.parametrize("era", ERAS)


def variables(who: Any) -> dict[str, str]:
    return {"TOKEN": {user: f"token of {user}" for user in USERS}[who.user]}


@asynccontextmanager
async def guarded(folder: Path) -> AsyncIterator[tuple[SteadyServer, str]]:
    """Such a server, and the address of a runtime in front of it, where the name of a user is their token."""
    behind = SteadyServer(folder / "steady")
    behind.set_tools(tool_definition("pid"), tool_definition("effect", "For Anna."))
    async with http_server(Runtime(behind.provider(env=variables)), token=lambda shown: shown) as url:
        yield behind, url


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@either
async def test_a_user_s_list_is_asked_for_in_that_user_s_name(tmp_path, era):
    async with guarded(tmp_path) as (_, url), http_client(url, era, "anna") as anna:
        assert await names(anna) == ["steady__pid", "steady__effect"]
        assert not (await anna.call_tool("steady__pid", {})).is_error


@either
async def test_a_user_s_first_request_may_be_a_call(tmp_path, era):
    async with guarded(tmp_path) as (_, url), http_client(url, era, "anna") as anna:
        assert not (await anna.call_tool("steady__pid", {})).is_error


@either
async def test_a_tool_of_one_user_is_unknown_to_others(tmp_path, era):
    async with (
        guarded(tmp_path) as (behind, url),
        http_client(url, era, "anna") as anna,
        http_client(url, era, "ben") as ben,
    ):
        first = await names(anna)
        behind.set_tools(tool_definition("pid"), tool_definition("effect", "For Ben."))

        assert await names(ben) == ["steady__pid"]
        assert not (await ben.call_tool("steady__pid", {})).is_error
        with pytest.raises(MCPError, match=r"^Unknown tool: steady__effect\.") as refused:
            await ben.call_tool("steady__effect", {})
        assert "Did you mean steady__effect" not in str(refused.value)
        assert await names(anna) == first


async def test_a_user_that_the_server_refuses_sees_no_tools_and_does_not_affect_others(tmp_path):
    async with guarded(tmp_path) as (behind, url), http_client(url, token="eve") as eve:
        assert await names(eve) == []
        with pytest.raises(MCPError, match=r"steady__pid\. steady did not say what it offers: .*KeyError"):
            await eve.call_tool("steady__pid", {})
        async with http_client(url, token="anna") as anna:
            assert await names(anna) == ["steady__pid", "steady__effect"]
        assert await names(eve) == []
    assert behind.starts == 1  # for anna


async def test_a_server_that_does_not_come_up_is_waited_for_once_and_not_at_each_request(tmp_path):
    behind = SteadyServer(tmp_path / "steady")
    behind.set_flag("deaf")
    runtime = Runtime(behind.provider(env=variables, start_timeout=0.5))
    async with http_server(runtime, token=lambda shown: shown) as url, http_client(url, token="anna") as anna:
        assert await names(anna) == []
        async with within(4):
            assert [await names(anna) for _ in range(10)] == [[]] * 10


async def test_tools_for_all_users_are_listed_once(tmp_path):
    behind = SteadyServer(tmp_path / "steady")
    async with http_server(Runtime(behind.provider()), token=lambda shown: shown) as url:
        for user in USERS:
            async with http_client(url, token=user) as client:
                assert "steady__pid" in await names(client)
    assert behind.starts == 1


async def test_a_call_of_another_users_tool_does_not_reveal_its_header_parameters(tmp_path):
    behind = SteadyServer(tmp_path / "steady")
    schema = {"type": "object", "properties": {"customer": {"type": "string", "x-mcp-header": "Customer"}}}
    behind.set_tools(tool_definition("pid", inputSchema=schema))
    async with http_site(Runtime(behind.provider(env=variables)), token=lambda shown: shown) as site:
        _, annas, eves = [
            await site.ask(call_request("steady__pid", ("Authorization", f"Bearer {user}"), customer="acme"))
            for user in ("anna", "anna", "eve")
        ]

    assert annas.error == HEADER_MISMATCH
    assert eves.error == INVALID_PARAMS
    told = eves.json["error"]["message"]
    assert told.startswith("Unknown tool: steady__pid. steady did not say what it offers: ")
    assert "customer" not in told.lower()
