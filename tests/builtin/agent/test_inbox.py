"""An agent takes events out of its inbox, or skips a cycle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from surehand import Runtime, Store
from surehand.builtin.agent.inbox import inbox
from surehand.store.database import Statement


@asynccontextmanager
async def open_runtime() -> AsyncIterator[Runtime]:
    async with Store.open() as store, Runtime(inbox(), store=store) as runtime:
        yield runtime


async def test_an_agent_takes_events_out_of_its_inbox():
    async with open_runtime() as runtime:
        for number, text in enumerate(("one", "two", "three")):
            await runtime.store.inbox.push("ada", f"m{number}", "space_message", {"content": text})
        await runtime.store.inbox.push("ada", "svc:1", "service", {"n": 1})
        ada = runtime.scope(agent="ada")
        first = await ada.call("peek_inbox")
        service = await ada.call("peek_inbox", {"filter": "service", "count": 5})
        rest = await ada.call("peek_inbox", {"count": 10})
        nothing = await ada.call("peek_inbox")

    [event] = first.data["events"]
    assert (event["type"], event["data"]["content"], first.data["remaining"]) == ("space_message", "one", 3)
    assert [event["eventId"] for event in service.data["events"]] == ["svc:1"]
    assert [event["data"]["content"] for event in rest.data["events"]] == ["two", "three"]
    assert nothing.data == {"events": [], "remaining": 0}


async def test_events_are_taken_once_by_concurrent_calls():
    async with open_runtime() as runtime:
        for n in range(20):
            await runtime.store.inbox.push("ada", f"svc:{n}", "service", n)
        ada = runtime.scope(agent="ada")
        outcomes = await asyncio.gather(*(ada.call("peek_inbox", {"count": 3}) for _ in range(10)))

    taken = [event["data"] for outcome in outcomes for event in outcome.data["events"]]
    assert sorted(taken) == list(range(20))


async def test_a_call_repeated_after_a_crash_gets_the_same_events():
    async with open_runtime() as runtime:
        for n in range(4):
            await runtime.store.inbox.push("ada", f"svc:{n}", "service", n)
        ada = runtime.scope(agent="ada")
        first = await ada.call("peek_inbox", {"count": 2}, call_id="c1")
        # The outcome was not written down, but what was taken was.
        await runtime.store.write([Statement("DELETE FROM ledger")])
        second = await ada.call("peek_inbox", {"count": 2}, call_id="c1")
        other = await ada.call("peek_inbox", {"count": 2}, call_id="c2")

    assert first.data["events"] == second.data["events"]
    assert [event["data"] for event in other.data["events"]] == [2, 3]


async def test_a_call_without_an_agent_has_no_inbox():
    async with open_runtime() as runtime:
        await runtime.store.inbox.push("", "tr:1", "tool_result", {"of": "somebody"})

        for scope in (runtime, runtime.scope(user="ann"), runtime.scope(agent="")):
            assert (await scope.call("peek_inbox")).code == "not_found"


async def test_skip_asks_the_host_to_end_the_cycle():
    async with open_runtime() as runtime:
        assert (await runtime.call("skip", {"reason": "nothing new"})).data == {
            "action": "skip",
            "reason": "nothing new",
        }
        assert (await runtime.call("skip")).data == {"action": "skip", "reason": None}


@pytest.mark.timeout(30)
async def test_events_are_taken_on_postgresql_too(postgres):
    name = f"inbox_{uuid4().hex}"
    postgres.psql(f"CREATE SCHEMA {name}")
    uri = postgres.get_uri()
    address = f"{uri}{'&' if '?' in uri else '?'}options=-csearch_path%3D{name}"
    async with Store.open(address) as store, Runtime(inbox(), store=store) as runtime:
        for n in range(12):
            await store.inbox.push("ada", f"svc:{n}", "service" if n % 2 else "plan", n)
        ada = runtime.scope(agent="ada")
        plans = await ada.call("peek_inbox", {"count": 2, "filter": "plan"})
        outcomes = await asyncio.gather(*(ada.call("peek_inbox", {"count": 4}) for _ in range(8)))

    assert [event["data"] for event in plans.data["events"]] == [0, 2]
    taken = [event["data"] for outcome in outcomes for event in outcome.data["events"]]
    assert sorted(taken) == sorted(set(taken))
    assert set(taken) <= set(range(12)) - {0, 2}
