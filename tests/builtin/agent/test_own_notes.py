"""Tools that change only what their caller keeps for itself: who is asked, and what may skip or repeat them."""

from __future__ import annotations

import pytest

from surehand import Policy, Runtime, Store, middleware, todo
from surehand.builtin.agent.goals import goals
from surehand.builtin.agent.inbox import inbox
from surehand.builtin.agent.memories import memories
from surehand.builtin.agent.plans import plans
from surehand.builtin.agent.spaces import spaces

CALLS = {
    "set_goals": {"goals": [{"description": "Publish the newsletter"}]},
    "delete_goals": {"goalIds": ["g"]},
    "set_memories": {"memories": [{"key": "tea", "value": "green"}]},
    "delete_memories": {"keys": ["tea"]},
    "set_plans": {"plans": [{"name": "Look again", "runAfter": "2 hours"}]},
    "delete_plans": {"planIds": ["p"]},
    "todowrite": {"todos": [{"content": "Run the tests", "status": "pending"}]},
    "peek_inbox": {},
    "enter_space": {"spaceId": "launch"},
    "leave_space": {},
}
FAMILIES = (goals, memories, plans, todo, inbox, spaces)


@pytest.mark.parametrize("name", CALLS)
async def test_no_person_is_asked_about_an_agents_own_notes(name):
    async with Store.open() as store:
        await store.spaces.create("launch", "The launch")
        await store.spaces.join("launch", "ada", "agent", "Ada")
        async with Runtime(*(family() for family in FAMILIES), store=store, policy=Policy.default()) as runtime:
            ada = runtime.scope(agent="ada", session="s1", space="launch")

            assert (await ada.call(name, CALLS[name])).ok


@pytest.mark.parametrize("name", CALLS)
async def test_a_rule_by_name_asks_about_an_agents_own_notes(name):
    policy = Policy([{"tools": name, "decision": "ask"}])
    async with Runtime(*(family() for family in FAMILIES), policy=policy) as runtime:
        outcome = await runtime.scope(agent="ada").call(name, CALLS[name])

        assert outcome.waiting_for == "approval"


async def test_mcp_clients_are_not_told_that_a_tool_which_changes_notes_is_read_only():
    async with Runtime(*(family() for family in FAMILIES)) as runtime:
        entries = {entry["name"]: entry for entry in runtime.describe("mcp")}

    assert [name for name in CALLS if "annotations" in entries[name]] == []
    assert entries["get_goals"]["annotations"]["readOnlyHint"] is True


async def test_a_cache_over_all_tools_does_not_lose_a_note():
    async with Runtime(memories(), todo(), middleware=[middleware.caching("5m")]) as runtime:
        await runtime.call("set_memories", CALLS["set_memories"])
        await runtime.call("delete_memories", CALLS["delete_memories"])
        await runtime.call("set_memories", CALLS["set_memories"])

        assert (await runtime.call("get_memories")).data == {"memories": [{"key": "tea", "value": "green"}]}


async def test_a_cache_over_all_tools_does_not_repeat_an_event_of_the_inbox():
    async with Store.open() as store, Runtime(inbox(), store=store, middleware=[middleware.caching("5m")]) as runtime:
        await store.inbox.push("ada", "m1", "space_message", {"content": "one"})
        await store.inbox.push("ada", "m2", "space_message", {"content": "two"})
        ada = runtime.scope(agent="ada")
        taken = [(await ada.call("peek_inbox")).data["events"][0]["eventId"] for _ in range(2)]

    assert taken == ["m1", "m2"]


async def test_a_dry_run_writes_no_notes():
    async with Store.open() as store:
        async with Runtime(memories(), store=store, middleware=[middleware.dry_run()]) as runtime:
            outcome = await runtime.call("set_memories", CALLS["set_memories"])
        async with Runtime(memories(), store=store) as runtime:
            kept = await runtime.call("get_memories")

    assert outcome.metadata == {"dry_run": True}
    assert kept.data == {"memories": []}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_changes_notes_may_run_again_after_a_crash(name):
    async with Runtime(*(family() for family in FAMILIES)) as runtime:
        assert runtime.catalogue.find(name).tool.repeatable
