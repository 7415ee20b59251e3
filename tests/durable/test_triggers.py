"""Events that are put into the inbox of an agent: stored once, run once, and seen by those whose they are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import DefinitionError, Runtime, Worker
from tests.durable.background_agents import Desk, wait_for_end
from tests.durable.conftest import ON_BOTH_DATABASES

pytestmark = pytest.mark.timeout(60)  # the first test on PostgreSQL starts the server


@ON_BOTH_DATABASES
async def test_an_event_of_a_process_without_the_agent_is_run_by_a_worker(address: str) -> None:
    desk = Desk()
    async with Runtime(store=address) as elsewhere:
        event = await elsewhere.scope(user="ada", session="s1").trigger("clerk", "Hello")
        assert (event.status, event.run_status, event.data) == ("waiting", None, "Hello")

    async with Runtime(store=address) as runtime, Worker(runtime, agents=[desk.agent()]):
        ended = await wait_for_end(runtime, event)
        assert runtime.store is not None
        run = await runtime.store.runs.find(event.run_id or "")

    assert (ended.status, ended.run_id, ended.reason) == ("done", event.run_id, "")
    assert run is not None
    assert (run.user, run.session, run.report["text"]) == ("ada", "s1", "Heard: Sent Hello.")
    assert desk.sent == ["Hello"]


@ON_BOTH_DATABASES
async def test_a_hundred_triggers_with_one_id_are_one_run(address: str) -> None:
    desk = Desk()
    async with (
        Runtime(store=address) as runtime,
        Runtime(store=address) as other,
        Worker(runtime, agents=[desk.agent()]),
        Worker(other, agents=[desk.agent()]),
    ):
        events = await asyncio.gather(
            *(each.trigger("clerk", "Hello", "e1") for each in [runtime, other] for _ in range(50))
        )
        await wait_for_end(runtime, events[0])
        listed = [event for event in await runtime.inbox("clerk") if event.type == "service"]
        assert runtime.store is not None
        runs = await runtime.store.runs.latest("clerk")

    assert len({event.run_id for event in events}) == 1
    assert [event.id for event in listed] == ["e1"]
    assert len(runs) == 1
    assert desk.sent == ["Hello"]


@pytest.mark.parametrize(
    ("data", "prompt"),
    [("Hello", "Hello"), ({"order": 7}, '{"order":7}'), ([1, "zwei"], '[1,"zwei"]'), (None, "null"), ("", "")],
)
async def test_a_text_is_the_prompt_as_it_is_and_anything_else_is_json(address: str, data: Any, prompt: str) -> None:
    desk = Desk()
    async with Runtime(store=address) as runtime, Worker(runtime, agents=[desk.agent()]):
        await wait_for_end(runtime, await runtime.trigger("clerk", data))

    assert desk.prompts == [prompt]


async def test_an_agent_may_be_given_in_place_of_its_name(address: str) -> None:
    agent = Desk().agent()
    async with Runtime(store=address) as runtime:
        event = await runtime.trigger(agent, "Hello", event_id="e1")

        assert await runtime.find_event("clerk", "e1") == event
        assert await runtime.find_event(agent, "e2") is None


async def test_one_id_of_two_users_is_two_events_and_each_user_sees_their_own(address: str) -> None:
    async with Runtime(store=address) as runtime:
        ada = runtime.scope(user="ada")
        bob = runtime.scope(user="bob")
        first = await ada.trigger("clerk", "from Ada", "e1")
        second = await bob.trigger("clerk", "from Bob", "e1")

        assert first.run_id != second.run_id
        assert [event.data for event in await ada.inbox()] == ["from Ada"]
        assert (await bob.find_event("clerk", "e1")) == second
        assert [event.data for event in await runtime.inbox("clerk")] == ["from Bob", "from Ada"]
        assert await ada.scope(session="s9").inbox() == []


async def test_the_inbox_is_listed_in_pages(address: str) -> None:
    async with Runtime(store=address) as runtime:
        for number in range(5):
            await runtime.trigger("clerk", number)
        first = await runtime.inbox("clerk", limit=3)
        second = await runtime.inbox("clerk", limit=3, before=first[-1])

    assert [event.data for event in (*first, *second)] == [4, 3, 2, 1, 0]


async def test_an_event_waits_until_a_process_with_its_agent_works(address: str) -> None:
    desk = Desk()
    async with Runtime(store=address) as runtime:
        async with Worker(runtime, agents=[desk.agent("other")]):
            event = await runtime.trigger("clerk", "Hello")
            await wait_for_end(runtime, await runtime.trigger("other", "Hi"))
            waiting = await runtime.find_event("clerk", event.id)
        async with Worker(runtime, agents=[desk.agent()]):
            await wait_for_end(runtime, event)

    assert waiting == event
    assert desk.sent == ["Hi", "Hello"]


async def test_the_events_of_an_agent_are_started_in_order(address: str) -> None:
    desk = Desk()
    async with Runtime(store=address) as runtime:
        events = [await runtime.trigger("clerk", f"letter {number}") for number in range(6)]
        async with Worker(runtime, agents=[desk.agent()], concurrent=1):
            for event in events:
                await wait_for_end(runtime, event)

    assert desk.sent == [f"letter {number}" for number in range(6)]


async def test_events_need_a_store() -> None:
    desk = Desk()
    async with Runtime() as runtime:
        with pytest.raises(DefinitionError, match="has none"):
            await runtime.trigger("clerk", "Hello")
        with pytest.raises(DefinitionError, match="has none"):
            async with Worker(runtime, agents=[desk.agent()]):
                pass


async def test_what_cannot_be_an_event_is_refused_at_once(file: str) -> None:
    async with Runtime(store=file) as runtime:
        with pytest.raises(TypeError, match="has to be JSON"):
            await runtime.trigger("clerk", object())
        with pytest.raises(ValueError, match="neither an agent nor"):
            await runtime.trigger("no such name", "Hello")
        with pytest.raises(ValueError, match="An event id"):
            await runtime.trigger("clerk", "Hello", event_id="")

        assert await runtime.inbox() == []
