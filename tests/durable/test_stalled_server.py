"""A PostgreSQL server that stands still: calls, cancellations and `close` return in time, and nothing runs twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from surehand import Runtime, tool
from surehand.store.postgres import database as postgres
from surehand.store.store import Store
from tests.durable.conftest import new_address
from tests.stallable_proxy import StallableProxy, proxied

pytestmark = pytest.mark.timeout(30)
IN_TIME_SECONDS = 8.0
"""Far more than anything here takes, and far less than the limits that held before."""


@pytest.fixture
def server_address(request: pytest.FixtureRequest, tmp_path) -> str:
    return new_address("postgres", request, tmp_path)


class Bank:
    """A runtime on a proxied server, and the payments that really happened."""

    def __init__(self, runtime: Runtime, proxy: StallableProxy, payments: list[int]) -> None:
        self.runtime = runtime
        self.proxy = proxy
        self.payments = payments


@asynccontextmanager
async def open_bank(server_address: str, *, stalls_while_paying: bool = False) -> AsyncIterator[Bank]:
    payments: list[int] = []
    async with proxied(server_address) as (address, proxy):

        @tool
        async def pay(amount: int) -> str:
            """Pay an amount."""
            payments.append(amount)
            if stalls_while_paying and amount == 13:
                proxy.stall()
            return f"paid {amount}"

        runtime = Runtime(pay, store=address)
        await runtime.__aenter__()
        try:
            yield Bank(runtime, proxy, payments)
        finally:
            proxy.resume()
            await runtime.close()


async def states(address: str) -> dict[str, str]:
    """The state of every call, once none is claimed any more."""
    async with Store.open(address) as store:
        while True:
            rows = await store.database.read("SELECT call_id, state FROM ledger")
            found = {row["call_id"]: row["state"] for row in rows}
            if "running" not in found.values():
                return found
            await asyncio.sleep(0.05)


async def test_a_call_with_a_timeout_returns_in_time_and_has_not_run(server_address):
    async with open_bank(server_address) as bank:
        assert (await bank.runtime.call("pay", {"amount": 1}, call_id="first")).ok
        bank.proxy.stall()

        async with asyncio.timeout(IN_TIME_SECONDS):
            outcome = await bank.runtime.call("pay", {"amount": 2}, timeout=0.5)

        assert (outcome.code, outcome.executed) == ("timed_out", False)
        assert bank.payments == [1]


async def test_a_cancelled_call_returns_in_time(server_address):
    async with open_bank(server_address) as bank:
        bank.proxy.stall()
        task = asyncio.create_task(bank.runtime.call("pay", {"amount": 2}))
        await asyncio.sleep(0.1)

        task.cancel()
        async with asyncio.timeout(IN_TIME_SECONDS):
            await asyncio.wait([task])

        assert task.cancelled()
        assert bank.payments == []


async def test_closing_returns_in_time_although_a_call_is_running(server_address):
    async with open_bank(server_address) as bank:
        bank.proxy.stall()
        task = asyncio.create_task(bank.runtime.call("pay", {"amount": 2}))
        await asyncio.sleep(0.1)

        async with asyncio.timeout(IN_TIME_SECONDS):
            await bank.runtime.close()
            outcome = await task

        assert (outcome.code, outcome.executed) == ("cancelled", False)


async def test_a_call_without_a_timeout_ends_as_unavailable(server_address, monkeypatch):
    monkeypatch.setattr(postgres, "WRITE_LIMIT_SECONDS", 0.5)
    async with open_bank(server_address) as bank:
        bank.proxy.stall()

        async with asyncio.timeout(IN_TIME_SECONDS):
            outcome = await bank.runtime.call("pay", {"amount": 2})

        assert (outcome.code, outcome.executed) == ("unavailable", False)
        assert "did not reply" in outcome.message
        assert bank.payments == []


async def test_a_call_whose_outcome_got_no_reply_is_in_doubt_and_never_runs_again(server_address):
    async with open_bank(server_address, stalls_while_paying=True) as bank:
        async with asyncio.timeout(IN_TIME_SECONDS):
            outcome = await bank.runtime.call("pay", {"amount": 13}, call_id="doubtful", timeout=1)

        assert outcome.executed
        bank.proxy.resume()
        async with asyncio.timeout(IN_TIME_SECONDS):
            assert (await states(server_address)) == {"doubtful": "ended"}
        again = await bank.runtime.call("pay", {"amount": 13}, call_id="doubtful")
        assert again.data == "paid 13"
        assert bank.payments == [13]


async def test_a_claim_that_got_no_reply_leaves_no_call_running_when_the_server_is_back(server_address):
    async with open_bank(server_address) as bank:
        bank.proxy.stall()
        outcomes = await asyncio.gather(
            bank.runtime.call("pay", {"amount": 1}, timeout=0.3),
            bank.runtime.call("pay", {"amount": 2}, timeout=0.3, call_id="given"),
        )
        assert {outcome.code for outcome in outcomes} == {"timed_out"}

        bank.proxy.resume()
        async with asyncio.timeout(IN_TIME_SECONDS):
            await states(server_address)
            again = await bank.runtime.call("pay", {"amount": 2}, call_id="given")

        assert again.data == "paid 2"
        assert bank.payments == [2]


async def test_a_caller_that_waits_for_a_new_connection_takes_one_that_becomes_free(server_address):
    async with proxied(server_address) as (address, proxy):
        database = await postgres.PostgresDatabase(address, max_connections=2).open()
        opened = proxy.connection_count
        slow = asyncio.create_task(database.read("SELECT pg_sleep(0.2)"))
        await asyncio.sleep(0.05)
        proxy.hold_new_connections()

        async with asyncio.timeout(IN_TIME_SECONDS):
            rows = await database.read("SELECT 1 AS one")

        assert rows == [{"one": 1}]
        assert proxy.connection_count == opened + 1, "a new connection was tried, and the idle one was used"
        await slow
        await database.close()
