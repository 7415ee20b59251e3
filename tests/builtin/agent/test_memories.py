"""Memories of an agent, by key."""

from __future__ import annotations

import pytest

from surehand import Runtime
from surehand.builtin.agent.memories import memories


async def test_values_are_remembered_and_recalled():
    async with Runtime(memories()) as runtime:
        ada = runtime.scope(agent="ada")
        set_ = await ada.call(
            "set_memories", {"memories": [{"key": "tea", "value": "green"}, {"key": "pet", "value": "cat"}]}
        )
        await ada.call("set_memories", {"memories": [{"key": "tea", "value": "black"}]})
        all_ = await ada.call("get_memories")
        some = await ada.call("get_memories", {"keys": ["pet", "car"]})
        deleted = await ada.call("delete_memories", {"keys": ["pet", "pet", "car"]})
        left = await ada.call("get_memories")

    assert set_.data == {"success": True, "count": 2}
    assert all_.data == {"memories": [{"key": "pet", "value": "cat"}, {"key": "tea", "value": "black"}]}
    assert some.data == {"memories": [{"key": "pet", "value": "cat"}]}
    assert deleted.data == {"success": True, "deleted": 1}
    assert left.data == {"memories": [{"key": "tea", "value": "black"}]}


async def test_agents_have_separate_memories():
    async with Runtime(memories()) as runtime:
        await runtime.scope(agent="ada").call("set_memories", {"memories": [{"key": "a", "value": "x"}]})

        for scope in (runtime, runtime.scope(agent="bob"), runtime.scope(user="ada"), runtime.scope(agent="")):
            assert (await scope.call("get_memories")).data == {"memories": []}
            assert (await scope.call("delete_memories", {"keys": ["a"]})).data["deleted"] == 0


async def test_a_key_that_is_given_twice_is_refused():
    async with Runtime(memories()) as runtime:
        twice = [{"key": "a", "value": "x"}, {"key": "a", "value": "y"}]
        assert (await runtime.call("set_memories", {"memories": twice})).code == "invalid_arguments"
        assert (await runtime.call("get_memories")).data == {"memories": []}


@pytest.mark.parametrize("key", ["", "a\0", "a\nb", "k" * 201])
async def test_an_invalid_key_is_refused(key):
    async with Runtime(memories()) as runtime:
        assert (
            await runtime.call("set_memories", {"memories": [{"key": key, "value": "x"}]})
        ).code == "invalid_arguments"
        assert (await runtime.call("delete_memories", {"keys": [key]})).code == "invalid_arguments"


async def test_values_are_kept_unchanged(tmp_path):
    value = "NUL \0 🦊 \u202e \\u0000 ${HOME} {{x}} '; DROP TABLE notes; --"
    async with Runtime(memories(), store=tmp_path / "a.db") as runtime:
        await runtime.call("set_memories", {"memories": [{"key": "Grüße & co", "value": value}]})

        assert (await runtime.call("get_memories")).data == {"memories": [{"key": "Grüße & co", "value": value}]}
