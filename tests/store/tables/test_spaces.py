"""Spaces: messages have numbers without gaps and notify agents, and every change is an event of a stream."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from surehand import InvalidArguments, NotFound, Store
from surehand.core.events import Missed
from surehand.store.database import Statement, StoreUnavailable
from surehand.store.tables.messages import post_call_statements
from surehand.store.tables.streams import StreamEvent, space_stream
from tests.durable.bank_tools import wait_until

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


async def team(store: Store) -> None:
    """Ann, Bob and two agents."""
    await store.spaces.create("team", "The team")
    for person in ("ann", "bob"):
        await store.spaces.join("team", person)
    for agent in ("helper", "critic"):
        await store.spaces.join("team", agent, "agent", agent.title())


async def events(store: Store, count: int, *, after: int = 0, space: str = "team") -> list[Any]:
    """So many events of a space, waited for."""
    found: list[Any] = []
    async with asyncio.timeout(25), aclosing(store.streams.follow(space_stream(space), after)) as stream:
        async for event in stream:
            found.append(event)
            if len(found) == count:
                break
    return found


async def test_a_message_has_its_number_and_the_name_of_its_sender(address):
    async with Store.open(address) as store:
        await team(store)
        first = await store.spaces.post("team", "hello", sender="ann")
        second = await store.spaces.post("team", {"text": "hi"}, sender="helper", reply_to=first.message_id)
        history = await store.spaces.history("team")
        space = await store.spaces.find("team")

    assert history == [first, second]
    assert (first.number, first.sender_name, first.sender_kind, first.content) == (1, "ann", "person", "hello")
    assert (second.number, second.sender_name, second.sender_kind) == (2, "Helper", "agent")
    assert (second.content, second.reply_to) == ({"text": "hi"}, first.message_id)
    assert (space.name, space.messages) == ("The team", 2)


async def test_only_the_other_agents_get_a_message_in_their_inbox(address):
    async with Store.open(address) as store:
        await team(store)
        message = await store.spaces.post("team", "hello", sender="helper")
        inboxes = {who: await store.inbox.peek(who) for who in ("ann", "bob", "helper", "critic")}

    assert {who: len(items) for who, items in inboxes.items()} == {"ann": 0, "bob": 0, "helper": 0, "critic": 1}
    [item] = inboxes["critic"]
    assert (item.type, item.event_id, item.data["content"]) == ("space_message", message.message_id, "hello")
    assert (item.data["spaceId"], item.data["senderName"], item.data["senderType"]) == ("team", "Helper", "agent")


async def test_a_visible_call_notifies_no_agent_and_cannot_be_replied_to(address):
    async with Store.open(address) as store:
        await team(store)
        shown = {"status": "running", "toolCallId": "c1"}
        await store.write(post_call_statements("team", shown, message_id="m1", call_id="c1", agent="helper"))
        assert await store.inbox.count("critic") == 0
        with pytest.raises(InvalidArguments, match="replied to"):
            await store.spaces.post("team", "why?", sender="ann", reply_to="m1")

        assert [message.content for message in await store.spaces.history("team")] == [shown]
        assert (await store.spaces.find("team")).messages == 1  # what was refused left no gap
        [event] = await events(store, 1)

    assert (event.kind, event.data["content"]) == ("tool-call.start", shown)


async def test_only_members_can_post(address):
    async with Store.open(address) as store:
        await team(store)
        await store.spaces.create("other")
        elsewhere = await _posted_elsewhere(store)
        for sender in ("eve", "ann' OR '1'='1"):
            with pytest.raises(NotFound, match="not a member"):
                await store.spaces.post("team", "hello", sender=sender)
        with pytest.raises(NotFound, match="no space nowhere"):
            await store.spaces.post("nowhere", "hello", sender="ann")
        with pytest.raises(NotFound, match="no space nowhere"):
            await store.spaces.join("nowhere", "ann")
        with pytest.raises(InvalidArguments, match="replied to"):
            await store.spaces.post("team", "hello", sender="ann", reply_to=elsewhere)
        assert await store.spaces.leave("team", "ann")
        assert not await store.spaces.leave("team", "ann")
        with pytest.raises(NotFound, match="not a member"):
            await store.spaces.post("team", "hello", sender="ann")

        assert await store.spaces.history("team") == []
        assert await store.streams.last(space_stream("team")) == 0


async def _posted_elsewhere(store: Store) -> str:
    await store.spaces.join("other", "ann")
    return (await store.spaces.post("other", "elsewhere", sender="ann")).message_id


async def test_spaces_are_listed_by_member_and_members_by_space(address):
    async with Store.open(address) as store:
        await team(store)
        await store.spaces.create("quiet")
        await store.spaces.join("quiet", "ann")
        await store.spaces.join("team", "ann", name="Ann")
        members = await store.spaces.members("team")
        spaces = await store.spaces.of_member("ann")

    assert [(each.member_id, each.kind, each.name) for each in members] == [
        ("ann", "person", "Ann"), ("bob", "person", "bob"),
        ("helper", "agent", "Helper"), ("critic", "agent", "Critic"),
    ]  # fmt: skip
    assert [space.space_id for space in spaces] == ["team", "quiet"]


async def test_creating_a_space_again_changes_nothing(address):
    async with Store.open(address) as store:
        await team(store)
        await store.spaces.post("team", "hello", sender="ann")
        again = await store.spaces.create("team", "Another name")
        made = await store.spaces.create()

    assert (again.name, again.messages) == ("The team", 1)
    assert len(made.space_id) > 20


async def test_history_is_paged_backward_and_forward(address):
    async with Store.open(address) as store:
        await team(store)
        for number in range(1, 8):
            await store.spaces.post("team", number, sender="ann")

        async def page(**options: int) -> list[int]:
            return [message.content for message in await store.spaces.history("team", **options)]

        assert await page(limit=3) == [5, 6, 7]
        assert await page(limit=3, before=5) == [2, 3, 4]
        assert await page(limit=3, before=2) == [1]
        assert await page(limit=3, after=0) == [1, 2, 3]
        assert await page(limit=3, after=5) == [6, 7]
        assert await page(limit=0) == await page(limit=-1) == []
        assert len(await page(limit=1_000)) == 7


async def test_an_amended_message_keeps_its_number_and_is_an_event(address):
    async with Store.open(address) as store:
        await team(store)
        message = await store.spaces.post("team", "helo", sender="ann")
        await store.inbox.drain("critic")
        await store.spaces.amend(message.message_id, "hello")
        after = await store.spaces.message(message.message_id)
        received = await events(store, 2)
        with pytest.raises(NotFound, match="no message"):
            await store.spaces.amend("nothing", "x")

        assert await store.inbox.count("critic") == 0

    assert (after.number, after.content, after.created_at) == (1, "hello", message.created_at)
    assert after.amended_at is not None
    assert [(event.number, event.kind, event.data["number"], event.data["content"]) for event in received] == [
        (1, "message", 1, "helo"),
        (2, "message.amended", 1, "hello"),
    ]


async def test_concurrent_posts_leave_no_gap(shared_address):
    async with Store.open(shared_address) as one, Store.open(shared_address) as other:
        await team(one)
        posts = [(one, other)[n % 2].spaces.post("team", n, sender="ann") for n in range(60)]
        posted = await asyncio.gather(*posts)
        history = await one.spaces.history("team", limit=200)
        received = await events(one, 60)

    assert sorted(message.number for message in posted) == list(range(1, 61))
    assert [message.number for message in history] == list(range(1, 61))
    assert [event.number for event in received] == list(range(1, 61))
    assert [event.data["content"] for event in received] == [message.content for message in history]


async def test_a_follower_receives_messages_of_another_process(shared_address):
    async with Store.open(shared_address) as here, Store.open(shared_address) as elsewhere:
        await team(here)
        hearing = asyncio.create_task(events(here, 3))
        await elsewhere.spaces.post("team", "one", sender="ann")
        await elsewhere.spaces.post("team", "two", sender="bob")
        await here.spaces.post("team", "three", sender="ann")
        heard = await hearing

    assert [event.data["content"] for event in heard] == ["one", "two", "three"]


async def test_a_follower_continues_after_its_last_event(address):
    async with Store.open(address) as store:
        await team(store)
        for number in range(1, 6):
            await store.spaces.post("team", number, sender="ann")
        first = await events(store, 2)
        rest = asyncio.create_task(events(store, 4, after=first[-1].number))
        await store.spaces.post("team", 6, sender="ann")

        assert [event.data["content"] for event in [*first, *await rest]] == [1, 2, 3, 4, 5, 6]


async def test_a_follower_gets_the_number_of_deleted_events(address):
    async with Store.open(address) as store:
        await team(store)
        for number in range(1, 6):
            await store.spaces.post("team", number, sender="ann")
        await store.write([_forgotten(3)])
        some_gone = await events(store, 3)
        await store.write([_forgotten(5)])
        waiting = asyncio.create_task(events(store, 2, after=1))
        await asyncio.sleep(0)
        await store.spaces.post("team", 6, sender="ann")
        all_gone = await waiting

    assert some_gone[0] == Missed(3)
    assert [event.number for event in some_gone[1:]] == [4, 5]
    assert all_gone[0] == Missed(4)
    assert all_gone[1].data["content"] == 6


def _forgotten(number: int) -> Any:

    return Statement("DELETE FROM events WHERE number <= :number", {"number": number})


async def test_a_follower_that_leaves_does_not_stop_others_and_leaves_nothing_behind(address):
    async with Store.open(address) as store:
        await team(store)
        staying = asyncio.create_task(events(store, 2))
        leaving = asyncio.create_task(events(store, 5))
        await store.spaces.post("team", 1, sender="ann")
        leaving.cancel()
        await asyncio.wait([leaving])
        await store.spaces.post("team", 2, sender="ann")

        assert [event.data["content"] for event in await staying] == [1, 2]
        assert not [task for task in asyncio.all_tasks() if "tail" in task.get_name()]


async def test_streams_of_many_spaces_do_not_mix(address):
    async with Store.open(address) as store:
        names = [f"space {number}" for number in range(12)]
        for name in names:
            await store.spaces.create(name)
            await store.spaces.join(name, "ann")
        following = [asyncio.create_task(events(store, 3, space=name)) for name in names]
        for number in range(3):
            await asyncio.gather(*(store.spaces.post(name, f"{name}: {number}", sender="ann") for name in names))
        heard = await asyncio.gather(*following)

    for name, received in zip(names, heard, strict=True):
        assert [event.data["content"] for event in received] == [f"{name}: {number}" for number in range(3)]


HOSTILE = [
    "%s %(id)s :id {now} {tx} {announce}",
    "'\"`; DROP TABLE messages; --",
    "\u2028\u202e",
    "ünï 🎉",
    "x" * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_any_text_comes_back_exactly(address, text):
    async with Store.open(address) as store:
        await team(store)
        message = await store.spaces.post("team", text, sender="ann")
        [event] = await events(store, 1)

        assert (await store.spaces.message(message.message_id)).content == text
        assert isinstance(event, StreamEvent)
        assert event.data["content"] == text


async def test_a_follower_gets_an_error_when_the_store_is_closed(address):
    store = await Store.open(address)
    await team(store)
    following = asyncio.create_task(events(store, 2))
    await store.spaces.post("team", 1, sender="ann")
    await asyncio.sleep(0.05)
    await store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        await asyncio.wait_for(following, 20)


async def test_an_unreadable_stream_does_not_stop_the_others(address, caplog):
    async with Store.open(address) as store:
        await team(store)
        await store.spaces.create("other")
        await store.spaces.join("other", "ann")
        broken, sound = asyncio.create_task(events(store, 5)), asyncio.create_task(events(store, 3, space="other"))
        for number in range(3):
            await store.spaces.post("other", number, sender="ann")
            if number == 0:
                await store.streams.add(space_stream("team"), "message", {})
                broken_event = "UPDATE events SET data = 'x' WHERE stream = :stream"
                await store.write([Statement(broken_event, {"stream": space_stream("team")})])

        assert [event.data["content"] for event in await sound] == [0, 1, 2]
        broken.cancel()
        await asyncio.wait([broken])


async def test_events_deleted_under_a_follower_are_neither_repeated_nor_silently_skipped(address):
    async with Store.open(address) as store:
        await team(store)
        found: list[Any] = []
        reading = asyncio.Lock()

        async def read(*which: Any) -> list[Any]:
            async with reading:
                return await store.streams.read(*which)

        store.streams._tail._read_events = read

        async def follow() -> None:
            async with aclosing(store.streams.follow(space_stream("team"))) as stream:
                async for event in stream:
                    found.append(event)
                    if isinstance(event, StreamEvent) and event.number == 10:
                        return

        following = asyncio.create_task(follow())
        for number in range(1, 6):
            await store.spaces.post("team", number, sender="ann")
        await wait_until(lambda: len(found) == 5)
        async with reading:  # it does not come to read for a while
            for number in range(6, 9):
                await store.spaces.post("team", number, sender="ann")
            await store.write([_forgotten(8)])
        for number in range(9, 11):
            await store.spaces.post("team", number, sender="ann")
        await asyncio.wait_for(following, 25)

    numbers = [event.number for event in found if isinstance(event, StreamEvent)]
    assert numbers == [1, 2, 3, 4, 5, 9, 10]
    assert [event for event in found if isinstance(event, Missed)] == [Missed(3)]


async def test_an_unknown_space_is_not_found(address):
    async with Store.open(address) as store:
        for look in (store.spaces.history, store.spaces.members, store.spaces.find):
            with pytest.raises(NotFound, match="no space nowhere"):
                await look("nowhere")
