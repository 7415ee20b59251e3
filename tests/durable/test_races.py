"""Many answers at once, in two runtimes on one store: one wins, and every caller gets the stored outcome."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from surehand import Done, Runtime, Store
from surehand.core.events import CallResumed, CallSettled
from tests.durable.bank_tools import Bank, assert_failed, make_ask_tool, pending_call_id, read_rows, simulate_dead_owner
from tests.durable.concurrent_answers import ANSWERS_PER_CALL, answer_concurrently
from tests.durable.conftest import ON_BOTH_DATABASES

pytestmark = [ON_BOTH_DATABASES, pytest.mark.timeout(30)]  # the first test on PostgreSQL starts the server


@pytest.mark.parametrize("calls", [10, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(85)])])
async def test_fifty_submitters_of_each_call_have_one_winner(address: str, calls: int) -> None:
    """`python -m tests.durable.concurrent_answers` does it for ten thousand calls."""
    counts = await answer_concurrently(address, calls)

    assert (counts["ended"], counts["inbox_items"], counts["answers"], counts["outcomes"]) == (calls,) * 4
    assert counts["refused"] >= calls * (ANSWERS_PER_CALL // 2 - 1)


async def test_only_the_stored_answer_emits_events(address: str) -> None:
    events: list[Any] = []
    async with Runtime(make_ask_tool(), store=address) as one, Runtime(make_ask_tool(), store=address) as other:
        for runtime in (one, other):
            runtime.listen(events.append)
        ids = [pending_call_id(await one.call("ask")) for _ in range(10)]
        events.clear()
        for each in ids:
            await asyncio.gather(*(runtime.settle(each, number) for number, runtime in enumerate((one, other))))

    settled = [event.call_id for event in events if isinstance(event, CallSettled)]
    resumed = [event.call_id for event in events if isinstance(event, CallResumed)]
    assert settled == resumed == ids


@pytest.mark.parametrize("answers", [1_000, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(85)])])
async def test_answers_of_strangers_are_all_refused_and_all_in_the_audit(address: str, answers: int) -> None:
    bank, choice = Bank(), random.Random(7)
    async with Runtime(bank, make_ask_tool(), store=address) as runtime:
        ann = runtime.scope(user="ann", session="s1")
        ids = [pending_call_id(await ann.call("transfer", {"amount": 1})), pending_call_id(await ann.call("ask"))]
        strangers: list[Any] = [
            runtime.scope(user="eve"),
            runtime.scope(user="eve", session="s1"),
            runtime.scope(user="ann", session="s2"),
            runtime.scope(session="s2"),
        ]

        async def attempt() -> Any:
            stranger, call_id = choice.choice(strangers), choice.choice(ids)
            verb = choice.choice(["approve", "reject", "settle"])
            return await getattr(stranger, verb)(call_id)

        outcomes = await asyncio.gather(*(attempt() for _ in range(answers)))
        waits = await runtime.pending()
        [audit] = await read_rows(runtime, "SELECT count(*) AS refused FROM audit WHERE kind = 'refused'")

    assert all(assert_failed(outcome, "not_found") for outcome in outcomes)
    assert audit["refused"] == answers
    assert sorted(wait.call_id for wait in waits) == sorted(ids)
    assert bank.ran == []


async def test_the_same_id_called_from_everywhere_at_once_runs_once(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as one, Runtime(bank, store=address) as other:
        outcomes = await asyncio.gather(
            *([one, other][n % 2].call("pay", {"amount": 5}, call_id=f"c{n // 20}") for n in range(200))
        )
        final = [await other.call("pay", {"amount": 5}, call_id=f"c{number}") for number in range(10)]

    assert final == [Done("sent 5 to ann")] * 10
    assert len(bank.ran) == 10
    assert sorted(bank.keys) == sorted(f"c{number}" for number in range(10))
    assert all(type(outcome).__name__ in ("Done", "Pending") for outcome in outcomes)


async def test_calls_without_an_id_all_run_however_many_there_are(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as one, Runtime(bank, store=address) as other:
        outcomes = await asyncio.gather(*([one, other][n % 2].call("pay", {"amount": n}) for n in range(200)))
        rows = await read_rows(one, "SELECT state, count(*) AS number FROM ledger GROUP BY state")

    assert [outcome.data for outcome in outcomes if outcome.ok] == [f"sent {n} to ann" for n in range(200)]
    assert [(row["state"], row["number"]) for row in rows] == [("ended", 200)]


async def test_of_many_runtimes_that_detect_a_dead_one_only_one_reports_it(address: str) -> None:
    async with Runtime(Bank(), store=address) as runtime, Store.open(address) as one, Store.open(address) as other:
        for number in range(5):
            await runtime.call("transfer", {"amount": 5}, call_id=f"c{number}")
            await simulate_dead_owner(runtime, f"c{number}", registered=False, state="running")
            await asyncio.gather(*(store.owners.release_dead_owners("") for store in (one, other, one, other)))
        rows = await read_rows(runtime, "SELECT call_id FROM audit WHERE kind = 'recovered' ORDER BY call_id")

    assert [row["call_id"] for row in rows] == [f"c{number}" for number in range(5)]
