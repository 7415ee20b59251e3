"""Policy by name: a rule that names a tool covers it under every name; a rule that matches no tool is a warning."""

import logging
from pathlib import Path
from typing import Any

import pytest

from surehand import Done, Failed, Policy, Provider, Runtime, Tool, Unavailable, files, prefixed, renamed, tool, web
from surehand.assemble.assemble import assemble
from surehand.config.config import read_config


@tool(effects={"write"}, aliases=("pay",))
async def transfer(amount: int = 1) -> str:
    """Transfer money."""
    return "paid"


def deny(*names: str) -> Policy:
    return Policy([{"tools": list(names), "decision": "deny"}])


async def decided(runtime: Runtime, name: str, arguments: Any = None) -> str:
    match await runtime.call(name, arguments):
        case Done():
            return "allow"
        case Failed(code="denied", message=message) if "denied by policy" in message:
            return "deny"
        case outcome:
            raise AssertionError(outcome)


SHORT = {"file_path": "a.txt", "content": "x"}
LONG = {"path": "a.txt", "content": "x"}


@pytest.mark.parametrize("named", ["write", "write_file"])
async def test_a_rule_on_the_short_or_the_long_name_covers_both(tmp_path: Path, named: str) -> None:
    async with Runtime(files(tmp_path, names="both"), policy=deny(named)) as runtime:
        assert await decided(runtime, "write", SHORT) == "deny"
        assert await decided(runtime, "write_file", LONG) == "deny"
        assert await decided(runtime, "list") == "allow"

    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize(
    ("naming", "named", "call"), [("short", "write_file", "write"), ("long", "write", "write_file")]
)
async def test_a_rule_covers_a_tool_by_the_name_that_this_instance_does_not_have(
    tmp_path: Path, naming: Any, named: str, call: str
) -> None:
    async with Runtime(files(tmp_path, names=naming), policy=deny(named)) as runtime:
        assert await decided(runtime, call, SHORT if call == "write" else LONG) == "deny"


@pytest.mark.parametrize("named", ["transfer", "pay"])
async def test_a_rule_on_a_name_or_alias_covers_both(named: str) -> None:
    async with Runtime(transfer, policy=deny(named)) as runtime:
        assert await decided(runtime, "transfer") == "deny"
        assert await decided(runtime, "pay") == "deny"


@pytest.mark.parametrize("named", ["transfer", "pay", "bank_transfer", "bank_pay", "bank_*"])
async def test_a_rule_covers_a_tool_that_was_prefixed(named: str) -> None:
    async with Runtime(prefixed([transfer], "bank"), policy=deny(named)) as runtime:
        assert await decided(runtime, "bank_transfer") == "deny"
        assert await decided(runtime, "bank_pay") == "deny"


class Bank(Provider):
    namespace = "bank"

    async def tools(self) -> list[Tool[..., Any]]:
        return [tool.provided("send", "Send money.", effects={"write"})]

    async def invoke(self, call: Any, context: Any) -> str:
        return "sent"


@pytest.mark.parametrize("named", ["bank__send", "bank__wire"])
async def test_a_rule_covers_a_providers_tool_that_was_renamed(named: str) -> None:
    async with Runtime(renamed(Bank(), {"send": "wire"}), policy=deny(named)) as runtime:
        assert await decided(runtime, "bank__wire") == "deny"


async def test_a_rule_covers_a_further_instance_of_a_tool() -> None:
    second = transfer.evolve(name="transfer_abroad", aliases=())

    async with Runtime(transfer, second, policy=deny("transfer")) as runtime:
        assert await decided(runtime, "transfer_abroad") == "deny"
    async with Runtime(transfer, second, policy=deny("transfer_abroad")) as runtime:
        assert await decided(runtime, "transfer_abroad") == "deny"
        assert await decided(runtime, "transfer") == "allow"


async def test_a_deny_covers_a_tool_whose_name_was_taken_and_an_allow_does_not() -> None:
    class OtherBank(Bank):
        on_conflict = "rename"

    async with Runtime(Bank(), OtherBank(), policy=deny("bank__send")) as runtime:
        assert await decided(runtime, "bank__send_2") == "deny"
    only_first = Policy([{"tools": "bank__send", "decision": "allow"}, {"decision": "deny"}])
    async with Runtime(Bank(), OtherBank(), policy=only_first) as runtime:
        assert await decided(runtime, "bank__send") == "allow"
        assert await decided(runtime, "bank__send_2") == "deny"


async def test_an_allow_covers_a_tool_under_every_name(tmp_path: Path) -> None:
    policy = Policy([{"tools": "write", "decision": "allow"}, {"effects": "write", "decision": "deny"}])

    async with Runtime(files(tmp_path, names="long"), transfer, policy=policy) as runtime:
        assert await decided(runtime, "write_file", LONG) == "allow"
        assert await decided(runtime, "transfer") == "deny"


async def test_a_name_that_is_not_offered_never_leads_to_the_tool_of_a_server(tmp_path: Path) -> None:
    class Notes(Bank):
        namespace = "notes"

        async def tools(self) -> list[Tool[..., Any]]:
            return [tool.provided("write", "Write a note.", effects={"write"})]

    async with Runtime(files(tmp_path, names="long"), Notes(), policy=deny("write")) as runtime:
        outcome = await runtime.call("write")

    assert isinstance(outcome, Failed)
    assert outcome.code == "not_found"


async def test_every_callable_built_in_tool_is_described(tmp_path: Path) -> None:
    (tmp_path / "surehand.yaml").write_text("builtin: {files: {names: both}, web: true, shell: true, data: true}\n")

    async with assemble(read_config(tmp_path / "surehand.yaml")) as runtime:
        described = {entry["function"]["name"] for entry in runtime.describe("openai")}
        outcome = await runtime.call("web_search", {"query": "x"})

    assert described == {listing.name for listing in runtime.catalogue}
    assert {"read", "read_file", "write", "write_file"} <= described
    assert isinstance(outcome, Failed)
    assert "no search engine is set up" in outcome.message


@pytest.mark.parametrize(
    ("naming", "offered"), [("short", {"read"}), ("long", {"read_file"}), ("both", {"read", "read_file"})]
)
async def test_the_configuration_file_names_the_tools_in_the_same_way(
    tmp_path: Path, naming: str, offered: set[str]
) -> None:
    (tmp_path / "surehand.yaml").write_text(f"builtin: {{files: {{names: {naming}}}}}\n")

    async with assemble(read_config(tmp_path / "surehand.yaml")) as runtime:
        names = {listing.name for listing in runtime.catalogue}

    assert names & {"read", "read_file"} == offered


# A rule that matches no tool


async def start_warnings(caplog: pytest.LogCaptureFixture, *sources: Any, policy: Any) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "surehand"):
        async with Runtime(*sources, policy=policy):
            pass
    return [record.getMessage() for record in caplog.records]


async def test_a_rule_that_matches_no_tool_is_a_warning_at_start(caplog: pytest.LogCaptureFixture) -> None:
    [warning] = await start_warnings(caplog, transfer, policy=deny("tranfer"))

    assert warning == (
        "Rule 1 of the policy (deny) names 'tranfer', and there is no such tool. Did you mean 'transfer'?"
    )


async def test_every_name_of_a_rule_must_match_a_tool(caplog: pytest.LogCaptureFixture) -> None:
    [warning] = await start_warnings(caplog, transfer, policy=deny("transfer", "git__*"))

    assert "'git__*'" in warning
    assert "'transfer'" not in warning


async def test_a_rule_whose_tools_do_not_have_its_effects_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    policy = [{"tools": "transfer", "effects": ["network"], "decision": "deny"}]

    [warning] = await start_warnings(caplog, transfer, policy=policy)

    assert warning == "Rule 1 of the policy (deny) matches no tool: none that it names has the effects network."


@pytest.mark.parametrize("rule", [{"tools": "pay"}, {"effects": ["execute"]}, {"tools": "*"}, {"tools": "tool_output"}])
async def test_a_rule_by_another_name_or_for_all_tools_is_no_warning(
    caplog: pytest.LogCaptureFixture, rule: dict[str, Any]
) -> None:
    assert await start_warnings(caplog, transfer, policy=[{**rule, "decision": "deny"}]) == []


async def test_a_rule_for_a_server_that_is_down_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Down(Bank):
        async def start(self) -> None:
            raise Unavailable("It is down.")

    for named in ("bank__send", "bank__*", "ban*"):
        [unavailable] = await start_warnings(caplog, Down(), policy=deny(named))
        assert unavailable == "Provider bank is unavailable: It is down."


async def test_a_policy_that_is_set_later_warns_as_well(caplog: pytest.LogCaptureFixture) -> None:
    async with Runtime(transfer, web()) as runtime:
        with caplog.at_level(logging.WARNING, "surehand"):
            runtime.policy = deny("nothing")

    assert "'nothing'" in caplog.text
