"""A todo list for each session of each user."""

from __future__ import annotations

import pytest

from surehand import Runtime
from surehand.builtin.todo import todo

TODOS = [
    {"content": "Read the code", "status": "completed"},
    {"content": "Run the tests", "status": "in_progress", "activeForm": "Running the tests"},
    {"content": "Write", "status": "pending"},
]


async def test_a_list_is_written_and_read_with_an_icon_for_each_status():
    async with Runtime(todo()) as runtime:
        written = await runtime.call("todowrite", {"todos": TODOS})
        read = await runtime.call("todoread")

    assert written.text == read.text == "☑ Read the code\n◐ Running the tests\n☐ Write"
    assert read.data == {"todos": TODOS}
    assert read.title == "2 of 3 left"
    assert read.metadata == {"todoCount": 3, "statusCounts": {"pending": 1, "in_progress": 1, "completed": 1}}


async def test_a_new_list_replaces_the_old_one():
    async with Runtime(todo()) as runtime:
        await runtime.call("todowrite", {"todos": TODOS})
        emptied = await runtime.call("todowrite", {"todos": []})
        read = await runtime.call("todoread")

    assert (emptied.text, read.text) == ("(empty list)", "(no todos)")
    assert read.metadata["todoCount"] == 0


async def test_sessions_and_users_have_lists_of_their_own():
    async with Runtime(todo()) as runtime:
        scopes = [
            runtime,
            runtime.scope(session="s1"),
            runtime.scope(session="s2"),
            runtime.scope(session="s1", user="ann"),
            runtime.scope(session="s1", user="bob"),
            runtime.scope(user="s1"),
            runtime.scope(session="", user=""),
        ]
        for number, scope in enumerate(scopes):
            await scope.call("todowrite", {"todos": [{"content": str(number), "status": "pending"}]})

        assert [(await scope.call("todoread")).text for scope in scopes] == [f"☐ {n}" for n in range(len(scopes))]


async def test_agents_of_one_session_share_its_list():
    async with Runtime(todo()) as runtime:
        await runtime.scope(session="s1", agent="planner").call("todowrite", {"todos": TODOS})

        assert (await runtime.scope(session="s1", agent="worker").call("todoread")).data == {"todos": TODOS}


async def test_a_list_survives_its_process_with_a_store(tmp_path):
    async with Runtime(todo(), store=tmp_path / "calls.db") as runtime:
        await runtime.scope(session="s1", user="ann").call("todowrite", {"todos": TODOS})
    async with Runtime(todo(), store=tmp_path / "calls.db") as runtime:
        assert (await runtime.scope(session="s1", user="ann").call("todoread")).data == {"todos": TODOS}
        assert (await runtime.scope(session="s1", user="bob").call("todoread")).text == "(no todos)"


@pytest.mark.parametrize(
    "todos",
    [
        [{"content": "", "status": "pending"}],
        [{"content": "a", "status": "done"}],
        [{"content": "a"}],
        [{"content": "a", "status": "pending", "more": 1}],
        [{"content": "a", "status": "pending"}] * 501,
    ],
)
async def test_an_invalid_list_changes_nothing(todos):
    async with Runtime(todo()) as runtime:
        await runtime.call("todowrite", {"todos": TODOS})

        assert (await runtime.call("todowrite", {"todos": todos})).code == "invalid_arguments"
        assert (await runtime.call("todoread")).data == {"todos": TODOS}


async def test_unusual_characters_are_kept():
    odd = [{"content": "NUL \0, bidi \u202e, emoji 🦊", "status": "pending"}]
    async with Runtime(todo()) as runtime:
        await runtime.scope(session="a\0b").call("todowrite", {"todos": odd})

        assert (await runtime.scope(session="a\0b").call("todoread")).data == {"todos": odd}
