"""Attacks on the store: a server and a file that fail in ways that no error reports."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil

from surehand import Runtime, tool
from surehand.store.store import Store
from tests.attack.runner import attack
from tests.postgres_server import start_server
from tests.temp_folders import TEMP_FOLDER_PARENT

IN_TIME_SECONDS = 8.0
HOLD_INTERPRETER = """
import asyncio, sys
from surehand import Runtime, tool

@tool
def work(number: int) -> int:
    "Work."
    return sum(range(60_000_000)) and number  # one call into C, which keeps the GIL

async def main():
    async with Runtime(work, store=sys.argv[1]) as runtime:
        print("ready", flush=True)
        calls = [runtime.call("work", {"number": n}, **({"call_id": f"c{n}"} if n % 2 else {})) for n in range(24)]
        assert all(outcome.ok for outcome in await asyncio.gather(*calls))

asyncio.run(main())
"""


@contextmanager
def paused_server() -> Iterator[tuple[str, Any]]:
    """A server of its own, and a function that pauses or continues all its processes."""
    folder = Path(tempfile.mkdtemp(prefix="surehand-pg-", dir=TEMP_FOLDER_PARENT))
    server = start_server(folder)

    def send(number: int) -> None:
        postmaster = psutil.Process(server.get_pid())
        for process in [postmaster, *postmaster.children(recursive=True)]:
            os.kill(process.pid, number)

    try:
        yield server.get_uri(), send
    finally:
        send(signal.SIGCONT)
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def bank(address: str, payments: list[int]) -> AsyncIterator[Runtime]:
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        payments.append(amount)
        return f"paid {amount}"

    runtime = Runtime(pay, store=address)
    await runtime.__aenter__()
    try:
        yield runtime
    finally:
        await runtime.close()


async def repeat_until_paid(runtime: Runtime, call_id: str, amount: int) -> None:
    for _ in range(100):
        if (await runtime.call("pay", {"amount": amount}, call_id=call_id)).ok:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{call_id} was never paid")


@attack("store", "calls return in time while all processes of PostgreSQL are paused, and none runs twice")
async def pause_server_during_calls(folder: Path) -> str:
    payments: list[int] = []
    longest = 0.0
    with paused_server() as (address, send):
        async with bank(address, payments) as runtime:
            for number in range(5):
                assert (await runtime.call("pay", {"amount": -number}, call_id=f"before {number}")).ok
                send(signal.SIGSTOP)
                started_at = time.monotonic()
                outcomes = await asyncio.gather(
                    *(runtime.call("pay", {"amount": n}, call_id=f"{number}-{n}", timeout=1) for n in range(20))
                )
                longest = max(longest, time.monotonic() - started_at)
                assert not any(outcome.ok for outcome in outcomes)
                send(signal.SIGCONT)
            async with asyncio.timeout(60):
                for number in range(5):
                    for n in range(20):
                        await repeat_until_paid(runtime, f"{number}-{n}", n)
    assert sorted(payments) == sorted([*range(-4, 1), *list(range(20)) * 5]), "a payment was lost or made twice"
    assert longest < IN_TIME_SECONDS, f"a call took {longest:.1f} s"
    return f"longest call with timeout=1: {longest:.1f} s"


@attack("store", "close returns in time while all processes of PostgreSQL are paused")
async def pause_server_and_close(folder: Path) -> str:
    with paused_server() as (address, send):
        async with bank(address, []) as runtime:
            calls = [asyncio.create_task(runtime.call("pay", {"amount": n})) for n in range(50)]
            await asyncio.sleep(0.01)
            send(signal.SIGSTOP)
            started_at = time.monotonic()
            await runtime.close()
            await asyncio.wait(calls)
            seconds = time.monotonic() - started_at
            send(signal.SIGCONT)
    assert seconds < IN_TIME_SECONDS, f"close took {seconds:.1f} s"
    return f"closed in {seconds:.1f} s"


@attack("store", "handlers that keep the interpreter stop no other process on the SQLite file")
def keep_interpreter(folder: Path) -> str:
    path = folder / "store.db"
    holder = subprocess.Popen([sys.executable, "-c", HOLD_INTERPRETER, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    waits: list[float] = []
    while holder.poll() is None:
        started_at = time.monotonic()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        waits.append(time.monotonic() - started_at)
        time.sleep(0.001)
    connection.close()
    holder.stdout.close()
    assert holder.returncode == 0
    assert max(waits) < 0.5, f"another process waited for {max(waits):.2f} s"
    return f"longest wait of another process: {max(waits) * 1000:.0f} ms, in {len(waits):,} attempts"


@attack("store", "no payment is acknowledged in a SQLite file that is deleted, moved or replaced at any moment")
async def replace_file_at_any_moment(folder: Path) -> str:
    acknowledged = 0
    for round_number in range(0, 60, 10):  # a call that ran tries for ten seconds to store its outcome
        path = folder / f"{round_number}.db"
        payments: list[int] = []
        async with bank(str(path), payments) as runtime:
            calls = [asyncio.create_task(runtime.call("pay", {"amount": n}, call_id=f"c{n}")) for n in range(30)]
            await asyncio.sleep(round_number / 10_000)
            before = [task.result() for task in calls if task.done()]
            if round_number % 3 == 0:
                path.unlink()
            elif round_number % 3 == 1:
                path.rename(folder / f"{round_number}.moved")
            else:
                shutil.copy(path, folder / "copy")
                os.replace(folder / "copy", path)
            after = [task for task in calls if not task.done()]
            outcomes = await asyncio.gather(*after)
            assert not any(outcome.ok for outcome in outcomes), "a call was acknowledged after its file was gone"
            acknowledged += len(before)
    return f"{acknowledged} calls ended before their file was gone, and none after"


@attack("store", "a store that is copied at any moment, with its log, can be read where nothing can be written")
async def read_copies(folder: Path) -> str:
    path = folder / "store.db"
    rows = 0
    async with bank(str(path), []) as runtime:
        for number in range(40):
            await asyncio.gather(*(runtime.call("pay", {"amount": n}) for n in range(20)))
            copied = folder / f"copy-{number}"
            copied.mkdir()
            for suffix in ("", "-wal"):
                shutil.copy(f"{path}{suffix}", f"{copied}/store.db{suffix}")
            copied.chmod(0o555)
            async with Store.open(copied / "store.db", read_only=True) as store:
                verification = await store.audit.verify()
            copied.chmod(0o755)
            assert verification.problem is None, verification.problem
            assert verification.rows >= 40 * (number + 1)
            rows = verification.rows
    return f"40 copies, {rows} audit rows in the last"
