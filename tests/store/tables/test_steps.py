"""The tables `steps` and `step_calls`: what a model answered, and what came of its calls."""

from __future__ import annotations

import pytest

from surehand import Store
from surehand.store.database import Statement, UnstorableValue
from surehand.store.tables.runs import RunClaim
from surehand.store.tables.steps import StepCallRow

pytestmark = pytest.mark.timeout(30)
ALICE = "a11ce"


async def begin(store: Store) -> RunClaim:
    await store.owners.join(ALICE)
    claim = await store.runs.begin("r1", "travel", "Go to Porto", owner=ALICE)
    assert isinstance(claim, RunClaim)
    return claim


async def test_steps_come_back_in_order_with_their_calls_and_outcomes(address):
    async with Store.open(address) as store:
        claim = await begin(store)
        calls = [f"r1.0.{position}" for position in range(12)]
        assert await store.steps.add(claim, 0, {"text": "a\0\ud800"}, calls, spent={"requests": 1})
        assert await store.steps.set_outcomes(claim, 0, {calls[11]: {"done": 11}, calls[0]: None})
        assert await store.steps.add(claim, 1, "The end.", spent={"requests": 2})
        first, second = await store.steps.list("r1")
        run = await store.runs.find("r1")

    assert (first.step, first.answer, second.step, second.answer) == (0, {"text": "a\0\ud800"}, 1, "The end.")
    assert first.calls == tuple(
        StepCallRow(call_id, {"done": 11} if call_id == calls[11] else None) for call_id in calls
    )
    assert (second.calls, run.spent) == ((), {"requests": 2})


async def test_a_step_is_stored_whole_or_not_at_all(address):
    async with Store.open(address) as store:
        claim = await begin(store)
        with pytest.raises(UnstorableValue):
            await store.steps.add(claim, 0, "answer", ["c1", "c\0"], spent={"requests": 1})

        assert await store.steps.list("r1") == []
        assert (await store.runs.find("r1")).spent == {}
        [row] = await store.database.read("SELECT count(*) AS number FROM step_calls")
        assert row["number"] == 0


async def test_a_step_that_exists_is_not_replaced(address):
    async with Store.open(address) as store:
        claim = await begin(store)
        assert await store.steps.add(claim, 0, "first", ["c1"])

        assert not await store.steps.add(claim, 0, "second", ["c2"], spent={"requests": 2})
        [step] = await store.steps.list("r1")

    assert (step.answer, step.calls) == ("first", (StepCallRow("c1", None),))


async def test_a_stored_outcome_never_changes(address):
    async with Store.open(address) as store:
        claim = await begin(store)
        await store.steps.add(claim, 0, "answer", ["c1", "c2"])
        await store.steps.set_outcomes(claim, 0, {"c1": "first"})

        assert await store.steps.set_outcomes(claim, 0, {"c1": "second", "c2": "other"})
        [step] = await store.steps.list("r1")

    assert step.calls == (StepCallRow("c1", "first"), StepCallRow("c2", "other"))


async def test_ended_runs_are_pruned_with_their_steps_and_messages(address):
    async with Store.open(address) as store:
        claim = await begin(store)
        await store.steps.add(claim, 0, "answer", ["c1"])
        await store.runs.send("r1", "steer", "Faster.")
        await store.runs.take_messages(claim, 1)
        await store.runs.begin("r2", "travel", "Another", owner=ALICE)
        await store.runs.save(claim, "done")
        await store.write([Statement("UPDATE runs SET started_at = 1")])
        await store.write([Statement("UPDATE runs SET ended_at = 2 WHERE run_id = 'r1'", expect=1)])

        assert (await store.prune())["runs"] == 1
        rows = (await store.info())["rows"]

    assert [rows[table] for table in ("runs", "steps", "step_calls", "run_messages")] == [1, 0, 0, 0]
