"""A shared limit holds over processes, even if one of them is killed or stopped while it holds slots."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from psycopg import Error as Lost

from surehand import Context, Done, Queue, Runtime, Store, tool
from surehand.runtime.maintenance import store_maintenance
from surehand.store.postgres import pool as postgres_pool
from surehand.store.tables import owners
from tests.durable.bank_tools import assert_failed, ledger_state, read_rows, wait_until
from tests.durable.conftest import new_address

pytestmark = pytest.mark.timeout(60)  # processes start, and the first test on PostgreSQL starts the server
CALLS, LIMIT = 800, 4
ENDLESS = 0
"""A call that the process that is killed would never end."""


class Note(NamedTuple):
    """What a call in some process wrote down."""

    what: str
    pid: int
    number: int
    at: int


def notes_in(log: Path) -> list[Note]:
    """Of a line over the end of a page, half may be seen, and be left where its process was killed just then."""
    lines = [line for line in log.read_text().splitlines() if line.endswith(" ;")] if log.exists() else []
    rows = [line.split() for line in lines]
    return [Note(what, int(pid), int(number), int(at)) for what, pid, number, at, _ in rows]


def running(notes: list[Note], pid: int) -> set[int]:
    """The calls of a process that have started and not ended."""
    mine = [note for note in notes if note.pid == pid]
    return {note.number for note in mine if note.what == "start"} - {n.number for n in mine if n.what == "end"}


def most_at_once(notes: list[Note], dead: int, died_at: int) -> int:
    """Calls of the process that was killed end there."""
    cut = [Note("end", dead, number, died_at) for number in running(notes, dead)]
    inside = peak = 0
    for note in sorted([*notes, *cut], key=lambda note: (note.at, note.what != "end")):
        inside += 1 if note.what == "start" else -1
        peak = max(peak, inside)
    return peak


def shares(processes: int) -> list[list[int]]:
    return [list(range(CALLS))[number::processes] for number in range(processes)]


async def kill_in_the_middle(process: Any, pid: int, log: Path) -> int:
    """Stop it in the middle of its calls, of which one never ends, then kill it; gives when its calls ended."""
    await wait_until(
        lambda: ENDLESS in running(notes := notes_in(log), pid) and sum(note.pid == pid for note in notes) > 60
    )
    process.signal(signal.SIGSTOP)
    await wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    at = time.monotonic_ns()
    await process.kill()
    return at


@pytest.mark.long
async def test_a_shared_limit_holds_over_processes_and_survives_a_kill(
    address: str, child: Any, tmp_path: Path
) -> None:
    log, parts = tmp_path / "notes", shares(3 if address.startswith("postgres") else 2)

    def start(numbers: list[int], *endless: str) -> Any:
        return child("work", address, str(log), ",".join(map(str, numbers)), *endless)

    async with AsyncExitStack() as stack:
        starts = [start(parts[0], str(ENDLESS)), *map(start, parts[1:])]
        processes = [await stack.enter_async_context(each) for each in starts]
        pids = [(await process.read_message())["pid"] for process in processes]
        for process in processes:
            process.resume()
        died_at = await kill_in_the_middle(processes[0], pids[0], log)
        ended = {note.number for note in notes_in(log) if note.what == "end"}
        left = [number for number in parts[0] if number not in ended]
        replacement = await stack.enter_async_context(start(left))
        await replacement.read_message()
        replacement.resume()
        told = [await process.read_message() for process in (*processes[1:], replacement)]
        async with Store.open(address) as store:
            await wait_until(lambda: _is_empty(store))

    notes = notes_in(log)
    assert running(notes, pids[0])
    assert most_at_once(notes, pids[0], died_at) == LIMIT
    assert {note.number for note in notes if note.what == "end"} == set(range(CALLS))
    assert [told["done"] for told in told] == [*(len(numbers) for numbers in parts[1:]), len(left)], told
    assert len(Counter(note.pid for note in notes)) == len(pids) + 1


async def _is_empty(store: Store) -> bool:
    return await store.database.read("SELECT * FROM slots") == []


async def test_a_process_that_is_stopped_beyond_its_lease_loses_its_slot_and_cannot_overwrite(
    address: str, child: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_maintenance, "SEAL_INTERVAL_SECONDS", 0.05)

    @tool(queue="narrow", effects={"write"})
    async def pay(ctx: Context, amount: int) -> str:
        """Pay money."""
        return f"paid {amount}"

    queues = {"narrow": Queue(concurrent=1, shared=True)}
    async with child("pause", address, "c1") as process, Runtime(pay, store=address, queues=queues) as runtime:
        await process.read_message()
        process.signal(signal.SIGSTOP)
        taken = await read_rows(runtime, "SELECT owner FROM slots")
        monkeypatch.setattr(
            owners, "LEASE_SECONDS", 0.4
        )  # until now it would have been waited for much longer than its lease
        came_back = await runtime.call("pay", {"amount": 6}, call_id="c2")
        await wait_until(lambda: _is(runtime, "c1", "unknown"))
        unknown = await runtime.call("pay", {"amount": 5}, call_id="c1")
        settled = await runtime.settle("c1", "settled by hand")
        process.signal(signal.SIGCONT)
        process.resume()
        late = await process.read_message()
        recalled = await runtime.call("pay", {"amount": 5}, call_id="c1")
        async with Store.open(address) as store:
            await wait_until(lambda: _is_empty(store))
        again = await runtime.call("pay", {"amount": 7})

    assert len(taken) == 1
    assert came_back == Done("paid 6")
    assert_failed(unknown, "unknown_effect")
    assert settled == recalled == Done("settled by hand")
    assert late == {"outcome": "settled by hand", "in_use": 0}
    assert again == Done("paid 7")


async def _is(runtime: Runtime, call_id: str, expected: str) -> bool:
    return await ledger_state(runtime, call_id) == expected


async def test_a_call_that_runs_longer_than_a_lease_keeps_its_slot(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "LEASE_SECONDS", 1.5)
    monkeypatch.setattr(store_maintenance, "SEAL_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(store_maintenance, "MAINTENANCE_INTERVAL_SECONDS", 0.05)
    started, gate = asyncio.Event(), asyncio.Event()

    @tool(queue="narrow", effects={"read"})
    async def work() -> str:
        """Work for long."""
        started.set()
        await gate.wait()
        return "done"

    queues = {"narrow": Queue(concurrent=1, shared=True)}
    options: dict[str, Any] = {"store": address, "queues": queues}
    async with Runtime(work, **options) as here, Runtime(work, **options) as other:
        working = asyncio.create_task(here.call("work"))
        await started.wait()
        waiting = asyncio.create_task(other.call("work"))
        await asyncio.sleep(3)  # one who gave no sign of life would be given up after one and a half leases
        assert len(await read_rows(here, "SELECT * FROM slots")) == 1
        assert not waiting.done()
        assert other.queues()["narrow"].in_use == other.queues()["narrow"].waiting == 1
        gate.set()

        assert await working == await waiting == Done("done")


async def test_a_process_that_is_cut_off_during_a_write_does_not_block_others_for_long(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = new_address("postgres", request, tmp_path)

    @tool(queue="narrow", effects={"read"})
    async def work() -> str:
        """Work."""
        return "done"

    async with Runtime(work, store=address, queues={"narrow": Queue(concurrent=1, shared=True)}) as runtime:
        await runtime.call("work")
        pool = postgres_pool.PostgresPool(address, 1)
        with monkeypatch.context() as soon:
            soon.setattr(postgres_pool, "CONNECTION_TIMEOUT_SECONDS", 0.3)
            await pool.open()
        async with pool.connection() as silent:
            await silent.execute("BEGIN; UPDATE queues SET lock_count = lock_count + 1")
            outcome = await runtime.call("work")
            with pytest.raises(Lost, match=r"idle-in-transaction|closed"):
                await silent.execute("COMMIT")
        await pool.close()

    assert outcome == Done("done")
