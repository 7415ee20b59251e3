"""Providers whose tools change while the runtime runs."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from surehand import Done, Failed, Pending, Provider, Runtime, Unavailable, protocols, tool
from surehand.core.events import CatalogueChanged


def remote(name: str, description: str = "Do it.") -> Any:
    return tool.external(name, description, effects={"read"}).evolve(kind="mcp", handler=None)


class Server(protocols.ChangeNotifier, Provider):
    """Offers what it is told to offer."""

    kind = "mcp"
    traits = protocols.ProviderTraits(retries_start=True)
    on_conflict = "rename"

    def __init__(self, *tools: Any, namespace: str = "server", up: bool = True) -> None:
        self.namespace, self.offered, self.up = namespace, tools, up
        self.cancelled: list[tuple[str | None, str]] = []
        self.stopped = 0

    async def start(self) -> None:
        if not self.up:
            raise Unavailable("no such command: nowhere")

    async def stop(self) -> None:
        self.stopped += 1

    async def tools(self) -> Any:
        return list(self.offered)

    async def invoke(self, call: Any, context: Any) -> Any:
        return Pending("input", message="Which?", request={}) if call.tool == "ask" else call.tool

    async def cancel(self, call: Any, reason: str) -> None:
        self.cancelled.append((call.id, reason))


async def told(runtime: Runtime, server: Server, *tools: Any) -> list[CatalogueChanged]:
    """Offer these tools, and wait until the runtime has taken them."""
    heard: list[CatalogueChanged] = []
    taken = asyncio.Event()

    def listener(event: Any) -> None:
        if isinstance(event, CatalogueChanged):
            heard.append(event)
            taken.set()

    end = runtime.listen(listener)
    server.offered = tools
    server.notify_changed()
    await taken.wait()
    end()
    return heard


async def test_tools_that_a_provider_adds_and_drops_are_found_and_gone() -> None:
    server = Server(remote("one"), remote("two"))
    async with Runtime(server) as runtime:
        [event] = await told(runtime, server, remote("two"), remote("three"))

        assert event == CatalogueChanged(("server__three",), ("server__one",))
        assert await runtime.call("server__three") == Done("three")
        assert await runtime.call("server__two") == Done("two")
        assert (await runtime.call("server__one")).code == "not_found"


async def test_a_tool_that_says_something_else_now_is_replaced() -> None:
    server = Server(remote("one", "As it was."))
    async with Runtime(server) as runtime:
        [event] = await told(runtime, server, remote("one", "As it is."))

        assert event == CatalogueChanged(("server__one",), ("server__one",))
        assert runtime.catalogue.find("server__one").tool.description == "As it is."


async def test_a_provider_that_says_the_same_again_changes_nothing() -> None:
    server = Server(remote("one"))
    async with Runtime(server) as runtime:
        before = runtime.catalogue.find("server__one")
        await told(runtime, server, remote("one"), remote("two"))

        assert runtime.catalogue.find("server__one") is before


async def test_a_provider_that_could_not_start_is_logged_and_added_when_it_recovers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server(up=False)
    with caplog.at_level(logging.WARNING):
        async with Runtime(server) as runtime:
            missing = await runtime.call("server__one")
            instructions = runtime.instructions()
            await told(runtime, server, remote("one"))

            assert await runtime.call("server__one") == Done("one")
            assert runtime.instructions() == ""

    assert isinstance(missing, Failed)
    assert "no such command: nowhere" in missing.message
    assert instructions == "## server\nIts tools are not available now: no such command: nowhere"
    assert "Provider server is unavailable: no such command: nowhere" in caplog.text
    assert server.stopped == 1


async def test_a_runtime_does_not_start_without_a_provider_that_it_must_have() -> None:
    server = Server(up=False)
    server.required = True
    with pytest.raises(Unavailable, match="no such command"):
        async with Runtime(server):
            pass
    assert server.stopped == 1


async def test_two_providers_with_the_same_names_both_keep_their_tools() -> None:
    async with Runtime(Server(remote("one")), Server(remote("one"))) as runtime:
        assert sorted(listing.name for listing in runtime.catalogue) == ["server__one", "server__one_2"]


async def test_tools_that_collide_with_others_leave_the_old_ones_in_place(caplog: pytest.LogCaptureFixture) -> None:
    server, other = Server(remote("one")), Server(remote("three"))
    server.on_conflict = "error"
    async with Runtime(server, other) as runtime:
        server.offered = (remote("three"),)
        with caplog.at_level(logging.WARNING):
            await runtime.refresh("server")
        assert await runtime.call("server__one") == Done("one")
    assert "The changed tools of provider server were rejected" in caplog.text


async def test_no_more_servers_start_at_once_than_allowed() -> None:
    going, most = 0, 0

    class Slow(Server):
        async def start(self) -> None:
            nonlocal going, most
            going += 1
            most = max(most, going)
            await asyncio.sleep(0.01)
            going -= 1

    servers = [Slow(remote("one"), namespace=f"server{number}") for number in range(6)]
    async with Runtime(*servers, defaults={"mcp_init_concurrency": 2}):
        pass
    assert most == 2


async def test_a_provider_is_notified_when_its_input_request_gets_no_answer() -> None:
    server = Server(remote("ask"))
    async with Runtime(server) as runtime:
        waiting = await runtime.call("server__ask")
        await runtime.cancel(waiting.call_id)
        assert server.cancelled == [(waiting.call_id, "cancel")]
