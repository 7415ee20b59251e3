"""Notifications of list changes."""

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
from mcp import Client
from mcp.shared.subscriptions import ResourcesListChanged, ToolsListChanged

from surehand import Runtime, gateway, tool
from surehand.gateway.mcp import notifications as news_module
from surehand.gateway.mcp.notifications import ChangeNotifications
from tests.gateway.mcp.named_tools import NamedToolsProvider
from tests.gateway.mcp.raw_client import eventually
from tests.gateway.mcp.sdk_clients import ERAS, HANDSHAKE, MODERN, http_client, http_server, sdk_client, within
from tests.gateway.mcp.stdio_peer import META, message, stdio_peer

eras = pytest.mark.parametrize("era", ERAS)


@tool
async def look() -> str:
    """Look."""
    return "seen"


@tool
async def send() -> str:
    """Send."""
    return "sent"


@tool(max_bytes=1_000)
async def large() -> str:
    """Much."""
    return "x" * 2_000


class Heard(asyncio.Queue):
    """What a client is told, by the name of the list."""

    async def note(self, message) -> None:
        method = getattr(message, "method", "")
        if method.endswith("/list_changed"):
            self.put_nowait(method.split("/")[1])

    def told(self) -> list[str]:
        return [self.get_nowait() for _ in range(self.qsize())]


@asynccontextmanager
async def listening(served, era: str, connect=sdk_client):
    """A client that hears of changes as its protocol has it."""
    heard = Heard()
    async with connect(served, era, message_handler=heard.note if era == HANDSHAKE else None) as client:
        if era == HANDSHAKE:
            yield client, heard
            return
        async with client.listen(tools_list_changed=True, resources_list_changed=True) as events:
            told = asyncio.create_task(_note(events, heard))
            yield client, heard
        await asyncio.wait({told})


async def _note(events, heard: Heard) -> None:
    async for event in events:
        heard.put_nowait({ToolsListChanged: "tools", ResourcesListChanged: "resources"}[type(event)])


@eras
async def test_an_added_or_removed_tool_is_notified(era):
    async with within(), Runtime(look) as runtime, listening(runtime, era) as (client, heard):
        runtime.catalogue.add(send)
        assert await heard.get() == "tools"
        runtime.catalogue.remove("look")
        assert await heard.get() == "tools"
        assert [each.name for each in (await client.list_tools()).tools] == ["send"]


@eras
async def test_an_added_tool_is_notified_over_stdio(era):
    asks, meta = {"notifications": {"toolsListChanged": True}}, {} if era == HANDSHAKE else {"_meta": META}
    async with within(), Runtime(look) as runtime, stdio_peer(runtime) as peer:
        if era == HANDSHAKE:
            await peer.handshake()
            await peer.ask(message("ping", 1))
        else:
            assert (await peer.ask(message("subscriptions/listen", 1, **asks, **meta)))["method"].endswith(
                "acknowledged"
            )
        runtime.catalogue.add(send)
        told = await peer.receive()
        listed = await peer.ask(message("tools/list", 2, **meta))

    assert told["method"] == "notifications/tools/list_changed"
    assert [each["name"] for each in listed["result"]["tools"]] == ["look", "send"]


@eras
async def test_many_changes_at_once_are_sent_as_one(era):
    async with within(), Runtime(look) as runtime, listening(runtime, era) as (client, heard):
        for number in range(50):
            runtime.catalogue.add(tool(name=f"t{number}")(_more()))
        await heard.get()
        await asyncio.sleep(0.15)

        assert heard.told() == []
        assert len((await client.list_tools()).tools) == 51


def _more():
    async def more() -> str:
        """More."""
        return ""

    return more


@eras
async def test_a_tool_that_is_added_in_a_thread_is_notified(era):
    async with within(), Runtime(look) as runtime, listening(runtime, era) as (_, heard):
        await asyncio.to_thread(runtime.catalogue.add, send)

        assert await heard.get() == "tools"


@eras
async def test_a_stored_output_is_notified(era):
    async with within(), Runtime(large) as runtime, listening(runtime, era) as (client, heard):
        await client.call_tool("large")
        first = {await heard.get(), await heard.get()}
        await client.call_tool("large")

        assert first == {"tools", "resources"}  # the reader came with the first
        assert await heard.get() == "resources"


@eras
async def test_changes_are_notified_over_http(era):
    runtime = Runtime(large)
    async with within(), http_server(runtime) as url, listening(url, era, http_client) as (client, heard):
        if era == HANDSHAKE:  # its stream is opened behind the first request
            await until_heard(runtime, heard)
        await client.call_tool("large")
        while await heard.get() != "resources":  # the tool that reads outputs came with it
            pass


async def until_heard(runtime, heard: Heard) -> None:
    for number in range(100):
        runtime.catalogue.add(tool(name=f"try{number}")(_more()), on_conflict="rename")
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await heard.get()
                return


@eras
async def test_an_output_is_notified_to_its_user_only(era):
    runtime, people = Runtime(large), {"a": "ann", "b": "bob"}
    ann, bob = (partial(http_client, token=token) for token in people)
    async with (
        within(),
        http_server(runtime, token=people.get) as url,
        listening(url, era, ann) as (client, anns),
        listening(url, era, bob) as (_, bobs),
    ):
        if era == HANDSHAKE:  # their streams are opened behind the first request
            await until_heard(runtime, anns)
            await until_heard(runtime, bobs)
        await client.call_tool("large")
        while await anns.get() != "resources":
            pass
        runtime.catalogue.add(send)
        while await anns.get() != "tools":
            pass
        assert await bobs.get() == "tools"
        await asyncio.sleep(0.1)

        assert "resources" not in bobs.told()


@eras
async def test_every_client_is_notified(era):
    server = gateway.mcp.server(Runtime(look))
    async with within(), listening(server, era) as (_, first), listening(server, era) as (_, second):
        server.runtime.catalogue.add(send)

        assert (await first.get(), await second.get()) == ("tools", "tools")


@eras
async def test_a_disconnected_client_does_not_delay_others(era):
    server = gateway.mcp.server(Runtime(look))
    async with within(), listening(server, era) as (_, stays):
        async with listening(server, era):
            pass
        server.runtime.catalogue.add(send)

        assert await stays.get() == "tools"
        assert len(server.notifications._sessions) == (1 if era == HANDSHAKE else 0)


async def test_a_session_in_the_same_process_is_forgotten_when_it_ends():
    server = gateway.mcp.server(Runtime(look))
    heard = Heard()
    async with within(), server.runtime_lifespan:
        async with Client(server, mode=HANDSHAKE, message_handler=heard.note):
            server.runtime.catalogue.add(send)
            assert await heard.get() == "tools"
            assert len(server.notifications._sessions) == 1

        assert not server.notifications._sessions


async def test_a_session_over_http_is_forgotten_when_it_ends(monkeypatch):
    runtime, found = Runtime(large), []
    follow = ChangeNotifications.watch_changes
    monkeypatch.setattr(
        ChangeNotifications, "watch_changes", lambda self, *given: (found.append(self), follow(self, *given))[1]
    )
    async with within(), http_server(runtime) as url:
        async with listening(url, HANDSHAKE, http_client) as (_, heard):
            await until_heard(runtime, heard)
            [news] = found
            assert len(news._sessions) == 1

        await eventually(lambda: not news._sessions)


async def test_the_number_of_notified_sessions_is_limited(monkeypatch):
    monkeypatch.setattr(news_module, "MAX_NOTIFIED_SESSIONS", 2)
    server = gateway.mcp.server(Runtime(look))
    async with (
        within(),
        sdk_client(server, HANDSHAKE),
        sdk_client(server, HANDSHAKE),
        listening(server, HANDSHAKE) as (_, heard),
    ):
        server.runtime.catalogue.add(send)

        assert await heard.get() == "tools"
        assert len(server.notifications._sessions) == 2


async def test_a_client_that_does_not_read_does_not_delay_others():
    server = gateway.mcp.server(Runtime(look))
    stuck = asyncio.Event()

    async def never(message) -> None:
        if getattr(message, "method", "").endswith("list_changed"):
            await stuck.wait()

    async with (
        within(),
        sdk_client(server, HANDSHAKE, message_handler=never),
        listening(server, HANDSHAKE) as (_, heard),
    ):
        for tools in ([send], [large]):
            server.runtime.catalogue.add(*tools)
            assert await heard.get() == "tools"
        stuck.set()


async def test_a_subscription_to_one_list_gets_no_changes_of_the_other():
    server = gateway.mcp.server(Runtime(large))
    async with within(), sdk_client(server) as client, client.listen(resources_list_changed=True) as events:
        server.runtime.catalogue.add(look)
        await client.call_tool("large")

        assert await anext(aiter(events)) == ResourcesListChanged()


async def test_in_the_modern_protocol_nothing_is_sent_without_a_subscription():
    heard = Heard()
    async with Runtime(look) as runtime, sdk_client(runtime, MODERN, message_handler=heard.note) as client:
        runtime.catalogue.add(send)
        await asyncio.sleep(0.1)
        await client.list_tools()

    assert heard.told() == []


async def test_a_client_that_caches_lists_lists_again_after_a_notification():
    server = gateway.mcp.server(Runtime(look))
    async with within(), Client(server, mode=MODERN) as client, client.listen(tools_list_changed=True) as events:
        before = await client.list_tools()
        server.runtime.catalogue.add(send)
        kept = await client.list_tools()
        await anext(aiter(events))
        after = await client.list_tools()

    assert [len(each.tools) for each in (before, kept, after)] == [1, 1, 2]


@eras
async def test_nothing_is_sent_after_the_end(era):
    async with Runtime(look) as runtime:
        async with listening(runtime, era):
            runtime.catalogue.add(send)
        runtime.catalogue.add(large)

        assert not runtime.outputs._subscribers


async def test_a_stream_ends_in_order_when_the_server_does():
    server = gateway.mcp.server(Runtime(look))
    async with (
        within(),
        server.runtime_lifespan,
        sdk_client(server, MODERN) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        server.listen_handler.close()

        assert [event async for event in events] == []


@eras
async def test_a_client_gets_the_instructions_of_all_providers(era):
    shop = NamedToolsProvider("shop", "look", says="Look before you send.")
    async with sdk_client(Runtime(shop), "auto" if era == MODERN else era) as client:
        assert "Look before you send." in client.instructions


@eras
async def test_instructions_are_those_at_the_time_of_the_request(era):
    shop = NamedToolsProvider("shop", "look", says="Closed on Sundays.")
    server = gateway.mcp.server(Runtime(shop))
    mode = "auto" if era == MODERN else era
    async with sdk_client(server, mode) as first:
        shop.says = "Open every day \ud83d."
        async with sdk_client(server, mode) as second:
            assert "Closed on Sundays." in first.instructions
            assert "Open every day ?." in second.instructions


async def test_a_runtime_without_instructions_gives_none():
    async with sdk_client(Runtime(look), HANDSHAKE) as client:
        assert client.instructions is None
