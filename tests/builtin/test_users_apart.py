"""Memory files, tasks and archived sessions of one user are not those of another, and scopes may set folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from surehand import Runtime
from surehand.builtin.agent.task_log import TaskLog
from surehand.builtin.agent.tasks import sessions, tasks
from surehand.builtin.memory import memory
from surehand.builtin.user_folder import user_folder


def now() -> float:
    return 1_900_000_000.0


async def listed(scope) -> list[str]:
    return [file["path"] for file in (await scope.call("memory_list")).data]


async def test_memory_keeps_users_apart(tmp_path):
    async with Runtime(memory(tmp_path)) as runtime:
        alice, bob = runtime.scope(user="alice"), runtime.scope(user="bob")
        await alice.call("memory_write", {"path": "facts/me.md", "content": "Alice's"})
        await bob.call("memory_append", {"path": "facts/me.md", "entry": "Bob's"})

        assert (await alice.call("memory_read", {"path": "facts/me.md"})).data == "Alice's"
        assert (await bob.call("memory_read", {"path": "facts/me.md"})).data == "Bob's\n"
        assert await listed(alice) == await listed(bob) == ["facts/me.md"]
        assert await listed(runtime) == await listed(runtime.scope(user="carol")) == []


async def test_what_lies_in_an_old_memory_folder_belongs_to_calls_without_a_user(tmp_path):
    (tmp_path / "old.md").write_text("old")
    async with Runtime(memory(tmp_path)) as runtime:
        alice = runtime.scope(user="alice")

        assert (await runtime.call("memory_read", {"path": "old.md"})).data == "old"
        assert await listed(runtime.scope(session="s1", agent="a")) == ["old.md"]
        assert (await alice.call("memory_read", {"path": "old.md"})).code == "not_found"
        assert await listed(alice) == []


@pytest.mark.parametrize(
    ("one", "other"), [("Ann", "ann"), ("a/b", "a-b"), ("..", "."), ("", "user"), ("ü" * 300, "ü" * 301), ("a", "a ")]
)
async def test_users_with_similar_names_are_kept_apart(tmp_path, one, other):
    async with Runtime(memory(tmp_path / "memory")) as runtime:
        await runtime.scope(user=one).call("memory_write", {"path": "a.md", "content": "secret"})

        assert await listed(runtime.scope(user=other)) == await listed(runtime) == []
        assert await listed(runtime.scope(user=one)) == ["a.md"]
    assert os.listdir(tmp_path) == ["memory"]


async def test_a_call_without_a_user_does_not_reach_the_files_of_users(tmp_path):
    async with Runtime(memory(tmp_path)) as runtime:
        await runtime.scope(user="alice").call("memory_write", {"path": "a.md", "content": "secret"})
        name = user_folder(tmp_path, "alice").name
        for path in (f".users/{name}/a.md", f"{name}/a.md", f"facts/../.users/{name}/a.md"):
            assert not (await runtime.call("memory_read", {"path": path})).ok


async def test_many_users_do_not_use_up_file_descriptors(tmp_path):
    async with Runtime(memory(tmp_path)) as runtime:
        for number in range(200):
            await runtime.scope(user=f"user {number}").call("memory_list")

        assert len(os.listdir("/proc/self/fd")) < 150


async def test_a_scope_sets_the_memory_folder_of_its_calls(tmp_path):
    async with Runtime(memory(tmp_path / "shared")) as runtime:
        one, two = (runtime.scope(memory_dir=tmp_path / name) for name in ("one", "two"))
        await one.call("memory_write", {"path": "a.md", "content": "1"})
        await one.scope(user="alice").call("memory_write", {"path": "b.md", "content": "2"})

        assert (tmp_path / "one" / "a.md").read_text() == "1"
        assert await listed(one) == ["a.md"]
        assert await listed(one.scope(user="alice")) == ["b.md"]
        assert await listed(two) == await listed(runtime) == []


async def test_a_memory_folder_that_cannot_be_created_is_told_at_the_call(tmp_path):
    (tmp_path / "file").write_text("")
    async with Runtime(memory(tmp_path / "shared")) as runtime:
        outcome = await runtime.scope(memory_dir=tmp_path / "file" / "x").call("memory_list")

    assert outcome.code == "unavailable"
    assert str(tmp_path / "file" / "x") in outcome.message


async def test_a_call_that_goes_on_in_another_process_keeps_the_folders_of_its_scope(tmp_path):
    ask = [{"tools": "memory_write", "decision": "ask"}]
    store = str(tmp_path / "store.db")
    async with Runtime(memory(tmp_path / "shared"), store=store, policy=ask) as runtime:
        scope = runtime.scope(memory_dir=tmp_path / "mine")
        pending = await scope.call("memory_write", {"path": "a.md", "content": "later"})
    async with Runtime(memory(tmp_path / "shared"), store=store, policy=ask) as runtime:
        assert (await runtime.approve(pending.call_id)).ok

    assert (tmp_path / "mine" / "a.md").read_text() == "later"
    assert not (tmp_path / "shared" / "a.md").exists()


async def test_task_tools_keep_users_apart(tmp_path):
    async with TaskLog(tmp_path, now=now) as log:
        await log.create("t1", "Everyone's", messages=["one"])
        await log.create("t2", "Alice's", user="alice", messages=["two"])
    async with Runtime(tasks(tmp_path, now=now)) as runtime:
        seen = {}
        for user in (None, "alice", "bob"):
            scope = runtime.scope(user=user)
            found = [task["taskId"] for task in (await scope.call("task_list")).data]
            replayed = [(await scope.call("task_replay", {"taskId": name})).ok for name in ("t1", "t2")]
            seen[user] = (found, replayed)

    assert seen == {None: (["t1"], [True, False]), "alice": (["t2"], [False, True]), "bob": ([], [False, False])}


async def test_a_task_of_another_user_looks_like_a_missing_one(tmp_path):
    async with TaskLog(tmp_path, now=now) as log:
        await log.create("t2", "Alice's", user="alice")
    async with Runtime(tasks(tmp_path, now=now)) as runtime:
        outcome = await runtime.scope(user="bob").call("task_replay", {"taskId": "t2"})

    assert (outcome.code, outcome.message) == ("not_found", 'Task "t2" not found in index')


def archive(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1.jsonl").write_text(text)


async def test_archived_sessions_keep_users_apart_and_a_scope_sets_the_session_folder(tmp_path):
    shared = tmp_path / "shared"
    archive(shared, "nobody's")
    archive(user_folder(shared, "alice"), "Alice's")
    archive(tmp_path / "s7", "of s7")
    async with Runtime(sessions(shared)) as runtime:
        read = [
            await scope.call("session_archive_read", {"file": "1.jsonl"})
            for scope in (
                runtime,
                runtime.scope(user="alice"),
                runtime.scope(user="bob"),
                runtime.scope(user="bob", session_dir=tmp_path / "s7"),
            )
        ]

    assert [outcome.data for outcome in read if outcome.ok] == ["nobody's", "Alice's", "of s7"]
    assert read[2].code == "not_found"
    assert not user_folder(shared, "bob").exists()
