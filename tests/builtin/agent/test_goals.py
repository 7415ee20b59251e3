"""Goals of an agent."""

from __future__ import annotations

import pytest

from surehand import Runtime, Store
from surehand.builtin.agent.goals import goals

pytestmark = pytest.mark.timeout(30)


async def test_goals_are_set_listed_and_deleted():
    async with Runtime(goals()) as runtime:
        ada = runtime.scope(agent="ada")
        set_ = await ada.call(
            "set_goals", {"goals": [{"description": "Learn"}, {"description": "Teach", "priority": 5}]}
        )
        listed = (await ada.call("get_goals")).data["goals"]
        deleted = await ada.call("delete_goals", {"goalIds": [listed[0]["id"], "unknown"]})
        left = (await ada.call("get_goals")).data["goals"]

    assert (set_.data["success"], set_.data["count"]) == (True, 2)
    assert [goal["description"] for goal in listed] == ["Teach", "Learn"]
    assert sorted(goal["id"] for goal in listed) == sorted(set_.data["goalIds"])
    assert deleted.data == {"success": True, "deleted": 1}
    assert left == [{"id": listed[1]["id"], "description": "Learn", "status": "active", "priority": 0}]


async def test_a_goal_is_changed_by_its_id():
    async with Runtime(goals()) as runtime:
        await runtime.call("set_goals", {"goals": [{"id": "g1", "description": "Learn", "priority": 3}]})
        await runtime.call("set_goals", {"goals": [{"id": "g1", "description": "Learnt", "status": "completed"}]})
        listed = await runtime.call("get_goals")
        active = await runtime.call("get_goals", {"status": "active"})

    assert listed.data["goals"] == [{"id": "g1", "description": "Learnt", "status": "completed", "priority": 0}]
    assert active.data["goals"] == []


async def test_a_repeated_call_adds_nothing():
    async with Runtime(goals()) as runtime:
        for _ in range(3):
            await runtime.call("set_goals", {"goals": [{"description": "Learn"}]}, call_id="c1")
        once = (await runtime.call("get_goals")).data["goals"]
        await runtime.call("set_goals", {"goals": [{"description": "Learn"}]}, call_id="c2")
        twice = (await runtime.call("get_goals")).data["goals"]

    assert (len(once), len(twice)) == (1, 2)


async def test_agents_and_users_have_separate_goals():
    async with Runtime(goals()) as runtime:
        scopes = [runtime, runtime.scope(agent="ada"), runtime.scope(user="ada"), runtime.scope(user="bob")]
        for number, scope in enumerate(scopes):
            await scope.call("set_goals", {"goals": [{"id": "g", "description": str(number)}]})

        for number, scope in enumerate(scopes):
            [goal] = (await scope.call("get_goals")).data["goals"]
            assert goal["description"] == str(number)


async def test_goals_survive_the_process(tmp_path):
    async with Runtime(goals(), store=tmp_path / "a.db") as runtime:
        await runtime.scope(agent="ada").call("set_goals", {"goals": [{"id": "g1", "description": "Learn"}]})
    async with Runtime(goals(), store=tmp_path / "a.db") as runtime:
        assert len((await runtime.scope(agent="ada").call("get_goals")).data["goals"]) == 1


@pytest.mark.parametrize(
    "goal",
    [
        {},
        {"description": ""},
        {"description": "a", "status": "done"},
        {"description": "a", "id": "a\0b"},
        {"description": "a", "id": ""},
        {"description": "a", "id": "\u202ea"},
        {"description": "a", "priority": 1e12},
        {"description": "a" * 5_000},
    ],
)
async def test_an_invalid_goal_is_refused(goal):
    async with Runtime(goals()) as runtime:
        assert (await runtime.call("set_goals", {"goals": [goal]})).code == "invalid_arguments"


async def test_the_number_of_goals_is_limited():
    async with Runtime(goals()) as runtime:
        for batch in range(10):
            many = [{"id": f"{batch}-{n}", "description": "x"} for n in range(100)]
            assert (await runtime.call("set_goals", {"goals": many})).ok
        one_more = await runtime.call("set_goals", {"goals": [{"description": "x"}]})
        known = await runtime.call("set_goals", {"goals": [{"id": "0-0", "description": "y"}]})

    assert one_more.code == "limit_exceeded"
    assert known.ok


async def test_an_unreachable_store_is_reported(tmp_path):
    async with Store.open(tmp_path / "a.db") as store, Runtime(goals(), store=store) as runtime:
        await store.close()
        for tool, arguments in (("get_goals", {}), ("set_goals", {"goals": [{"description": "x"}]})):
            assert (await runtime.call(tool, arguments)).code == "unavailable"
