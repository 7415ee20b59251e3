"""The table `runs`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from surehand.store.database import Statement
from surehand.store.migrations import open_database
from surehand.store.tables.runs import RunRow, RunTable

pytestmark = pytest.mark.timeout(30)


@asynccontextmanager
async def runs_at(address: str) -> AsyncIterator[RunTable]:
    database = await open_database(address)
    try:
        yield RunTable(database)
    finally:
        await database.close()


async def test_a_run_is_stored_when_it_starts(address):
    async with runs_at(address) as runs:
        run_id = await runs.begin("ada", {"event": "a\0\ud800"}, owner="me")
        run = await runs.find(run_id)

    assert run == RunRow(run_id, "ada", "running", {"event": "a\0\ud800"}, None, "me", run.started_at, None)
    assert run.started_at > 1_700_000_000


@pytest.mark.parametrize("state", ["done", "failed"])
async def test_a_run_ends_once(address, state):
    async with runs_at(address) as runs:
        run_id = await runs.begin("ada", "tick")

        assert await runs.end(run_id, state, {"steps": 3})
        assert not await runs.end(run_id, "done", {"steps": 99})
        run = await runs.find(run_id)

    assert (run.state, run.report) == (state, {"steps": 3})
    assert run.ended_at >= run.started_at


async def test_of_many_callers_that_end_a_run_one_succeeds(address):
    async with runs_at(address) as runs:
        run_id = await runs.begin("ada", "tick")
        results = await asyncio.gather(*(runs.end(run_id, "done", n) for n in range(10)))

        assert sum(results) == 1
        assert (await runs.find(run_id)).report == results.index(True)


async def test_an_unknown_run_is_neither_found_nor_ended(address):
    async with runs_at(address) as runs:
        assert await runs.find("unknown") is None
        assert not await runs.end("unknown", "done")


async def test_the_latest_runs_of_an_agent_come_newest_first(address):
    async with runs_at(address) as runs:
        ids = [await runs.begin("ada", n) for n in range(3)]
        await runs.begin("bob", "other")
        for age, run_id in enumerate(ids):
            change = Statement("UPDATE runs SET started_at = :at WHERE run_id = :id", {"at": age, "id": run_id})
            await runs._database.write([change])

        assert [run.cause for run in await runs.latest("ada", 2)] == [2, 1]
        assert [run.cause for run in await runs.latest("ada")] == [2, 1, 0]
        assert await runs.latest("ada", 0) == await runs.latest("unknown") == []


async def test_only_the_runs_of_dead_owners_are_interrupted(address):
    async with runs_at(address) as runs:
        stuck, alive, ended = [await runs.begin("ada", "tick", owner=owner) for owner in ("dead", "alive", "dead")]
        nobodys = await runs.begin("ada", "tick")
        await runs.end(ended, "done")

        assert await runs.interrupt([]) == 0
        assert await runs.interrupt({"dead", "unknown"}) == 1
        assert await runs.interrupt(["dead"]) == 0
        assert not await runs.end(stuck, "done")
        states = [(await runs.find(run_id)).state for run_id in (stuck, alive, ended, nobodys)]

    assert states == ["interrupted", "running", "done", "running"]
