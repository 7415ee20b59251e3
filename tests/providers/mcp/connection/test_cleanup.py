"""Closed connections leave nothing behind: no process, descriptor, task or memory."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from surehand import Runtime
from tests.providers.mcp.chaos import chaos
from tests.providers.mcp.connections import (
    Connect,
    batch,
    in_memory,
    in_the_middle,
    killed,
    parent_killed,
    plainly,
    supervisor_killed,
    while_starting,
)
from tests.providers.mcp.steady import Steady, until

pytestmark = pytest.mark.timeout(60)  # dozens of processes start


@pytest.mark.parametrize(
    ("connect", "count"),
    [
        *((each, 2) for each in (plainly, in_the_middle, while_starting, killed, supervisor_killed, in_memory)),
        *(pytest.param(each, 12, marks=pytest.mark.long) for each in (plainly, in_the_middle, while_starting, killed)),
    ],
)
async def test_many_connections_leave_nothing_behind(connect: Connect, count: int) -> None:
    left = await batch(connect, count, parallel=min(count, 4))

    assert left.processes == []
    assert left.tasks == []
    assert left.descriptors <= 0
    assert left.connections <= 0


@pytest.mark.long
async def test_killing_this_process_during_calls_leaves_no_server_process(tmp_path: Path) -> None:
    left = await batch(parent_killed, 1, parallel=1)

    assert left.processes == []


@pytest.mark.long
async def test_ten_random_tasks_cause_no_scope_errors_and_no_repeated_effects() -> None:
    seen = await chaos(2.0, seed=7)

    assert seen.wrong == []
    assert seen.repeated == []
    assert seen.missing == []
    assert seen.done


async def test_a_closed_runtime_is_garbage_collected_with_its_servers(steady: Steady) -> None:
    provider = steady.provider()
    async with Runtime(provider) as runtime:
        assert (await runtime.call("steady__echo", {"text": "x"})).ok
        held = [weakref.ref(each) for each in (runtime, provider, *provider.connections)]
    del runtime, provider

    def forgotten() -> bool:
        gc.collect()
        return [each() for each in held] == [None] * 3

    await until(forgotten)  # the loop may still have to hear that a process has ended
