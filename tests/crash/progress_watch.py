"""Progress watch: tells a process that is stuck from one that is slow, by what changes in the store.

Its unit of time is a round: a short sleep and a read of the store. On a busy machine a round takes longer, and so does
everything that the process waits for: load is never counted as a problem.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from surehand import Runtime
from surehand.store.database import StoreError
from tests.crash.run_log import RunLog

ROUND_SECONDS = 0.25
"""The sleep in a round: as long as the pause between two rounds of the store maintenance."""
STUCK_AFTER_ROUNDS = 80
"""Rounds without a change after which a process is stuck: 20 seconds on a machine with nothing else to do.

A PostgreSQL server that was restarted does not report its dead clients for half of that.
"""
HANG_TIMEOUT_SECONDS = 120.0
"""Time after which a process whose event loop stands still prints its stacks and exits."""

# Each number only grows, and none grows when a call or a run is claimed and released again and again.
_SELECT_PROGRESS = """SELECT (SELECT count(*) FROM ledger) AS calls,
    (SELECT count(*) FROM ledger WHERE state = 'ended') AS ended_calls, (SELECT count(*) FROM pending) AS rounds,
    (SELECT count(*) FROM pending WHERE state <> 'open') AS answered_rounds, (SELECT count(*) FROM runs) AS runs,
    (SELECT count(*) FROM runs WHERE ended_at IS NOT NULL) AS ended_runs, (SELECT count(*) FROM steps) AS steps,
    (SELECT count(*) FROM step_calls WHERE outcome IS NOT NULL) AS outcomes,
    (SELECT count(*) FROM run_messages) AS messages,
    (SELECT count(*) FROM run_messages WHERE step IS NOT NULL) AS given_messages"""
_SELECT_OPEN = {
    "calls": "SELECT call_id, tool, state, owner, fence FROM ledger WHERE state <> 'ended'",
    "rounds": "SELECT call_id, round, waiting_for, request, inner_call, inner_run FROM pending WHERE state = 'open'",
    "runs": "SELECT run_id, state, owner, fence, lease_until - {now} AS lease_left FROM runs WHERE ended_at IS NULL",
    "owners": "SELECT owner, lease_until - {now} AS lease_left FROM owners",
}


def exit_if_event_loop_hangs() -> None:
    """From now on, exit with all stacks in the log unless this is called again in time."""
    faulthandler.dump_traceback_later(HANG_TIMEOUT_SECONDS, exit=True, file=2)


async def watch_progress(
    runtime: Runtime,
    run_log: RunLog,
    work: Awaitable[Any],
    *,
    round_seconds: float = ROUND_SECONDS,
    stuck_after_rounds: int = STUCK_AFTER_ROUNDS,
) -> None:
    """Await the work of a process; cancel it, and record what is open, if the store does not change any more."""
    task = asyncio.ensure_future(work)
    seen: list[Any] = []
    idle_rounds = longest_pause = 0
    while not (await asyncio.wait([task], timeout=round_seconds))[0]:
        exit_if_event_loop_hangs()
        with suppress(StoreError):
            progress = await _read_all(runtime, _SELECT_PROGRESS)
            idle_rounds = idle_rounds + 1 if seen == progress else 0
            seen = progress
        longest_pause = max(longest_pause, idle_rounds)
        if idle_rounds >= stuck_after_rounds:
            await _record_stuck_work(runtime, run_log)
            task.cancel()
            await asyncio.wait([task])
            return
    run_log.note("pauses", longest_pause)
    await task


async def _record_stuck_work(runtime: Runtime, run_log: RunLog) -> None:
    """Write down what has not ended, and in the log where each task stands."""
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)
    sys.stderr.flush()
    open_rows = {name: await _read_all(runtime, sql) for name, sql in _SELECT_OPEN.items()}
    run_log.note("stuck", {"part": run_log.part, "owner": runtime.runtime_id, "pid": os.getpid(), **open_rows})


async def _read_all(runtime: Runtime, sql: str) -> list[Any]:
    assert runtime.store is not None
    return await runtime.store.database.read(sql)
