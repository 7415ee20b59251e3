"""Short names of tools: a name of one tool never reaches another tool."""

import pytest
from mcp import MCPError

from surehand import Runtime, tool
from tests.gateway.mcp.backend_server import BackendServer, returning, text_block
from tests.gateway.mcp.raw_client import RawClient, eventually, raw_client, text_of


async def names(client: RawClient) -> set[str]:
    return {each["name"] for each in (await client.ask("tools/list"))["tools"]}


def saying(**tools: str) -> BackendServer:
    back = BackendServer()
    for name, said in tools.items():
        back.add(name, returning(content=[text_block(said)]))
    return back


def both(one: BackendServer, two: BackendServer) -> Runtime:
    return Runtime(one.provider(namespace="one"), two.provider(namespace="two"))


async def test_a_name_that_one_server_s_tool_had_is_not_given_to_another_s():
    one, two = saying(deploy="one"), saying(other="two")
    async with raw_client(
        Runtime(one.provider(namespace="one"), two.provider(namespace="two")), {}, short_names=True
    ) as client:
        assert text_of(await client.call("deploy")) == "one"

        two.add("deploy", returning(content=[text_block("two")]))
        await two.changed()
        await eventually(lambda: _has(client, "one__deploy", "two__deploy"))
        del one.definitions["deploy"]
        one.add("more")
        await one.changed()
        await eventually(lambda: _has(client, "two__deploy", "more"))
        with pytest.raises(MCPError, match="two__deploy"):
            await client.call("deploy")

        del two.definitions["deploy"]
        one.add("deploy", returning(content=[text_block("one again")]))
        await two.changed()
        await one.changed()
        await eventually(lambda: _has(client, "deploy"))
        assert text_of(await client.call("deploy")) == "one again"


async def _has(client: RawClient, *wanted: str) -> bool:
    return set(wanted) <= await names(client)


async def test_an_unused_short_name_is_available_once_it_is_unique():
    one, two = saying(deploy="one"), saying(deploy="two")
    async with raw_client(
        Runtime(one.provider(namespace="one"), two.provider(namespace="two")), {}, short_names=True
    ) as client:
        assert await names(client) == {"one__deploy", "two__deploy"}
        one.definitions.clear()
        one.add("more")
        await one.changed()
        await eventually(lambda: _has(client, "deploy", "more"))
        assert text_of(await client.call("deploy")) == "two"


@pytest.mark.parametrize("name", ["tool_output", "call_result"])
async def test_the_names_of_our_own_tools_are_never_given_away(name):
    @tool(effects={"read"}, max_bytes=1_000)
    async def big() -> str:
        """Give much."""
        return "line\n" * 10_000

    async with raw_client(Runtime(big, saying(**{name: "not ours"}).provider()), {}, short_names=True) as client:
        before = await names(client)
        link = (await client.call("big"))["content"][1]
        handle = link["uri"].rpartition("/")[2]
        read = await client.call("tool_output", {"handle": handle, "head": 1})

    assert before == {"big", f"back__{name}"}
    assert "line" in text_of(read)
