"""Plans of an agent, and their delivery when they are due."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime
from itertools import chain
from typing import Any
from uuid import uuid4

import pytest

from surehand import Runtime, Store
from surehand.builtin.agent.due_plans import advance_plan, deliver_due_plans, find_due_plans
from surehand.builtin.agent.plans import plans
from surehand.store.database import Statement
from surehand.testing import ManualClock

NOW = datetime.fromisoformat("2027-03-26T12:00:00+00:00").timestamp()  # a Friday, two days before summer time
HOUR = 3_600


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class Desk:
    """A runtime, its clock, and one agent."""

    def __init__(self, runtime: Runtime, clock: ManualClock) -> None:
        self.runtime, self.clock, self.agent = runtime, clock, runtime.scope(agent="ada")

    async def plan(self, call_id: str | None = None, **plan: Any) -> Any:
        return await self.agent.call("set_plans", {"plans": [{"name": "p", **plan}]}, call_id=call_id)

    async def plans(self, **chosen: Any) -> list[dict[str, Any]]:
        return (await self.agent.call("get_plans", chosen)).data["plans"]

    async def wake(self, agent: str = "ada", **how: Any) -> list[str]:
        assert self.runtime.store is not None
        return [plan.plan_id for plan in await deliver_due_plans(self.runtime.store, agent, self.clock.time(), **how)]

    async def inbox(self) -> list[Any]:
        assert self.runtime.store is not None
        return await self.runtime.store.inbox.drain("ada")


@pytest.fixture
def desk():
    class Opened:
        async def __aenter__(self) -> Desk:
            clock = ManualClock(NOW)
            self.runtime = Runtime(plans(clock), store=":memory:", clock=clock)
            return Desk(await self.runtime.__aenter__(), clock)

        async def __aexit__(self, *error: Any) -> None:
            await self.runtime.__aexit__(*error)

    return Opened


@pytest.mark.parametrize(
    ("text", "later"),
    [
        ("1 minute", 60),
        ("30 minutes", 1_800),
        ("2 hours", 7_200),
        ("1 day", 86_400),
        ("3 Weeks", 1_814_400),
        (" 5 minute ", 300),
    ],
)
async def test_a_plan_runs_after_a_delay(desk, text, later):
    async with desk() as ada:
        assert (await ada.plan(runAfter=text)).ok
        [plan] = await ada.plans()

    assert at(plan["nextRunAt"]) == NOW + later
    assert (plan["status"], plan["cron"], plan["scheduledAt"]) == ("pending", None, plan["nextRunAt"])


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"scheduledAt": "2027-04-01T09:00:00+02:00"}, "2027-04-01T07:00:00+00:00"),
        ({"scheduledAt": "2027-04-01T09:00:00Z"}, "2027-04-01T09:00:00+00:00"),
        ({"scheduledAt": "2027-04-01T09:00"}, "2027-04-01T09:00:00+00:00"),
        ({"scheduledAt": "2027-04-01T09:00", "timezone": "Europe/Berlin"}, "2027-04-01T07:00:00+00:00"),
        ({"scheduledAt": "2027-04-01T09:00Z", "timezone": "Europe/Berlin"}, "2027-04-01T09:00:00+00:00"),
        ({"cron": "0 9 * * *"}, "2027-03-27T09:00:00+00:00"),
        ({"cron": "30 9 * * MON-FRI", "timezone": "Europe/Berlin"}, "2027-03-29T07:30:00+00:00"),
        ({"cron": "*/15 * * * *"}, "2027-03-26T12:15:00+00:00"),
        ({"cron": "0 12 29 2 *"}, "2028-02-29T12:00:00+00:00"),
        ({"cron": "30 2 28 3 *", "timezone": "Europe/Berlin"}, "2027-03-28T01:00:00+00:00"),  # 2:30 does not exist
    ],
)
async def test_a_plan_runs_once_at_a_time_or_by_cron(desk, given, meant):
    async with desk() as ada:
        set_ = await ada.plan(**given)
        [plan] = await ada.plans()

    assert set_.data["count"] == 1
    assert at(plan["nextRunAt"]) == at(meant)
    assert plan["status"] == ("active" if "cron" in given else "pending")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"cron": "0 9 * * *", "runAfter": "1 day"},
        {"cron": "0 9 * * *", "scheduledAt": "2028-01-01T00:00Z", "runAfter": "1 day"},
        {"runAfter": "0 minutes"},
        {"runAfter": "-1 day"},
        {"runAfter": "soon"},
        {"runAfter": "1.5 hours"},
        {"runAfter": "1 month"},
        {"runAfter": "999999 weeks"},
        {"runAfter": "१ day"},
        {"runAfter": "1 day\n2 days"},
        {"scheduledAt": "2027-03-26T11:59:59Z"},
        {"scheduledAt": "tomorrow"},
        {"scheduledAt": "9999-12-31T23:59:59Z"},
        {"scheduledAt": "0001-01-01T00:00:00+14:00"},
        {"scheduledAt": ""},
        {"cron": ""},
        {"cron": "* * * *"},
        {"cron": "* * * * * *"},
        {"cron": "61 * * * *"},
        {"cron": "0 0 30 2 *"},
        {"cron": "0 0 31 2,4,6 *"},
        {"cron": "@daily"},
        {"cron": "0 9 * * MOON"},
        {"cron": "0 9 * * 1L/2"},
        {"cron": "*/0 * * * *"},
        {"cron": "9" * 90 + " * * * *"},
        {"cron": "0 9 * * *", "timezone": "Berlin"},
        {"runAfter": "1 day", "timezone": "../etc"},
    ],
)
async def test_a_plan_that_would_never_run_is_refused(desk, given):
    async with desk() as ada:
        outcome = await ada.plan(**given)
        assert outcome.code == "invalid_arguments"
        assert len(outcome.message) < 400
        assert await ada.plans() == []


async def test_one_invalid_plan_prevents_all_of_them(desk):
    async with desk() as ada:
        both = [{"name": "good", "runAfter": "1 day"}, {"name": "bad", "runAfter": "never"}]
        assert not (await ada.agent.call("set_plans", {"plans": both})).ok
        assert await ada.plans() == []


async def test_a_due_plan_is_delivered_once(desk):
    async with desk() as ada:
        [plan] = (await ada.plan(runAfter="2 hours", instruction="Look again")).data["plans"]
        await ada.clock.advance(2 * HOUR - 1)
        assert await ada.wake() == []
        await ada.clock.advance(1)
        assert await ada.wake() == [plan["id"]]
        assert await ada.wake() == []
        [item] = await ada.inbox()

        assert (item.type, item.event_id) == ("plan", f"plan:{plan['id']}:{int((NOW + 2 * HOUR) * 1000)}")
        assert item.data == {
            "planId": plan["id"], "name": "p", "instruction": "Look again", "scheduledAt": "2027-03-26T14:00:00+00:00",
        }  # fmt: skip
        [done] = await ada.plans()
        assert (done["status"], done["nextRunAt"]) == ("completed", None)


async def test_a_recurring_plan_is_set_to_its_next_time(desk):
    async with desk() as ada:
        await ada.plan(id="daily", cron="0 9 * * *", timezone="Europe/Berlin")
        times = []
        for _ in range(4):
            [plan] = await ada.plans(status="active")
            times.append(plan["nextRunAt"])
            await ada.clock.advance(at(plan["nextRunAt"]) - ada.clock.time())
            assert await ada.wake() == ["daily"]

    assert times == [  # nine o'clock there, before and after the clocks change
        "2027-03-27T09:00:00+01:00",
        "2027-03-28T09:00:00+02:00",
        "2027-03-29T09:00:00+02:00",
        "2027-03-30T09:00:00+02:00",
    ]


async def test_missed_occurrences_are_delivered_as_one(desk):
    async with desk() as ada:
        await ada.plan(id="often", cron="*/5 * * * *")
        await ada.clock.advance(24 * HOUR + 30)
        assert await ada.wake() == ["often"]
        assert await ada.wake() == []
        [plan] = await ada.plans()

        assert at(plan["nextRunAt"]) == NOW + 24 * HOUR + 300


async def test_a_late_plan_expires_or_waits_for_its_next_time(desk):
    async with desk() as ada:
        await ada.plan(id="once", runAfter="1 hour")
        await ada.plan(id="often", cron="0 * * * *")
        await ada.clock.advance(10 * HOUR + 1)

        assert await ada.wake(max_delay_seconds=HOUR) == []
        assert {plan["id"]: plan["status"] for plan in await ada.plans()} == {"once": "expired", "often": "active"}
        assert await ada.inbox() == []
        assert [plan["id"] for plan in await ada.plans(status="expired")] == ["once"]


async def test_a_crash_between_delivery_and_advance_delivers_once(desk):
    async with desk() as ada:
        await ada.plan(id="p1", runAfter="1 hour")
        await ada.clock.advance(HOUR)
        store = ada.runtime.store
        [plan] = await find_due_plans(store.notes, "ada", ada.clock.time())
        await store.inbox.push("ada", plan.event_id, "plan", plan.event_data)  # and then the process is gone

        assert await ada.wake() == []
        assert len(await ada.inbox()) == 1
        assert [plan["status"] for plan in await ada.plans()] == ["completed"]


async def test_concurrent_deliveries_deliver_once(desk):
    async with desk() as ada:
        for n in range(10):
            await ada.plan(id=f"p{n}", runAfter="1 hour")
        await ada.clock.advance(HOUR)
        told = await asyncio.gather(*(ada.wake() for _ in range(5)))

        assert sorted(chain(*told)) == sorted(f"p{n}" for n in range(10))
        assert len(await ada.inbox()) == 10


async def test_a_plan_that_was_changed_meanwhile_is_not_advanced(desk):
    async with desk() as ada:
        await ada.plan(id="p1", runAfter="1 hour")
        await ada.plan(id="p2", runAfter="1 hour")
        await ada.clock.advance(HOUR)
        first, second = await find_due_plans(ada.runtime.store.notes, "ada", ada.clock.time())
        await ada.plan(id="p1", runAfter="1 day")
        await ada.agent.call("delete_plans", {"planIds": ["p2"]})

        assert not await advance_plan(ada.runtime.store, "ada", first, ada.clock.time())
        assert not await advance_plan(ada.runtime.store, "ada", second, ada.clock.time())
        [plan] = await ada.plans()
        assert (plan["id"], plan["status"], at(plan["nextRunAt"])) == ("p1", "pending", NOW + HOUR + 86_400)


async def test_a_repeated_call_does_not_reset_a_plan(desk):
    """Like after a crash: the same call again, after its plan has run."""
    async with desk() as ada:
        await ada.plan(call_id="c1", runAfter="1 hour")
        await ada.clock.advance(HOUR)
        assert len(await ada.wake()) == 1
        await ada.runtime.store.write([Statement("DELETE FROM ledger")])
        repeated = await ada.plan(call_id="c1", runAfter="1 hour")
        [plan] = await ada.plans()

    assert repeated.ok
    assert plan["status"] == "completed"


async def test_plans_are_deleted_and_belong_to_their_agent(desk):
    async with desk() as ada:
        await ada.plan(id="p1", runAfter="1 hour")
        bob = ada.runtime.scope(agent="bob")
        assert (await bob.call("get_plans")).data == {"plans": []}
        assert (await bob.call("delete_plans", {"planIds": ["p1"]})).data == {"success": True, "deleted": 0}
        await ada.clock.advance(HOUR)
        assert await ada.wake("bob") == []
        assert (await ada.agent.call("delete_plans", {"planIds": ["p1"]})).data == {"success": True, "deleted": 1}
        assert await ada.wake() == []


async def test_without_cronsim_only_cron_plans_fail(desk, monkeypatch):
    monkeypatch.setitem(sys.modules, "cronsim", None)
    async with desk() as ada:
        missing = await ada.plan(cron="0 9 * * *")
        assert (missing.code, ".[cron]" in missing.message) == ("unavailable", True)
        assert (await ada.plan(runAfter="1 day")).ok


@pytest.mark.timeout(30)
async def test_plans_advance_on_postgresql_too(postgres):
    name = f"plans_{uuid4().hex}"
    postgres.psql(f"CREATE SCHEMA {name}")
    uri = postgres.get_uri()
    address = f"{uri}{'&' if '?' in uri else '?'}options=-csearch_path%3D{name}"
    clock = ManualClock(NOW)
    async with Store.open(address) as store, Runtime(plans(clock), store=store, clock=clock) as runtime:
        ada = Desk(runtime, clock)
        await ada.plan(id="p1", runAfter="1 hour", instruction="Grüße")
        await ada.plan(id="p2", cron="0 * * * *")
        await clock.advance(HOUR)
        told = await asyncio.gather(ada.wake(), ada.wake())

        assert sorted(chain(*told)) == ["p1", "p2"]
        assert {plan["id"]: plan["status"] for plan in await ada.plans()} == {"p1": "completed", "p2": "active"}
