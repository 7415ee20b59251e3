"""Listing tools and prompts, page by page, and again after a notification of changes."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp.server import MCPServer, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged

from surehand import Runtime, mcp
from surehand.providers.mcp.connection import tools_list
from tests.providers.mcp.steady_server import wait_until


class Book:
    """Prompts on pages of one each."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.asked = 0

    async def list_prompts(self, context: Any, params: Any) -> types.ListPromptsResult:
        self.asked += 1
        page = int(params.cursor or 0) if params else 0
        prompts = [types.Prompt(name=name) for name in self.names[page : page + 1]]
        more = str(page + 1) if page + 1 < len(self.names) else None
        return types.ListPromptsResult(prompts=prompts, next_cursor=more)


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_prompts_are_fetched_to_the_last_page(protocol: Any) -> None:
    book = Book("ask", "brief", "cheer")
    async with Runtime(mcp.server(Server("book", on_list_prompts=book.list_prompts), protocol=protocol)) as runtime:
        assert runtime.instructions() == "## book\nPrompts:\n- ask\n- brief\n- cheer"


async def test_an_endless_list_of_prompts_is_cut(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tools_list, "MAX_LIST_PAGES", 3)
    book = Book(*map(str, range(1_000)))
    async with Runtime(mcp.server(Server("book", on_list_prompts=book.list_prompts))) as runtime:
        assert "- 2" in runtime.instructions()
    assert book.asked == 3
    assert "The list of prompts was cut: at most 10000 items, 3 pages" in caplog.text


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_server_that_never_lists_its_prompts_still_has_its_tools(
    protocol: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tools_list, "PROMPTS_TIMEOUT_SECONDS", 0.1)
    desk = MCPServer("desk", log_level="WARNING")
    desk.add_tool(lambda: "here", name="where")

    async def never(context: Any, params: Any) -> types.ListPromptsResult:
        return await asyncio.get_running_loop().create_future()

    desk._lowlevel_server.add_request_handler("prompts/list", types.PaginatedRequestParams, never)
    async with Runtime(mcp.server(desk, protocol=protocol, start_timeout=5)) as runtime:
        assert (await runtime.call("desk__where")).text == "here"
    assert "The prompts were not listed within 0.1 s, and are ignored." in caplog.text


async def test_changes_of_prompts_alone_are_subscribed_to() -> None:
    book, bus = Book("old"), InMemorySubscriptionBus()
    server = Server("book", on_list_prompts=book.list_prompts, on_subscriptions_listen=ListenHandler(bus))
    async with Runtime(mcp.server(server)) as runtime:
        await wait_until(lambda: bool(bus._listeners))
        book.names = ("new",)
        await bus.publish(PromptsListChanged())
        await wait_until(lambda: "Prompts of it are held back" in runtime.instructions())
