"""Closed connections leave nothing behind: no process, descriptor, task or memory."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from surehand import Runtime
from tests.providers.mcp.chaos import run_chaos
from tests.providers.mcp.connections import (
    Connect,
    call_and_close,
    call_in_memory,
    close_during_calls,
    close_during_start,
    kill_parent,
    kill_server,
    kill_supervisor,
    run_batch,
)
from tests.providers.mcp.steady_server import SteadyServer, wait_until

pytestmark = pytest.mark.timeout(60)  # dozens of processes start


@pytest.mark.parametrize(
    ("connect", "count"),
    [
        *(
            (each, 2)
            for each in (
                call_and_close,
                close_during_calls,
                close_during_start,
                kill_server,
                kill_supervisor,
                call_in_memory,
            )
        ),
        *(
            pytest.param(each, 12, marks=pytest.mark.long)
            for each in (call_and_close, close_during_calls, close_during_start, kill_server)
        ),
    ],
)
async def test_many_connections_leave_nothing_behind(connect: Connect, count: int) -> None:
    left = await run_batch(connect, count, parallel=min(count, 4))

    assert left.processes == []
    assert left.tasks == []
    assert left.descriptors <= 0
    assert left.connections <= 0


@pytest.mark.long
async def test_killing_this_process_during_calls_leaves_no_server_process(tmp_path: Path) -> None:
    left = await run_batch(kill_parent, 1, parallel=1)

    assert left.processes == []


@pytest.mark.long
async def test_ten_random_tasks_cause_no_scope_errors_and_no_repeated_effects() -> None:
    seen = await run_chaos(2.0, seed=7)

    assert seen.errors == []
    assert seen.repeated == []
    assert seen.missing == []
    assert seen.done


async def test_a_closed_runtime_is_garbage_collected_with_its_servers(steady: SteadyServer) -> None:
    provider = steady.provider()
    async with Runtime(provider) as runtime:
        assert (await runtime.call("steady__echo", {"text": "x"})).ok
        held = [weakref.ref(each) for each in (runtime, provider, *provider.connections)]
    del runtime, provider

    def forgotten() -> bool:
        gc.collect()
        return [each() for each in held] == [None] * 3

    await wait_until(forgotten)  # the loop may still have to hear that a process has ended
