"""Effects of MCP tools: what a server's annotations mean for policy, repetition and approval."""

from __future__ import annotations

from pathlib import Path

import pytest

from surehand import DefinitionError, Done, Pending, Policy, Runtime, tool
from surehand.config.config import read_config
from tests.providers.mcp.steady_server import SteadyServer
from tests.providers.mcp.test_caching import effect

READ = {"readOnlyHint": True}


async def test_a_tool_marked_read_only_is_read_repeatable_and_not_asked_about(server: SteadyServer) -> None:
    server.set_tools(effect(annotations=READ))

    async with Runtime(server.provider(), policy=Policy.default()) as runtime:
        listing = runtime.catalogue.find("steady__effect")
        assert (listing.policy_effects, listing.tool.repeatable) == ({"read"}, True)
        assert await runtime.call("steady__effect", {"text": "x"}) == Done("done")


async def test_a_read_only_tool_with_an_explicit_open_world_hint_is_network_too_and_asked_about(
    server: SteadyServer,
) -> None:
    server.set_tools(effect(annotations={**READ, "openWorldHint": True}))

    async with Runtime(server.provider(), policy=Policy.default()) as runtime:
        assert runtime.catalogue.find("steady__effect").policy_effects == {"read", "network"}
        assert isinstance(await runtime.call("steady__effect", {"text": "x"}), Pending)


async def test_a_tool_without_annotations_is_write_and_no_longer_network(server: SteadyServer) -> None:
    async with Runtime(server.provider(), policy=[{"effects": ["network"], "decision": "deny"}]) as runtime:
        assert runtime.catalogue.find("steady__effect").policy_effects == {"write"}
        assert (await runtime.call("steady__effect", {"text": "x"})).ok


async def test_a_policy_that_distrusts_annotations_asks_and_does_not_cache(server: SteadyServer) -> None:
    server.set_tools(effect(annotations=READ))
    cautious = Policy.default(trust_annotations=False)

    async with Runtime(server.provider(cache="5m"), policy=cautious) as runtime:
        first = await runtime.call("steady__effect", {"text": "x"})
        assert isinstance(first, Pending)
        assert (await runtime.approve(first.call_id)).ok
        runtime.policy = Policy(trust_annotations=False)
        assert (await runtime.call("steady__effect", {"text": "x"})).ok
        assert len(server.effects) == 2
        runtime.policy = Policy()
        for _ in range(2):
            assert (await runtime.call("steady__effect", {"text": "x"})).ok
    assert len(server.effects) == 3


def test_the_file_can_say_that_annotations_are_distrusted(tmp_path: Path) -> None:
    (tmp_path / "surehand.yaml").write_text(
        "policy: {trust_annotations: false, rules: [{effects: [write], decision: deny}]}\n"
    )
    config = read_config(tmp_path / "surehand.yaml")

    assert config.policy is not None
    assert not config.policy.trust_annotations
    assert [rule.decision for rule in config.policy.rules] == ["deny"]


def test_a_cached_lookup_at_a_constant_host_is_no_definition_error() -> None:
    @tool(effects={"read"}, cache="5m")
    async def rate(currency: str) -> float:
        """The rate of a currency, from the one host that is written here."""
        return 1.0

    assert rate.repeatable
    with pytest.raises(DefinitionError, match="A call to a host that you wrote down is not `network`"):
        tool(name="rate", effects={"read", "network"}, cache="5m")(lambda: 1)
