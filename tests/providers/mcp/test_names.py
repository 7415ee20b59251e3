"""Names of tools: a server's, and a program's own, with characters that names may not have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from surehand import Catalogue, DefinitionError, Done, Runtime, tool
from surehand.providers.tool_names import earlier_local_name
from surehand.providers.trust.lock import DefinitionLock
from tests.providers.mcp.steady_server import SteadyServer, tool_definition


def names(runtime: Runtime) -> list[str]:
    return [entry["function"]["name"] for entry in runtime.describe("openai")]


async def test_read_file_with_a_space_is_called_by_its_name_with_an_underscore(server: SteadyServer) -> None:
    server.set_tools(tool_definition("read file"))

    async with Runtime(server.provider()) as runtime:
        assert names(runtime) == ["steady__read_file"]


async def test_a_hash_is_added_only_where_two_names_would_be_the_same_or_a_name_is_cut(server: SteadyServer) -> None:
    server.set_tools(
        tool_definition("read file"),
        tool_definition("read_file"),
        tool_definition("list all"),
        tool_definition("x." + "y" * 80),
    )

    async with Runtime(server.provider()) as runtime:
        found = sorted(names(runtime))

    assert found[0] == "steady__list_all"
    assert found[1] == "steady__read_file"
    assert re.fullmatch("steady__read_file_[0-9a-f]{8}", found[2])
    assert re.fullmatch("steady__x_y+_[0-9a-f]{8}", found[3])
    assert len(found[3]) == 64


async def test_a_tool_is_found_under_the_name_that_earlier_versions_gave_it(server: SteadyServer) -> None:
    earlier = earlier_local_name("echo it")
    server.set_tools({**tool_definition("echo it")})

    async with Runtime(server.provider(allow=[earlier], effects={earlier: ["read"]})) as runtime:
        assert earlier == "echo_it_" + earlier[-8:]
        assert names(runtime) == ["steady__echo_it"]
        assert runtime.catalogue.find(f"steady__{earlier}") is runtime.catalogue.find("steady__echo_it")
        assert runtime.catalogue.find("steady__echo_it").policy_effects == {"read"}

    server.set_tools(tool_definition("echo it"), tool_definition("other"))
    async with Runtime(server.provider(deny=[earlier])) as runtime:
        assert names(runtime) == ["steady__other"]


async def test_a_lock_file_that_pins_a_changed_name_keeps_working(server: SteadyServer, tmp_path: Path) -> None:
    lock = tmp_path / "surehand.lock"
    server.set_tools(tool_definition("read file"))
    async with Runtime(server.provider(lock=lock)):
        pass
    before = lock.read_text()

    async with Runtime(server.provider(lock=lock, frozen=True)) as runtime:
        assert names(runtime) == ["steady__read_file"]

    assert lock.read_text() == before
    assert list(json.loads(before)["servers"]["steady"]["tools"])[-1] == "read file"
    assert DefinitionLock(lock).changes() == []


async def test_a_new_tool_that_would_take_the_name_of_a_pinned_one_is_held_back(server: SteadyServer) -> None:
    server.set_tools(tool_definition("read file"))
    async with Runtime(server.provider()) as runtime:
        server.set_tools(tool_definition("read_file"))
        await runtime.refresh("steady")
        outcome = await runtime.call("steady__read_file")

    assert outcome.code == "denied"
    assert "would be called like steady/read file" in outcome.message


async def test_a_programs_own_tool_gets_the_nearest_legal_name() -> None:
    @tool(name="read file")
    async def read() -> str:
        """Read."""
        return "read"

    asked = tool.client("ask person", "Ask.")
    lazy = tool.lazy("list all", lambda: read)

    other = read.evolve(name="read other")

    async with Runtime(read, asked, lazy, other) as runtime:
        assert names(runtime) == ["read_file", "ask_person", "read_other", "list_all"]
        assert await runtime.call("read_file") == await runtime.call("read file") == Done("read")


def test_of_two_own_tools_with_the_same_legal_name_the_changed_one_gets_a_hash() -> None:
    def read() -> str:
        """Read."""
        return "read"

    changed, plain, third = tool(name="read file")(read), tool(name="read_file")(read), tool(name="read.file")(read)

    for order in ([changed, plain], [plain, changed]):
        found = {listing.tool.given_name: listing.name for listing in Catalogue(*order)}
        assert found[""] == "read_file"
        assert re.fullmatch("read_file_[0-9a-f]{8}", found["read file"])
    assert len(Catalogue(changed, third, plain)) == 3
    with pytest.raises(DefinitionError, match="There is a tool 'read_file' already"):
        Catalogue(changed, tool(name="read file")(read))
