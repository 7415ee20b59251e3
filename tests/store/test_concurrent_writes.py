"""Equal writes at the same time are executed in bulk, with the same results as one by one."""

from __future__ import annotations

import asyncio

import pytest

from surehand import Store
from surehand.store.database import StoreError
from surehand.store.tables.ledger import LedgerRow, start_statement

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server
ANONYMOUS, MIXED, ANN = (None, None), ("ann", None), ("ann", "ann")


@pytest.mark.parametrize("count", [3, 8, 11, 37, 200])
@pytest.mark.parametrize("users", [ANONYMOUS, MIXED, ANN], ids=["anonymous", "mixed", "ann"])
async def test_each_row_has_its_own_values(address, users, count):
    given = {f"c{n:03}": (users[n % 2], f"s{n}" if n % 3 else None, n / 2) for n in range(count)}

    async with Store.open(address) as store:
        lines = [
            store.journal.entry_statement("ended", call_id, "work", "ok", user=user, session=session, latency_ms=took)
            for call_id, (user, session, took) in given.items()
        ]
        await asyncio.gather(*[store.journal.append(line) for line in lines])
        found = await store.journal.after()

    assert {each.call_id: (each.user, each.session, each.latency_ms) for each in found} == given
    assert {(each.kind, each.tool, each.status, each.parent) for each in found} == {("ended", "work", "ok", None)}
    assert len({each.cursor for each in found}) == count


async def test_a_write_that_fails_does_not_affect_the_others_of_its_group(address):
    calls = [LedgerRow(f"c{n:02}", "", "work", "", "{}") for n in range(24)]

    async with Store.open(address) as store:
        await store.write([start_statement(calls[13])])
        results = await asyncio.gather(
            *[store.write([start_statement(call)]) for call in calls], return_exceptions=True
        )
        stored = await store.database.read("SELECT call_id FROM ledger ORDER BY call_id")

    assert [number for number, each in enumerate(results) if isinstance(each, StoreError)] == [13]
    assert [row["call_id"] for row in stored] == [call.call_id for call in calls]
