"""Policy: ordered rules on tool names, effects and arguments."""

import asyncio
from typing import Any

import pytest

from surehand import Context, DefinitionError, Done, Failed, Outcome, Pending, Policy, Provider, Runtime, Tool, tool


@tool(effects={"read"})
async def look(path: str = "") -> str:
    """Look at a file."""
    return f"looked at {path}"


@tool(effects={"read", "write"})
async def save(path: str = "", size: int = 0) -> str:
    """Save a file."""
    return f"saved {path}"


@tool(effects={"network"})
async def fetch(url: str = "") -> str:
    """Fetch a page."""
    return f"fetched {url}"


@tool
async def undeclared() -> str:
    """Says nothing about its effects."""
    return "ran"


async def decision(policy: Any, name: str, arguments: dict[str, Any] | None = None) -> str:
    """How a policy decides a call, seen from outside."""
    async with Runtime(look, save, fetch, undeclared, policy=policy) as runtime:
        return decided(await runtime.call(name, arguments))


def decided(outcome: Outcome) -> str:
    match outcome:
        case Done():
            return "allow"
        case Pending(waiting_for="approval"):
            return "ask"
        case Failed(code="denied", executed=False):
            return "deny"
    raise AssertionError(outcome)


async def test_without_a_policy_everything_that_was_put_in_is_allowed() -> None:
    for name in ("look", "save", "fetch", "undeclared"):
        assert await decision(None, name) == "allow"


async def test_a_call_that_no_rule_matches_is_allowed() -> None:
    assert await decision([{"tools": "other", "decision": "deny"}], "save") == "allow"


async def test_the_first_rule_that_matches_decides() -> None:
    rules = [{"tools": "save", "decision": "allow"}, {"tools": "*", "decision": "deny"}]

    assert await decision(rules, "save") == "allow"
    assert await decision(rules, "look") == "deny"
    assert await decision(rules[::-1], "save") == "deny"


async def test_a_rule_without_tools_or_effects_matches_every_call() -> None:
    assert await decision([{"decision": "deny"}], "undeclared") == "deny"


@pytest.mark.parametrize(
    ("tools", "matches"),
    [
        ("save", True),
        ("sa*", True),
        ("s?ve", True),
        ("[rs]ave", True),
        ("*", True),
        (["look", "save"], True),
        ("SAVE", False),
        ("sav", False),
        (["look", "f*"], False),
    ],
)
async def test_tools_are_named_exactly_or_by_glob(tools: Any, matches: bool) -> None:
    assert await decision([{"tools": tools, "decision": "deny"}], "save") == ("deny" if matches else "allow")


async def test_a_rule_sees_the_name_with_its_namespace_whatever_name_was_called() -> None:
    class Git(Provider):
        namespace = "git"

        async def tools(self) -> list[Tool[..., Any]]:
            return [push]

    push = tool.external("push", "Push commits.", aliases=("publish",))
    rules = [{"tools": "git__*", "decision": "deny"}]

    async with Runtime(Git(), policy=rules) as runtime:
        assert decided(await runtime.call("git__push")) == "deny"
        assert decided(await runtime.call("publish")) == "deny"
        assert decided(await runtime.call("push")) == "deny"


async def test_an_allow_must_cover_all_the_effects_of_a_tool() -> None:
    only_reading = [{"effects": ["read"], "decision": "allow"}, {"decision": "deny"}]
    both = [{"effects": ["read", "write"], "decision": "allow"}, {"decision": "deny"}]

    assert await decision(only_reading, "look") == "allow"
    assert await decision(only_reading, "save") == "deny"
    assert await decision(both, "save") == "allow"


@pytest.mark.parametrize("verdict", ["ask", "deny"])
async def test_ask_and_deny_match_any_effect_of_a_tool(verdict: str) -> None:
    rules = [{"effects": ["write", "execute"], "decision": verdict}]

    assert await decision(rules, "save") == verdict
    assert await decision(rules, "look") == "allow"


async def test_an_effect_may_be_given_without_a_list() -> None:
    assert await decision([{"effects": "network", "decision": "deny"}], "fetch") == "deny"


async def test_a_tool_that_declares_nothing_counts_as_reading() -> None:
    assert await decision([{"effects": ["read"], "decision": "deny"}], "undeclared") == "deny"
    assert await decision([{"effects": ["write", "network", "execute"], "decision": "deny"}], "undeclared") == "allow"
    assert await decision([{"effects": ["read"], "decision": "allow"}, {"decision": "deny"}], "undeclared") == "allow"


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        ("/etc/passwd", True),
        ("/etc/*", True),
        (["/srv/*", "/etc/*"], True),
        (("/srv/*", "/etc/passwd"), True),
        (lambda value: value.startswith("/etc"), True),
        ("/etc", False),
        ([], False),
        (lambda value: len(value) > 100, False),
    ],
)
async def test_an_argument_is_matched_by_value_glob_list_or_function(wanted: Any, matches: bool) -> None:
    rules = [{"arguments": {"path": wanted}, "decision": "deny"}]

    found = await decision(rules, "look", {"path": "/etc/passwd"})

    assert found == ("deny" if matches else "allow")


async def test_a_number_is_matched_as_the_handler_takes_it() -> None:
    rules = [{"arguments": {"size": 3}, "decision": "deny"}]

    assert await decision(rules, "save", {"size": 3}) == "deny"
    assert await decision(rules, "save", {"size": "3"}) == "deny"
    assert await decision(rules, "save", {"size": 4}) == "allow"


async def test_every_argument_of_a_rule_must_match() -> None:
    rules = [{"arguments": {"path": "/etc/*", "size": lambda size: size > 10}, "decision": "deny"}]

    assert await decision(rules, "save", {"path": "/etc/x", "size": 11}) == "deny"
    assert await decision(rules, "save", {"path": "/etc/x", "size": 10}) == "allow"
    assert await decision(rules, "save", {"path": "/etc/x"}) == "allow"


async def test_a_rule_about_arguments_leaves_other_arguments_to_the_rules_below() -> None:
    rules = [
        {"tools": "save", "arguments": {"path": "/tmp/*"}, "decision": "allow"},
        {"tools": "save", "arguments": {"path": "/etc/*"}, "decision": "deny"},
        {"tools": "save", "decision": "ask"},
    ]

    assert await decision(rules, "save", {"path": "/tmp/a"}) == "allow"
    assert await decision(rules, "save", {"path": "/etc/a"}) == "deny"
    assert await decision(rules, "save", {"path": "/home/a"}) == "ask"


async def test_a_function_of_an_argument_that_raises_never_lets_the_call_run() -> None:
    ran: list[str] = []

    @tool
    async def touch(path: Any) -> None:
        """Touch a file."""
        ran.append(path)

    rules = [{"arguments": {"path": lambda path: path.startswith("/")}, "decision": "deny"}]
    async with Runtime(touch, policy=rules) as runtime:
        outcome = await runtime.call("touch", {"path": 7})

    assert not outcome.ok
    assert ran == []


async def test_the_default_policy_asks_before_anything_that_does_more_than_read() -> None:
    assert await decision(Policy.default(), "look") == "allow"
    assert await decision(Policy.default(), "undeclared") == "allow"
    assert await decision(Policy.default(), "save") == "ask"
    assert await decision(Policy.default(), "fetch") == "ask"


async def test_a_denial_tells_the_model_its_reason_and_not_to_repeat_the_call() -> None:
    rules = [{"tools": "save", "decision": "deny", "reason": "the disk is read-only"}]

    async with Runtime(save, policy=rules) as runtime:
        outcome = await runtime.call("save")

    assert outcome.text == "(tool failed: save is denied by policy: the disk is read-only. Do not try it again.)"


async def test_a_denied_call_is_not_shown_to_the_approver() -> None:
    shown: list[Any] = []

    async def approver(wait: Any) -> bool:
        shown.append(wait)
        return True

    async with Runtime(save, policy=[{"decision": "deny"}], approver=approver) as runtime:
        assert decided(await runtime.call("save")) == "deny"

    assert shown == []


async def test_an_allow_rule_does_not_silence_the_confirmation_of_the_tool_itself() -> None:
    careful = save.evolve(name="careful", safety=tool(confirm=True)(save.function).safety)

    async with Runtime(careful, policy=[{"decision": "allow"}]) as runtime:
        assert decided(await runtime.call("careful")) == "ask"


async def test_invalid_arguments_fail_before_policy_asks_a_person() -> None:
    async with Runtime(save, policy=[{"decision": "ask"}]) as runtime:
        outcome = await runtime.call("save", {"size": "many"})

        assert isinstance(outcome, Failed)
        assert outcome.code == "invalid_arguments"
        assert await runtime.pending() == []


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"tools": "*"}, "None is not a policy decision. Fix: use allow, ask or deny."),
        ({"decision": "block"}, "'block' is not a policy decision"),
        ({"tool": "*", "decision": "deny"}, "A policy rule has no key 'tool'. Fix: use tools."),
        ({"x": "*", "decision": "deny"}, "no key 'x'. Fix: use some of tools, effects, arguments, decision, reason."),
        ("ask", "'ask' is not a policy rule. Fix: use Policy.default"),
        ({"effects": ["writes"], "decision": "deny"}, "Unknown effects: writes."),
        ({"effects": "everything", "decision": "deny"}, "Unknown effects: everything."),
    ],
)
def test_a_rule_that_could_never_match_is_a_definition_error(rule: dict[str, Any], told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        Policy([rule])
    with pytest.raises(DefinitionError, match=told):
        Runtime(save, policy=[rule])


@pytest.mark.parametrize("rules", ["ask", {"decision": "ask"}, 5])
def test_a_policy_that_is_not_a_list_of_rules_is_a_definition_error(rules: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        Runtime(save, policy=rules)

    assert caught.value.problem == f"{rules!r} is not a list of policy rules."
    assert caught.value.fix.startswith("use Policy.default(), or a list of rules such as")


async def test_a_policy_that_cannot_be_set_leaves_the_old_one_in_force() -> None:
    async with Runtime(save, policy=[{"decision": "deny"}]) as runtime:
        with pytest.raises(DefinitionError):
            runtime.policy = [{"decision": "sometimes"}]

        assert decided(await runtime.call("save")) == "deny"


async def test_a_new_policy_holds_from_the_next_call_on() -> None:
    async with Runtime(save) as runtime:
        before = decided(await runtime.call("save"))
        runtime.policy = Policy.default()
        asked = decided(await runtime.call("save"))
        runtime.policy = [{"tools": "sa*", "decision": "deny"}]
        denied = decided(await runtime.call("save"))
        runtime.policy = Policy()
        after = decided(await runtime.call("save"))

    assert (before, asked, denied, after) == ("allow", "ask", "deny", "allow")


async def test_a_new_policy_holds_for_scopes_that_were_made_before_it() -> None:
    async with Runtime(save) as runtime:
        scope = runtime.scope(user="ann")
        await scope.call("save")
        runtime.policy = [{"decision": "deny"}]

        assert decided(await scope.call("save")) == "deny"


async def test_a_call_that_runs_while_the_policy_changes_ends_on_the_old_one() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool(effects={"write"})
    async def slow() -> str:
        """Takes its time."""
        started.set()
        await go_on.wait()
        return "written"

    async with Runtime(slow) as runtime:
        running = asyncio.create_task(runtime.call("slow"))
        await started.wait()
        runtime.policy = [{"decision": "deny"}]
        go_on.set()

        assert (await running).unwrap() == "written"
        assert decided(await runtime.call("slow")) == "deny"


async def test_a_nested_call_obeys_policy_like_any_other() -> None:
    @tool
    async def outer(ctx: Context) -> str:
        """Calls another tool."""
        return (await ctx.call("save")).text

    async with Runtime(outer, save, policy=[{"tools": "save", "decision": "deny"}]) as runtime:
        outcome = await runtime.call("outer")

    assert "denied by policy" in outcome.text


async def test_a_cached_answer_still_obeys_policy() -> None:
    @tool(effects={"read"}, cache=60)
    async def rates() -> int:
        """Exchange rates."""
        return 7

    async with Runtime(rates) as runtime:
        await runtime.call("rates")
        runtime.policy = [{"decision": "deny"}]

        assert decided(await runtime.call("rates")) == "deny"


async def test_a_rule_on_arguments_sees_the_defaults_that_a_call_leaves_out():
    @tool
    async def read(path: str = "/etc/passwd") -> str:
        return path

    rules = [{"arguments": {"path": "/etc/*"}, "decision": "deny"}]
    async with Runtime(read, policy=rules) as runtime:
        assert (await runtime.call("read")).code == "denied"
        assert (await runtime.call("read", {"path": "/home/me"})).data == "/home/me"


async def test_a_confirmation_sees_the_defaults_too():
    @tool(confirm=lambda args, ctx: args["count"] > 5)
    async def order(count: int = 1) -> int:
        return count

    async with Runtime(order) as runtime:
        assert (await runtime.call("order")).data == 1
        assert (await runtime.call("order", {"count": 6})).waiting_for == "approval"
