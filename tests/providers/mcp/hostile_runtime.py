"""A runtime with a good and a hostile server: the good one is called all the time while the hostile one misbehaves."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from surehand import Runtime, mcp
from surehand.core.outcome import Outcome
from surehand.providers.mcp import Server
from tests.providers.mcp.steady_server import SteadyServer, read_whole_lines, replace_file
from tests.sandbox.remains import gone

PEER = Path(__file__).parent / "peers" / "hostile_server.py"
ANSWER_TIMEOUT_SECONDS = 10.0
"""Time in which the good server must answer: one second, and the rest for a machine that stalls."""
MAX_MEMORY_BYTES = 200 << 20
"""Memory that the process may allocate during the worst test."""


class LoopTimer:
    """Measures the longest iteration of the event loop in CPU time, which a busy machine does not increase."""

    longest_seconds = 0.0

    def __enter__(self) -> LoopTimer:
        gc.collect()
        gc.freeze()  # garbage collection of earlier tests' objects must not count either
        self._loop: Any = asyncio.get_running_loop()
        run_once = self._loop._run_once

        def run_once_timed() -> None:
            started_at = time.thread_time()
            run_once()
            self.longest_seconds = max(self.longest_seconds, time.thread_time() - started_at)

        self._loop._run_once = run_once_timed
        return self

    def __exit__(self, *_: object) -> None:
        del self._loop._run_once


@dataclass
class HostileRuntime:
    """The runtime, and measurements of the good server."""

    runtime: Runtime
    folder: Path
    loop_timer: LoopTimer
    slowest_seconds: float = 0.0
    memory_bytes: int = 0
    answers: int = 0
    _before: int = field(default_factory=lambda: psutil.Process().memory_info().rss)

    async def call(self, tool: str = "bad", /, **arguments: Any) -> Outcome:
        return await self.runtime.call(f"bad__{tool}", arguments)

    async def misbehave(self, *steps: str | dict[str, Any]) -> Outcome:
        """Let the hostile server take these steps instead of an answer; a text is sent as it is."""
        return await self.call(steps=[{"say": step} if isinstance(step, str) else step for step in steps])

    async def answers_correctly(self) -> bool:
        """Whether the hostile server answers a normal call."""
        return (await self.call("echo", text="well")).ok

    @property
    def starts(self) -> int:
        return len(read_whole_lines(self.folder / "starts"))

    @property
    def effects(self) -> list[str]:
        return read_whole_lines(self.folder / "effects")

    @property
    def received_answers(self) -> list[dict[str, Any]]:
        """Our answers to the hostile server's requests."""
        return [json.loads(line) for line in read_whole_lines(self.folder / "heard")]

    def script(self, steps_by_method: dict[str, Any]) -> None:
        """Set the steps that the hostile server takes instead of an answer, by method."""
        replace_file(self.folder / "said.json", json.dumps(steps_by_method))

    async def call_good_server(self) -> None:
        while True:
            started_at = time.monotonic()
            assert (await self.runtime.call("steady__echo", {"text": "x"})).ok
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started_at)
            self.answers += 1
            self.memory_bytes = max(self.memory_bytes, psutil.Process().memory_info().rss - self._before)
            await asyncio.sleep(0.02)


def hostile_provider(folder: Path, era: str = "legacy", said: dict[str, Any] | None = None, **options: Any) -> Server:
    """The hostile server as a provider, named `bad`; `said` sets its steps instead of an answer, by method."""
    folder.mkdir(exist_ok=True)
    if said is not None:
        (folder / "said.json").write_text(json.dumps(said))
    settings = {"namespace": "bad", "manifest": False, "timeout": 60, "env": {"MARK": str(folder)}, **options}
    return mcp.stdio(sys.executable, "-I", "-S", str(PEER), str(folder), era, **settings)


@asynccontextmanager
async def run_beside_hostile(
    tmp_path: Path, bad: Server | None = None, *, max_iteration_seconds: float = 0.25, **options: Any
) -> AsyncIterator[HostileRuntime]:
    """Run both servers; at the end, check what must hold whatever the hostile one did."""
    folder = tmp_path / "bad"
    good, bad = SteadyServer(tmp_path / "good").provider(), bad or hostile_provider(folder, **options)
    async with Runtime(good) as runtime:
        assert (await runtime.call("steady__echo", {"text": "x"})).ok
        with LoopTimer() as loop_timer:
            hostile_runtime = HostileRuntime(runtime, folder, loop_timer)
            good_calls = asyncio.create_task(hostile_runtime.call_good_server())
            try:
                await runtime.add(bad)
                yield hostile_runtime
                async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                    assert (await runtime.call("steady__echo", {"text": "x"})).ok
            finally:
                good_calls.cancel()
                await asyncio.wait({good_calls})
        started_at = time.monotonic()
    assert time.monotonic() - started_at < ANSWER_TIMEOUT_SECONDS, "closing took too long"
    assert not await gone(str(tmp_path), ANSWER_TIMEOUT_SECONDS)
    assert good_calls.cancelled(), good_calls.exception()
    assert hostile_runtime.answers
    assert hostile_runtime.slowest_seconds < ANSWER_TIMEOUT_SECONDS
    assert hostile_runtime.memory_bytes < MAX_MEMORY_BYTES
    assert loop_timer.longest_seconds < max_iteration_seconds
