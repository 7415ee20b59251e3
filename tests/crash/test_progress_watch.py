"""The progress watch reports work that is stuck, and none that is only slow."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from surehand import Runtime, tool
from tests.crash.progress_watch import watch_progress
from tests.crash.run_log import RunLog

ROUND_SECONDS = 0.01
ROUNDS = 20


@tool(effects={"write"}, confirm=True)
async def wire(to: str) -> str:
    """Wire money."""
    return f"wired to {to}"


async def test_work_that_changes_nothing_in_the_store_is_stuck(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_log = RunLog(tmp_path)
    async with Runtime(wire, store=str(tmp_path / "store.db")) as runtime:
        await runtime.call("wire", {"to": "bob"}, call_id="wired")
        never = asyncio.Event()

        await watch_progress(runtime, run_log, never.wait(), round_seconds=ROUND_SECONDS, stuck_after_rounds=ROUNDS)

        [stuck] = run_log.lines("stuck")
        assert [call["call_id"] for call in stuck["calls"]] == ["wired"]
        assert (stuck["owner"], stuck["pid"]) == (runtime.runtime_id, os.getpid())
        assert "Stack for <Task" in capfd.readouterr().err


async def test_work_that_changes_something_now_and_then_is_not_stuck(tmp_path: Path) -> None:
    run_log = RunLog(tmp_path)
    async with Runtime(wire, store=str(tmp_path / "store.db")) as runtime:

        async def make_calls() -> None:
            for number in range(5):
                await runtime.call("wire", {"to": "bob"}, call_id=f"wired-{number}")
                await asyncio.sleep(ROUNDS / 4 * ROUND_SECONDS)
            run_log.note("made", 5)

        await watch_progress(runtime, run_log, make_calls(), round_seconds=ROUND_SECONDS, stuck_after_rounds=ROUNDS)

    assert (run_log.lines("made"), run_log.lines("stuck")) == ([5], [])
