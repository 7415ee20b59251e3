"""The table `inbox`: events for the next cycle of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf, nan

import pytest

from surehand.store.database import Statement, UnexpectedRowCount, UnstorableValue
from surehand.store.migrations import open_database
from surehand.store.tables.inbox import MAX_ATTEMPTS, InboxItem, InboxTable, tool_result_event

pytestmark = pytest.mark.timeout(30)


@asynccontextmanager
async def inbox_at(address: str) -> AsyncIterator[InboxTable]:
    database = await open_database(address)
    try:
        yield InboxTable(database)
    finally:
        await database.close()


async def pushed(inbox: InboxTable, *events: str, agent: str = "ada") -> None:
    for event in events:
        await inbox.push(agent, event, "service", {"event": event})


def names(items: list[InboxItem]) -> list[str]:
    return [item.event_id for item in items]


async def test_events_are_taken_in_order_of_arrival(address):
    async with inbox_at(address) as inbox:
        await pushed(inbox, "e3", "e1", "e2")
        await pushed(inbox, "other", agent="bob")

        first, second, none = [await inbox.take("ada", limit=2) for _ in range(3)]

        assert names(first + second) == ["e3", "e1", "e2"]
        assert none == []
        assert await inbox.count("bob") == 1


async def test_an_item_says_what_was_pushed(address):
    async with inbox_at(address) as inbox:
        await inbox.push("", "e1", "plan", {"goal": [1, "ünï 🎉", None]})
        [item] = await inbox.take("", owner="me")

    assert (item.agent, item.event_id, item.type, item.attempts) == ("", "e1", "plan", 1)
    assert item.data == {"goal": [1, "ünï 🎉", None]}
    assert item.created_at > 1_700_000_000


async def test_the_same_event_is_delivered_once_however_often_it_is_pushed(address):
    async with inbox_at(address) as inbox:
        assert await inbox.push("ada", "e1", "service", 1)
        assert not await inbox.push("ada", "e1", "service", 2)
        assert await inbox.push("bob", "e1", "service", 3)
        [item] = await inbox.take("ada")
        await inbox.mark_done([item.id])

        assert not await inbox.push("ada", "e1", "service", 4)
        assert item.data == 1
        assert await inbox.take("ada") == []


async def test_an_event_is_part_of_its_transaction(address):
    async with inbox_at(address) as inbox:
        fails = Statement("UPDATE inbox SET state = 'failed' WHERE event_id = 'unknown'", expect=1)
        with pytest.raises(UnexpectedRowCount):
            await inbox._database.write([inbox.push_statement("ada", "e1", "service", {}), fails])
        assert await inbox.count("ada") == 0

        again = [inbox.push_statement("ada", "e1", "service", {}), inbox.push_statement("ada", "e1", "service", {})]
        await inbox._database.write(again)

        assert await inbox.count("ada") == 1


async def test_peeking_and_counting_change_nothing(address):
    async with inbox_at(address) as inbox:
        await pushed(inbox, "e1", "e2", "e3")

        assert names(await inbox.peek("ada", 2)) == ["e1", "e2"]
        assert (await inbox.peek("ada", 0), await inbox.peek("ada", -1)) == ([], [])
        assert (await inbox.take("ada", limit=0), await inbox.take("ada", limit=-1)) == ([], [])
        assert await inbox.count("ada") == 3
        assert [item.attempts for item in await inbox.take("ada")] == [1, 1, 1]
        assert await inbox.count("ada") == 0


async def test_an_event_is_marked_done_once(address):
    async with inbox_at(address) as inbox:
        await pushed(inbox, "e1", "e2", "e3")
        items = await inbox.take("ada", limit=2)
        [waiting] = await inbox.peek("ada")

        assert await inbox.mark_done([item.id for item in items]) == 2
        assert await inbox.mark_done([items[0].id, waiting.id, 999]) == 0
        assert not await inbox.mark_failed(items[0].id)
        assert names(await inbox.drain("ada")) == ["e3"]


async def test_a_failed_event_returns_to_its_position_until_its_last_attempt(address):
    async with inbox_at(address) as inbox:
        await pushed(inbox, "bad", "good")
        again = []
        for attempt in range(1, MAX_ATTEMPTS + 1):
            [item] = await inbox.take("ada", limit=1)
            assert (item.event_id, item.attempts) == ("bad", attempt)
            again.append(await inbox.mark_failed(item.id))

        assert again == [True] * (MAX_ATTEMPTS - 1) + [False]
        assert names(await inbox.take("ada")) == ["good"]


async def test_draining_takes_and_marks_all_events(address):
    async with inbox_at(address) as inbox:
        await pushed(inbox, "e1", "e2", "e3")
        [taken] = await inbox.take("ada", limit=1)

        assert names(await inbox.drain("ada")) == ["e2", "e3"]
        assert await inbox.drain("ada") == []
        assert await inbox.mark_done([taken.id]) == 1


async def test_only_the_events_of_dead_owners_are_returned(address):
    async with inbox_at(address) as inbox:
        await pushed(inbox, "e1", "e2", "e3", "e4")
        await inbox.take("ada", limit=1, owner="dead")
        await inbox.take("ada", limit=1, owner="alive")
        [ended] = await inbox.take("ada", limit=1, owner="dead")
        await inbox.mark_done([ended.id])

        assert await inbox.return_from_dead_owners([]) == 0
        assert await inbox.return_from_dead_owners({"dead", "unknown"}) == 1
        assert await inbox.return_from_dead_owners(["dead"]) == 0
        assert names(await inbox.take("ada")) == ["e1", "e4"]


async def test_an_event_that_kills_its_owner_is_given_up_after_the_last_attempt(address):
    async with inbox_at(address) as inbox:
        await pushed(inbox, "poison")
        for _ in range(MAX_ATTEMPTS):
            assert len(await inbox.take("ada", owner="dead")) == 1
            assert await inbox.return_from_dead_owners(["dead"]) == 1

        assert await inbox.take("ada") == []


async def test_concurrent_takers_never_get_the_same_event_and_each_gets_some(shared_address):
    async with inbox_at(shared_address) as here, inbox_at(shared_address) as there:
        await pushed(here, *(f"e{n:02}" for n in range(40)))

        taken = await asyncio.gather(*(inbox.take("ada", limit=1) for inbox in [here, there] * 20))

        assert sorted(names([item for items in taken for item in items])) == [f"e{n:02}" for n in range(40)]
        assert {len(items) for items in taken} == {1}


async def test_takers_of_many_share_without_loss(shared_address):
    async with inbox_at(shared_address) as here, inbox_at(shared_address) as there:
        push = [here.push_statement("ada", f"e{n:03}", "service", n) for n in range(200)]
        await here._database.write(push)
        got: list[InboxItem] = []

        async def taker(inbox: InboxTable, limit: int) -> None:
            while items := await inbox.take("ada", limit=limit):
                assert items == sorted(items, key=lambda item: item.id)
                got.extend(items)
                await inbox.mark_done(item.id for item in items)

        await asyncio.gather(*(taker(inbox, limit) for inbox in (here, there) for limit in (1, 3, 7, 13)))

        assert sorted(item.data for item in got) == list(range(200))


SURVIVORS = ["a\0b", "\ud800 \udfff", {"k\0\ud800": ["'; DROP TABLE inbox; --", "%s :agent {now}"]}, 2**80, 1e308, None]


async def test_data_comes_back_exactly(address):
    async with inbox_at(address) as inbox:
        for number, data in enumerate(SURVIVORS):
            await inbox.push("ada", f"e{number}", "service", data)

        assert [item.data for item in await inbox.drain("ada")] == SURVIVORS


async def test_a_number_that_is_not_finite_arrives_as_its_name(address):
    async with inbox_at(address) as inbox:
        await inbox.push("ada", "e1", "service", {"numbers": [nan, inf, -inf]})

        assert (await inbox.drain("ada"))[0].data == {"numbers": ["NaN", "Infinity", "-Infinity"]}


async def test_a_name_that_cannot_be_stored_is_rejected(address):
    async with inbox_at(address) as inbox:
        for text in ("a\0b", "\ud800"):
            with pytest.raises(UnstorableValue):
                await inbox.push("ada", text, "service", {})

        assert await inbox.count("ada") == 0


def test_the_event_of_a_result_names_its_call():
    assert tool_result_event("c1", "ui__ask", "r1", {"answer": 42}) == (
        "tr:c1",
        "tool_result",
        {"toolCallId": "c1", "toolName": "ui__ask", "originRunId": "r1", "result": {"answer": 42}},
    )


async def test_the_result_of_a_call_is_delivered_once(address):
    async with inbox_at(address) as inbox:
        assert await inbox.push("ada", *tool_result_event("c1", "ui__ask", None, "yes"))
        assert not await inbox.push("ada", *tool_result_event("c1", "ui__ask", None, "no"))

        [item] = await inbox.drain("ada")

    assert (item.event_id, item.type, item.data["result"]) == ("tr:c1", "tool_result", "yes")
