"""The table `runs`: one owner at a time drives a run, and writes only under its fence."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from surehand import Store
from surehand.store.database import Statement
from surehand.store.postgres import database as postgres
from surehand.store.tables.runs import RunClaim, RunRow

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server
ALICE, BOB = "a11ce", "b0b"
DRIVER = """
import asyncio, sys
from surehand import Store

async def main():
    async with Store.open(sys.argv[1]) as store:
        await store.owners.join("dead")
        claim = await store.runs.begin("r1", "travel", "Go to Porto", owner="dead")
        await store.steps.add(claim, 0, {"text": "Looking."}, ["c1"])
        print("driving", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def no_recovery_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test server has only just started: without this, every owner would count as live."""
    monkeypatch.setattr(postgres, "RECOVERY_GRACE_SECONDS", 0.0)


@asynccontextmanager
async def store_at(address: str, *owners: str) -> AsyncIterator[Store]:
    """A store that these owners have joined."""
    async with Store.open(address) as store:
        for owner in owners or (ALICE, BOB):
            await store.owners.join(owner)
        yield store


async def begin(store: Store, run_id: str = "r1", *, owner: str = ALICE, **options: object) -> RunClaim:
    claim = await store.runs.begin(run_id, "travel", "Go to Porto", owner=owner, **options)
    assert isinstance(claim, RunClaim)
    return claim


async def expire_lease(store: Store, run_id: str = "r1") -> None:
    await store.write([Statement("UPDATE runs SET lease_until = 1 WHERE run_id = :id", {"id": run_id}, expect=1)])


async def test_a_run_is_stored_when_it_starts(address):
    async with store_at(address) as store:
        claim = await begin(store, user="ada", session="s1", context={"space": "a\0\ud800"})
        run = await store.runs.find("r1")

    assert run == claim.run
    assert run == RunRow(
        "r1", "travel", "ada", "s1", "running", "Go to Porto", {"space": "a\0\ud800"}, {}, None, None, ALICE, 1,
        run.started_at, None,
    )  # fmt: skip
    assert run.started_at > 1_700_000_000


async def test_a_run_without_an_id_gets_one(address):
    async with store_at(address) as store:
        first, second = [await store.runs.begin(None, "travel", n, owner=ALICE) for n in range(2)]

        assert first.run_id != second.run_id
        assert (await store.runs.find(second.run_id)).prompt == 1


async def test_the_same_id_again_is_the_same_run(address):
    async with store_at(address) as store:
        await begin(store)
        again = await store.runs.begin("r1", "other", "Something else", owner=BOB)

    assert isinstance(again, RunRow)
    assert (again.agent, again.prompt, again.owner) == ("travel", "Go to Porto", ALICE)


@pytest.mark.parametrize("state", ["done", "stopped", "failed"])
async def test_a_run_ends_once(address, state):
    async with store_at(address) as store:
        claim = await begin(store)

        assert await store.runs.save(claim, state, spent={"calls": 2}, report={"text": "Done."}, reason="because")
        assert not await store.runs.save(claim, "done", report="another")
        run = await store.runs.find("r1")
        assert await store.runs.claim("r1", owner=BOB) is None

    assert (run.state, run.report, run.spent, run.reason) == (state, {"text": "Done."}, {"calls": 2}, "because")
    assert (run.has_ended, run.owner) == (True, None)
    assert run.ended_at >= run.started_at


async def test_of_many_that_end_a_run_one_succeeds(address):
    async with store_at(address) as store:
        claim = await begin(store)
        results = await asyncio.gather(*(store.runs.save(claim, "done", report=n) for n in range(10)))

        assert sum(results) == 1
        assert (await store.runs.find("r1")).report == results.index(True)


async def test_a_live_owner_keeps_its_run(address):
    async with store_at(address) as store:
        claim = await begin(store)

        assert await store.runs.claim("r1", owner=BOB) is None
        assert await store.runs.claim("r1", owner=ALICE) is None
        assert await store.runs.renew(claim)


async def test_a_waiting_run_goes_on_under_any_owner_with_what_it_has_spent(address):
    async with store_at(address) as store:
        claim = await begin(store)
        assert await store.runs.save(claim, "waiting", spent={"requests": 1}, reason="approval")
        waiting = await store.runs.find("r1")
        taken = await store.runs.claim("r1", owner=BOB)
        assert not await store.runs.renew(claim)

    assert (waiting.state, waiting.owner, waiting.reason) == ("waiting", None, "approval")
    assert (taken.run.state, taken.run.owner, taken.run.fence, taken.run.spent) == ("running", BOB, 2, {"requests": 1})


async def test_a_released_run_goes_on_at_once(address):
    async with store_at(address) as store:
        claim = await begin(store)
        assert await store.runs.release(claim)

        assert (await store.runs.find("r1")).state == "running"
        assert await store.runs.claim("r1", owner=BOB) is not None
        assert not await store.runs.release(claim)


async def test_a_run_whose_lease_has_ended_can_be_claimed_and_its_old_owner_writes_nothing(address):
    async with store_at(address) as store:
        old = await begin(store)
        await expire_lease(store)
        new = await store.runs.claim("r1", owner=BOB)

        assert new is not None
        assert not await store.runs.renew(old)
        assert not await store.runs.save(old, "done", report="of the old owner")
        assert not await store.runs.save(old, "running", spent={"requests": 99})
        assert not await store.runs.save(old, "waiting")
        assert not await store.runs.release(old)
        assert not await store.steps.add(old, 0, "of the old owner", ["c1"])
        await store.runs.send("r1", "steer", "Rather Lisbon.")
        assert await store.runs.take_messages(old, 0) is None
        assert await store.steps.add(new, 0, "of the new owner", ["c2"])
        assert not await store.steps.set_outcomes(old, 0, {"c2": "of the old owner"})
        [step] = await store.steps.list("r1")
        run = await store.runs.find("r1")
        [message] = await store.runs.messages("r1")

    assert (step.answer, [(call.call_id, call.outcome) for call in step.calls]) == ("of the new owner", [("c2", None)])
    assert (run.state, run.owner, run.spent, run.report, message.step) == ("running", BOB, {}, None, None)


async def test_a_write_under_the_claim_renews_the_lease(address):
    async with store_at(address) as store:
        claim = await begin(store)
        await expire_lease(store)
        assert await store.steps.add(claim, 0, "answer")

        assert await store.runs.claim("r1", owner=BOB) is None


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_of_two_claimers_one_wins(shared_address, is_waiting):
    async with store_at(shared_address, ALICE) as here, store_at(shared_address, BOB) as there:
        for number in range(10):
            claim = await begin(here, f"r{number}")
            await (here.runs.save(claim, "waiting") if is_waiting else here.runs.release(claim))

            claims = await asyncio.gather(
                *(store.runs.claim(f"r{number}", owner=owner) for store, owner in ((here, ALICE), (there, BOB)) * 3)
            )

            assert [each is None for each in claims].count(False) == 1


async def test_the_run_of_a_killed_process_is_claimed_at_once(shared_address):
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, shared_address], stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    try:
        assert await asyncio.to_thread(process.stdout.readline) == "driving\n"
        async with store_at(shared_address, ALICE) as store:
            assert await store.runs.claim("r1", owner=ALICE) is None
            process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait)

            # On PostgreSQL the server notices a moment later that the session of the process is gone.
            while (claim := await store.runs.claim("r1", owner=ALICE)) is None:  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.01)

            assert (claim.run.prompt, claim.run.fence) == ("Go to Porto", 2)
            assert [call.call_id for call in (await store.steps.list("r1"))[0].calls] == ["c1"]
            assert await store.runs.save(claim, "done")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def test_the_runs_of_an_owner_that_leaves_or_is_found_dead_have_no_owner(address):
    async with store_at(address) as store:
        await begin(store)
        await store.owners.leave(ALICE)
        left = await store.runs.find("r1")
        await begin(store, "r2", owner=BOB)
        await store.database.release_owner_lock(BOB)
        await store.owners.release_dead_owners("c0de")
        dead = await store.runs.find("r2")

    assert [(run.state, run.owner) for run in (left, dead)] == [("running", None)] * 2


async def test_an_unknown_run_is_neither_found_nor_claimed_nor_sent_to(address):
    async with store_at(address) as store:
        assert await store.runs.find("unknown") is None
        assert await store.runs.claim("unknown", owner=ALICE) is None
        assert not await store.runs.send("unknown", "steer", "Go.")


async def test_the_latest_runs_come_newest_first_and_filtered(address):
    async with store_at(address) as store:
        for number in range(3):
            claim = await store.runs.begin(f"r{number}", "ada", number, owner=ALICE, user="u1", session=f"s{number}")
            change = "UPDATE runs SET started_at = :at WHERE run_id = :id"
            await store.write([Statement(change, {"at": number, "id": f"r{number}"})])
        await store.runs.save(claim, "waiting")
        await store.runs.begin("other", "bob", 9, owner=ALICE)
        latest = store.runs.latest

        assert [run.prompt for run in await latest("ada", limit=2)] == [2, 1]
        assert [run.prompt for run in await latest()] == [9, 2, 1, 0]
        assert [run.prompt for run in await latest(state="waiting")] == [2]
        assert [run.prompt for run in await latest(user="u1", session="s1")] == [1]
        assert await latest("ada", limit=0) == await latest("unknown") == []


async def test_messages_are_taken_once_in_order_and_again_for_the_same_step(address):
    async with store_at(address) as store:
        claim = await begin(store)
        for text in ("one", "two"):
            assert await store.runs.send("r1", "steer", text)
        assert await store.runs.send("r1", "follow_up", "three")

        first = await store.runs.take_messages(claim, 1, "steer")
        again = await store.runs.take_messages(claim, 1, "steer")
        later = await store.runs.take_messages(claim, 2)

    assert [(message.kind, message.content) for message in first] == [("steer", "one"), ("steer", "two")]
    assert again == first
    assert [(message.kind, message.content, message.step) for message in later] == [("follow_up", "three", 2)]


async def test_messages_that_were_taken_before_a_crash_belong_to_the_same_step_afterwards(address):
    async with store_at(address) as store:
        old = await begin(store)
        await store.runs.send("r1", "steer", "one")
        await store.runs.take_messages(old, 3)
        await store.runs.release(old)
        new = await store.runs.claim("r1", owner=BOB)
        await store.runs.send("r1", "steer", "two")

        assert [message.content for message in await store.runs.take_messages(new, 3)] == ["one", "two"]


async def test_a_run_with_a_message_that_waits_does_not_end_if_asked_so(address):
    async with store_at(address) as store:
        claim = await begin(store)
        await store.runs.send("r1", "follow_up", "And back.")

        assert not await store.runs.save(claim, "done", unless_messages=True)
        assert len(await store.runs.take_messages(claim, 0)) == 1
        assert await store.runs.save(claim, "done", unless_messages=True)
        assert not await store.runs.send("r1", "follow_up", "Too late.")


async def test_a_message_is_either_refused_or_seen_before_the_run_ends(shared_address):
    async with store_at(shared_address, ALICE) as here, store_at(shared_address, BOB) as there:
        for number in range(10):
            claim = await begin(here, f"r{number}")

            sent, ended = await asyncio.gather(
                there.runs.send(f"r{number}", "steer", "Wait!"),
                here.runs.save(claim, "done", unless_messages=True),
            )

            assert sent is not ended


async def test_workers_find_the_runs_that_no_live_process_drives(address):
    agents = ["travel", *(f"agent{number}" for number in range(20))]
    async with store_at(address) as store:
        await begin(store, "driven")
        await begin(store, "late")
        await expire_lease(store, "late")
        released = await begin(store, "released")
        await store.runs.release(released)
        failed = await begin(store, "failed")
        await store.runs.release_after_failure(failed, "OSError: no network", delay=600)
        tried = await begin(store, "tried")
        await store.runs.release_after_failure(tried, "OSError: no network", delay=-1)

        for owner in (ALICE, BOB):  # also for the owner itself, whose task may have ended without releasing the run
            found = await store.runs.interrupted(agents, owner=owner)
            assert sorted(run.run_id for run in found) == ["late", "released", "tried"]
        [tried_again] = [run for run in found if run.run_id == "tried"]
        assert (tried_again.attempts, tried_again.reason) == (1, "OSError: no network")
        assert await store.runs.interrupted(["other"], owner=BOB) == []


async def test_answered_runs_are_found_page_by_page(address):
    async with store_at(address) as store:
        for number in range(5):
            claim = await begin(store, f"r{number}")
            await store.runs.save(claim, "waiting")
            await store.runs.send(f"r{number}", "follow_up", "Hurry.")

        first = await store.runs.answered(["travel"], limit=3)
        second = await store.runs.answered(["travel"], after=first[-1].run_id, limit=3)

    assert [(run.run_id, run.answers) for run in (*first, *second)] == [(f"r{number}", 1) for number in range(5)]
