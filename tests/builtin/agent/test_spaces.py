"""An agent enters spaces, reads messages and sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from surehand import Runtime, Store
from surehand.builtin.agent.spaces import spaces


@asynccontextmanager
async def launch() -> AsyncIterator[Runtime]:
    """A space with a person and two agents, and another space with only one of the agents."""
    async with Store.open() as store, Runtime(spaces(), store=store) as runtime:
        for space, name in (("launch", "The launch"), ("office", "The office")):
            await store.spaces.create(space, name)
        await store.spaces.join("launch", "ann")
        for agent in ("ada", "bob"):
            await store.spaces.join("launch", agent, "agent", agent.title())
        await store.spaces.join("office", "ada", "agent", "Ada")
        yield runtime


async def test_an_agent_enters_a_space_and_sends_messages():
    async with launch() as runtime:
        await runtime.store.spaces.post("launch", "When do we start?", sender="ann")
        ada = runtime.scope(agent="ada", session="s1")
        entered = await ada.call("enter_space", {"spaceId": "launch"})
        sent = await ada.call("send_message", {"text": "At noon."})
        read = await ada.call("read_messages")

    [asked] = entered.data.pop("history")
    assert entered.data == {"success": True, "spaceId": "launch", "spaceName": "The launch", "totalMessages": 1}
    assert (asked["senderName"], asked["senderType"], asked["content"]) == ("ann", "person", "When do we start?")
    assert sent.data["success"] is True
    assert sent.data["status"] == "delivered"
    assert read.data["total"] == 2
    assert [message["content"] for message in read.data["messages"]] == ["When do we start?", "At noon."]
    assert read.data["messages"][1]["id"] == sent.data["messageId"]
    assert read.data["messages"][1]["senderType"] == "agent"


async def test_the_other_agents_are_woken_once_and_the_sender_is_not():
    async with launch() as runtime:
        ada = runtime.scope(agent="ada", space="launch")
        await ada.call("send_message", {"text": "Hello."}, call_id="c1")
        await ada.call("send_message", {"text": "Hello."}, call_id="c1")

        [item] = await runtime.store.inbox.drain("bob")
        assert (item.type, item.data["content"]) == ("space_message", "Hello.")
        assert await runtime.store.inbox.count("ada") == 0
        assert await runtime.store.inbox.count("ann") == 0


async def test_calls_of_these_tools_are_not_posted_to_the_space():
    async with launch() as runtime:
        ada = runtime.scope(agent="ada", space="launch")
        await ada.call("enter_space", {"spaceId": "launch"})
        await ada.call("send_message", {"text": "Hello."})
        await ada.call("read_messages")

        assert [message.content for message in await runtime.store.spaces.history("launch")] == ["Hello."]


@pytest.mark.parametrize("space", ["office", "nowhere", "launch "])
async def test_a_space_without_membership_looks_like_a_missing_one(space):
    async with launch() as runtime:
        bob = runtime.scope(agent="bob")
        for outcome in (
            await bob.call("enter_space", {"spaceId": space}),
            await bob.call("read_messages", {"spaceId": space}),
            await runtime.scope(agent="bob", space=space).call("send_message", {"text": "Hello."}),
            await runtime.call("enter_space", {"spaceId": space}),
        ):
            assert (outcome.code, outcome.message) == ("denied", "Not a member of this space")
            assert outcome.data == {"success": False, "error": "Not a member of this space"}


async def test_without_an_active_space_no_message_is_sent():
    async with launch() as runtime:
        ada = runtime.scope(agent="ada", session="s1")
        for tool, arguments in (("send_message", {"text": "Hello."}), ("read_messages", {}), ("leave_space", {})):
            outcome = await ada.call(tool, arguments)
            assert outcome.message == "No active space. Call enter_space first."
            assert outcome.data == {"success": False, "error": outcome.message}


async def test_agents_users_and_sessions_have_separate_active_spaces():
    async with launch() as runtime:
        await runtime.scope(agent="ada", session="s1").call("enter_space", {"spaceId": "office"})
        await runtime.scope(agent="bob", session="s1").call("enter_space", {"spaceId": "launch"})
        said = await runtime.scope(agent="ada", session="s1").call("send_message", {"text": "Here."})
        others = [
            await runtime.scope(agent="ada", session="s2").call("send_message", {"text": "Where?"}),
            await runtime.scope(agent="ada", session="s1", user="ann").call("send_message", {"text": "Where?"}),
        ]

    assert said.data["spaceId"] == "office"
    assert [outcome.code for outcome in others] == ["failed", "failed"]


async def test_the_space_that_was_made_active_last_counts():
    async with launch() as runtime:
        ada = runtime.scope(agent="ada", session="s1")
        in_launch = runtime.scope(agent="ada", session="s1", space="launch")
        first = await in_launch.call("send_message", {"text": "1"})
        await in_launch.call("enter_space", {"spaceId": "office"})
        entered = await in_launch.call("send_message", {"text": "2"})
        woken = await runtime.scope(agent="ada", session="s1", space="office").call("send_message", {"text": "3"})
        await ada.call("enter_space", {"spaceId": "office"})
        moved = await in_launch.call("send_message", {"text": "4"})

    assert [outcome.data["spaceId"] for outcome in (first, entered, woken, moved)] == [
        "launch",
        "office",
        "office",
        "launch",
    ]


async def test_after_leaving_no_space_is_active_and_it_can_be_entered_again():
    async with launch() as runtime:
        ada = runtime.scope(agent="ada", space="launch")
        left = await ada.call("leave_space")
        nowhere = await ada.call("send_message", {"text": "Hello."})
        await ada.call("enter_space", {"spaceId": "launch"})
        back = await ada.call("send_message", {"text": "Hello."})

    assert left.data == {"success": True, "spaceId": "launch"}
    assert (nowhere.code, back.ok) == ("failed", True)


async def test_a_removed_member_cannot_send_messages():
    async with launch() as runtime:
        ada = runtime.scope(agent="ada", session="s1")
        await ada.call("enter_space", {"spaceId": "launch"})
        await runtime.store.spaces.leave("launch", "ada")

        assert (await ada.call("send_message", {"text": "Hello."})).message == "Not a member of this space"
        assert (await ada.call("read_messages")).message == "Not a member of this space"


async def test_messages_are_read_page_by_page():
    async with launch() as runtime:
        for number in range(1, 121):
            await runtime.store.spaces.post("launch", number, sender="ann")
        ada = runtime.scope(agent="ada", space="launch")

        async def read(**page: int) -> list[int]:
            return [message["content"] for message in (await ada.call("read_messages", page)).data["messages"]]

        assert await read() == list(range(71, 121))
        assert await read(limit=10) == list(range(111, 121))
        assert await read(limit=10, offset=10) == list(range(101, 111))
        assert await read(offset=115) == [1, 2, 3, 4, 5]
        assert await read(offset=120) == await read(offset=10**9) == []
        assert len(await read(limit=10_000)) == 120
        entered = await ada.call("enter_space", {"spaceId": "launch", "limit": 3})
        assert [message["content"] for message in entered.data["history"]] == [118, 119, 120]
        assert (await ada.call("read_messages", {"limit": 0})).code == "invalid_arguments"
        assert (await ada.call("read_messages", {"offset": -1})).code == "invalid_arguments"


async def test_a_user_without_an_agent_is_the_sender():
    async with launch() as runtime:
        ann = runtime.scope(user="ann", space="launch")
        await ann.call("send_message", {"text": "Hello."})

        [message] = await runtime.store.spaces.history("launch")
        assert (message.sender_id, message.sender_kind) == ("ann", "person")
