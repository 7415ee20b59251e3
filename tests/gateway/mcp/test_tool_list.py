"""The list of tools."""

import gc
import weakref
from typing import Annotated

import pytest
from mcp import Client, MCPError
from pydantic import Field

from surehand import DefinitionError, Runtime, gateway, tool
from tests.gateway.mcp.named_tools import NamedToolsProvider
from tests.gateway.mcp.sdk_clients import ERAS, HANDSHAKE, MODERN, sdk_client

eras = pytest.mark.parametrize("era", ERAS)


@tool(effects={"read"}, toolsets=("reading",), display={"title": "Look up"})
async def look(word: Annotated[str, Field(description="Any word")], most: int = 3) -> str:
    """Look a word up."""
    return word * most


@tool(effects={"write", "network"})
async def send(to: str) -> str:
    """Send a letter."""
    return to


@tool(audience="user")
async def settings() -> str:
    """For people."""
    return ""


@tool(listed=False)
async def hidden() -> str:
    """For those who know its name."""
    return ""


def numbered(count: int) -> list:
    return [tool(name=f"t{number:03}", description="One of many.")(_nothing()) for number in range(count)]


def _nothing():
    async def nothing() -> str:
        return ""

    return nothing


async def names(client: Client) -> list[str]:
    found, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += [each.name for each in page.tools]
        if (cursor := page.next_cursor) is None:
            return found


@eras
async def test_a_tool_is_shown_as_it_was_defined(era):
    async with sdk_client(Runtime(look, send), era) as client:
        first, second = (await client.list_tools()).tools

    assert (first.name, first.title, first.description) == ("look", "Look up", "Look a word up.")
    assert first.input_schema == look.schema
    assert first.annotations.read_only_hint
    assert not first.annotations.destructive_hint
    assert second.annotations.open_world_hint
    assert second.annotations.destructive_hint


@eras
async def test_tools_that_are_not_for_models_are_neither_listed_nor_callable(era):
    async with sdk_client(Runtime(look, settings, hidden), era) as client:
        assert await names(client) == ["look"]
        for name in ("settings", "hidden"):
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool(name)


@eras
async def test_a_long_list_comes_in_pages(era):
    async with sdk_client(Runtime(*numbered(7)), era, page=3) as client:
        first = await client.list_tools()
        assert len(first.tools) == 3
        assert first.next_cursor
        assert await names(client) == [f"t{number:03}" for number in range(7)]


async def test_a_list_that_fits_has_no_next_page():
    async with sdk_client(Runtime(*numbered(6)), page=3) as client:
        second = await client.list_tools(cursor=(await client.list_tools()).next_cursor)

    assert len(second.tools) == 3
    assert second.next_cursor is None


async def test_tools_that_change_between_two_pages_do_not_shift_the_others():
    async with Runtime(*numbered(6)) as runtime, sdk_client(runtime, page=2) as client:
        first = await client.list_tools()
        runtime.catalogue.remove("t000")
        runtime.catalogue.add(look)
        second = await client.list_tools(cursor=first.next_cursor)

    assert [each.name for each in second.tools] == ["t002", "t003"]


@eras
@pytest.mark.parametrize("cursor", ["", "nonsense", "W10=", "WyJ0b29scyIsIDFd", "WyJvdXRwdXRzIiwgInQwMDAiXQ==", "é"])
async def test_a_cursor_that_was_never_given_is_refused(era, cursor):
    async with sdk_client(Runtime(*numbered(3)), era, page=2) as client:
        with pytest.raises(MCPError) as refused:
            await client.list_tools(cursor=cursor)

    assert refused.value.code == -32602
    assert "list from the start" in refused.value.message


async def test_a_cursor_whose_tool_is_gone_is_refused():
    async with Runtime(*numbered(4)) as runtime, sdk_client(runtime, page=2) as client:
        cursor = (await client.list_tools()).next_cursor
        runtime.catalogue.remove("t001")
        with pytest.raises(MCPError, match="no longer"):
            await client.list_tools(cursor=cursor)


async def test_the_list_may_be_cached_for_a_minute_by_its_client():
    async with sdk_client(Runtime(look)) as client:
        listed = await client.list_tools()

    assert (listed.ttl_ms, listed.cache_scope) == (60_000, "private")


async def test_an_empty_runtime_has_an_empty_list():
    async with sdk_client(Runtime()) as client:
        assert await names(client) == []


@eras
async def test_a_toolset_is_all_that_is_shown_and_called(era):
    async with Runtime(look, send) as runtime, sdk_client(runtime, era, toolset="reading") as client:
        assert await names(client) == ["look"]
        with pytest.raises(MCPError, match="Unknown tool: send"):
            await client.call_tool("send", {"to": "Ada"})


async def test_a_toolset_may_be_defined_anew_while_it_is_served():
    async with Runtime(look, send) as runtime:
        runtime.catalogue.toolset("mine", "look")
        async with sdk_client(runtime, toolset="mine") as client:
            before = await names(client)
            runtime.catalogue.toolset("mine", "send")
            assert (before, await names(client)) == (["look"], ["send"])


async def test_a_toolset_that_has_lost_its_last_tool_is_empty():
    async with Runtime(look, send) as runtime, sdk_client(runtime, toolset="reading") as client:
        runtime.catalogue.remove("look")
        assert await names(client) == []


async def test_an_unknown_toolset_is_an_error_when_serving_begins():
    server = gateway.mcp.server(Runtime(look), toolset="readin")

    with pytest.raises(DefinitionError, match="Did you mean 'reading'"):
        async with server.lifespan(server):
            raise AssertionError("It was served.")
    assert not server.runtime.is_open


async def test_the_reader_of_outputs_is_shown_with_any_toolset_once_there_are_some():
    @tool(max_bytes=1_000, toolsets=("large",))
    async def large() -> str:
        """Much."""
        return "x" * 2_000

    async with Runtime(large, look) as runtime, sdk_client(runtime, toolset="large") as client:
        before = await names(client)
        await client.call_tool("large")
        assert (before, await names(client)) == (["large"], ["large", "tool_output"])


async def test_short_names_leave_out_the_provider_unless_two_tools_would_be_called_the_same():
    shops = (
        NamedToolsProvider("shop", "look", "send"),
        NamedToolsProvider("post", "send"),
        NamedToolsProvider("bank", "pay"),
    )
    async with sdk_client(Runtime(*shops, look), short_names=True) as client:
        assert sorted(await names(client)) == ["look", "pay", "post__send", "shop__look", "shop__send"]
        paid = await client.call_tool("pay")
        sent = await client.call_tool("post__send")
        with pytest.raises(MCPError, match="Did you mean pay"):
            await client.call_tool("bank__pay")

    assert (paid.content[0].text, sent.content[0].text) == ("bank did pay", "post did send")


async def test_a_short_name_gives_way_to_a_tool_that_is_called_so():
    async with (
        Runtime(NamedToolsProvider("shop", "look", "send"), look) as runtime,
        sdk_client(runtime, short_names=True) as client,
    ):
        shown = await names(client)
        own = await client.call_tool("look", {"word": "a"})

    assert sorted(shown) == ["look", "send", "shop__look"]
    assert own.content[0].text == "aaa"


async def test_the_mcp_options_of_a_tool_are_in_its_entry():
    declared = {"mcp": {"execution": {"taskSupport": "optional"}, "_meta": {"owner": "us"}}}

    @tool(provider_options=declared)
    async def slow() -> str:
        """Take time."""
        return ""

    async with sdk_client(Runtime(slow)) as client:
        [shown] = (await client.list_tools()).tools

    assert shown.meta == {"owner": "us"}


@eras
async def test_a_description_with_a_lone_surrogate_does_not_break_the_list(era):
    @tool(description="Half a pair: \ud83d.")
    async def half() -> str:
        return "\ud83d"

    async with sdk_client(Runtime(half, look), era) as client:
        assert next(each.description for each in (await client.list_tools()).tools) == "Half a pair: ?."
        assert (await client.call_tool("half")).content[0].text == "?"


@eras
async def test_tools_that_come_later_are_listed_and_called(era):
    async with Runtime(look) as runtime, sdk_client(runtime, era) as client:
        before = await names(client)
        runtime.catalogue.add(send)
        after = await names(client)
        sent = await client.call_tool("send", {"to": "Ada"})

    assert (before, after) == (["look"], ["look", "send"])
    assert sent.content[0].text == "Ada"


async def test_a_server_that_is_thrown_away_is_not_kept_by_its_runtime():
    gc.disable()  # or it might not stay young, and to look through all that other tests have left would take seconds
    try:
        runtime = Runtime(look)
        server = gateway.mcp.server(runtime)
        served = weakref.ref(server.served_runtime)
        del server
        gc.collect(1)
    finally:
        gc.enable()

    assert served() is None
    assert not runtime.catalogue._watchers


@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
async def test_a_server_sends_its_name_version_and_capabilities(era):
    server = gateway.mcp.server(Runtime(look), name="shop", version="1.2")
    async with Client(server, mode="auto" if era == MODERN else era) as client:
        about, can = client.server_info, client.server_capabilities

    assert (about.name, about.version) == ("shop", "1.2")
    assert can.tools.list_changed
    assert can.resources.list_changed
    assert (can.extensions or {}).keys() == ({"io.modelcontextprotocol/tasks"} if era == MODERN else set())
    assert can.prompts is None
