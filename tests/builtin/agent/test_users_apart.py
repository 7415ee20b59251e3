"""An agent that works for several users keeps their events, memories, goals and plans apart."""

from __future__ import annotations

from typing import Any

from surehand import Runtime, Store, tool
from surehand.builtin.agent.due_plans import deliver_due_plans
from surehand.builtin.agent.goals import goals
from surehand.builtin.agent.inbox import inbox
from surehand.builtin.agent.memories import memories
from surehand.builtin.agent.plans import plans
from surehand.testing import ManualClock


async def remembered(scope: Any) -> dict[str, str]:
    return {each["key"]: each["value"] for each in (await scope.call("get_memories")).data["memories"]}


async def test_memories_of_one_agent_are_kept_apart_by_user():
    async with Runtime(memories()) as runtime:
        ann, bob, none = (runtime.scope(agent="helper", user=user) for user in ("ann", "bob", None))
        await ann.call("set_memories", {"memories": [{"key": "pin", "value": "1234"}]})
        await none.call("set_memories", {"memories": [{"key": "pin", "value": "0000"}]})

        assert await remembered(bob) == {}
        await bob.call("set_memories", {"memories": [{"key": "pin", "value": "9876"}]})
        await bob.call("delete_memories", {"keys": ["pin"]})
        assert await remembered(ann) == {"pin": "1234"}
        assert await remembered(none) == {"pin": "0000"}
        assert await remembered(runtime.scope(agent="other", user="ann")) == {}


async def test_goals_of_one_agent_are_kept_apart_by_user():
    async with Runtime(goals()) as runtime:
        ann, bob = (runtime.scope(agent="helper", user=user) for user in ("ann", "bob"))
        await ann.call("set_goals", {"goals": [{"id": "g", "description": "Ann's"}]})
        await bob.call("set_goals", {"goals": [{"id": "g", "description": "Bob's"}]})

        assert [goal["description"] for goal in (await ann.call("get_goals")).data["goals"]] == ["Ann's"]
        assert [goal["description"] for goal in (await bob.call("get_goals")).data["goals"]] == ["Bob's"]


async def test_a_user_with_the_name_of_an_agent_does_not_see_its_notes():
    async with Runtime(memories()) as runtime:
        await runtime.scope(agent="helper").call("set_memories", {"memories": [{"key": "k", "value": "v"}]})
        for scope in (
            runtime.scope(user="helper"),
            runtime.scope(user="helper", agent="helper"),
            runtime.scope(agent="", user="helper"),
        ):
            assert await remembered(scope) == {}


async def events(scope: Any, **arguments: Any) -> list[str]:
    return [event["eventId"] for event in (await scope.call("peek_inbox", {"count": 50, **arguments})).data["events"]]


async def test_results_for_one_user_are_not_in_the_inbox_of_another():
    ask = tool.client("ask", "Ask the person.", reply="later")

    async with Runtime(ask, inbox(), memories(), store=":memory:") as runtime:
        ann, bob, none = (runtime.scope(agent="helper", user=user) for user in ("ann", "bob", None))
        waits = [await scope.call("ask") for scope in (ann, bob, none)]
        for wait in waits:
            await runtime.settle(wait.call_id, "a secret")

        peeked = [await events(scope) for scope in (ann, bob, none)]
        again = [await events(scope) for scope in (ann, bob, none)]

    assert peeked == [[f"tr:{wait.call_id}"] for wait in waits]
    assert again == [[], [], []]


async def test_what_remains_is_counted_for_the_user_alone():
    async with Runtime(inbox(), memories(), store=":memory:") as runtime:
        for user in ("ann", "bob", None):
            for number in range(3):
                await runtime.store.inbox.push("helper", f"e{number}", "service", number, user=user)

        outcome = await runtime.scope(agent="helper", user="ann").call("peek_inbox")

    assert outcome.data["remaining"] == 2


async def test_a_message_of_a_space_reaches_its_member_whichever_user_it_works_for():
    async with Runtime(inbox(), memories(), store=":memory:") as runtime:
        await runtime.store.inbox.push("helper", "m1", "space_message", {"content": "hello"})
        await runtime.store.inbox.push("helper", "s1", "service", {})

        assert await events(runtime.scope(agent="helper", user="ann")) == ["m1"]
        assert await events(runtime.scope(agent="helper")) == ["s1"]


async def test_a_host_reads_one_inbox_or_all_of_an_agent_and_finds_which_have_events():
    async with Store.open(":memory:") as store:
        table = store.inbox
        for user in ("ann", None, "bob"):
            await table.push("helper", "same id", "service", user, user=user)
        await table.push("other", "e", "service", None, user="ann")

        assert await table.inboxes() == [("helper", "ann"), ("helper", None), ("helper", "bob"), ("other", "ann")]
        assert [item.user for item in await table.peek("helper")] == ["ann", None, "bob"]
        assert await table.count("helper") == 3
        assert [item.user for item in await table.take("helper", user="bob")] == ["bob"]
        assert [item.user for item in await table.drain("helper", user="")] == [None]
        assert await table.inboxes() == [("helper", "ann"), ("other", "ann")]


async def test_a_due_plan_wakes_the_agent_for_the_user_that_it_was_made_for():
    clock = ManualClock(1_900_000_000.0)
    async with Runtime(plans(clock), inbox(), store=":memory:", clock=clock) as runtime:
        scopes = {user: runtime.scope(agent="helper", user=user) for user in ("ann", "bob", None)}
        for user, scope in scopes.items():
            await scope.call("set_plans", {"plans": [{"id": "p", "name": f"for {user}", "runAfter": "2 hours"}]})
        due = await deliver_due_plans(runtime.store, "helper", clock.time() + 3 * 3_600)
        woken = {user: await scope.call("peek_inbox", {"count": 50}) for user, scope in scopes.items()}
        left = [(await scope.call("get_plans", {"status": "pending"})).data["plans"] for scope in scopes.values()]

    assert sorted(str(plan.user) for plan in due) == ["None", "ann", "bob"]
    for user, outcome in woken.items():
        assert [event["data"]["name"] for event in outcome.data["events"]] == [f"for {user}"]
    assert left == [[], [], []]
