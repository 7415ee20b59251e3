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
from tests.providers.mcp.steady import Steady, replace, whole_lines
from tests.sandbox.remains import gone

PEER = Path(__file__).parent / "peers" / "hostile.py"
SOON = 10.0
"""Seconds within which the good server answers: one, and the others for a machine that stands still for a while."""
MEMORY = 200 << 20
"""Bytes that the worst may take meanwhile."""


class Turns:
    """The longest turn of the event loop, in seconds of CPU: what a busy machine adds to it is not ours."""

    longest = 0.0

    def __enter__(self) -> Turns:
        gc.collect()
        gc.freeze()  # nor is it what the collector takes over all that earlier tests have left
        self._loop: Any = asyncio.get_running_loop()
        inner = self._loop._run_once

        def timed() -> None:
            began = time.thread_time()
            inner()
            self.longest = max(self.longest, time.thread_time() - began)

        self._loop._run_once = timed
        return self

    def __exit__(self, *_: object) -> None:
        del self._loop._run_once


@dataclass
class Scene:
    """What a test sees."""

    runtime: Runtime
    folder: Path
    turns: Turns
    slowest: float = 0.0
    memory: int = 0
    answers: int = 0
    _before: int = field(default_factory=lambda: psutil.Process().memory_info().rss)

    async def call(self, tool: str = "bad", /, **arguments: Any) -> Outcome:
        return await self.runtime.call(f"bad__{tool}", arguments)

    async def bad(self, *steps: str | dict[str, Any]) -> Outcome:
        """The bad server takes these steps in place of an answer; text is said as it is."""
        return await self.call(steps=[{"say": step} if isinstance(step, str) else step for step in steps])

    async def well(self) -> bool:
        """Whether the bad server answers as it should."""
        return (await self.call("echo", text="well")).ok

    @property
    def starts(self) -> int:
        return len(whole_lines(self.folder / "starts"))

    @property
    def effects(self) -> list[str]:
        return whole_lines(self.folder / "effects")

    @property
    def heard(self) -> list[dict[str, Any]]:
        """Our answers to its questions."""
        return [json.loads(line) for line in whole_lines(self.folder / "heard")]

    def say(self, said: dict[str, Any]) -> None:
        """What the bad server does from now on instead of answering, by method."""
        replace(self.folder / "said.json", json.dumps(said))

    async def pulse(self) -> None:
        while True:
            began = time.monotonic()
            assert (await self.runtime.call("steady__echo", {"text": "x"})).ok
            self.slowest, self.answers = max(self.slowest, time.monotonic() - began), self.answers + 1
            self.memory = max(self.memory, psutil.Process().memory_info().rss - self._before)
            await asyncio.sleep(0.02)


def hostile(folder: Path, era: str = "legacy", said: dict[str, Any] | None = None, **options: Any) -> Server:
    """The bad server as a provider, named `bad`; `said` is what it does instead of answering, by method."""
    folder.mkdir(exist_ok=True)
    if said is not None:
        (folder / "said.json").write_text(json.dumps(said))
    given = {"namespace": "bad", "manifest": False, "timeout": 60, "env": {"MARK": str(folder)}, **options}
    return mcp.stdio(sys.executable, "-I", "-S", str(PEER), str(folder), era, **given)


@asynccontextmanager
async def beside(
    tmp_path: Path, bad: Server | None = None, *, turn: float = 0.25, **options: Any
) -> AsyncIterator[Scene]:
    """The two, and what must hold whatever the bad one did."""
    folder = tmp_path / "bad"
    good, bad = Steady(tmp_path / "good").provider(), bad or hostile(folder, **options)
    async with Runtime(good) as runtime:
        assert (await runtime.call("steady__echo", {"text": "x"})).ok
        with Turns() as turns:
            scene = Scene(runtime, folder, turns)
            pulse = asyncio.create_task(scene.pulse())
            try:
                await runtime.add(bad)
                yield scene
                async with asyncio.timeout(SOON):
                    assert (await runtime.call("steady__echo", {"text": "x"})).ok
            finally:
                pulse.cancel()
                await asyncio.wait({pulse})
        began = time.monotonic()
    assert time.monotonic() - began < SOON, "closing took long"
    assert not await gone(str(tmp_path), SOON)
    assert pulse.cancelled(), pulse.exception()
    assert scene.answers
    assert scene.slowest < SOON
    assert scene.memory < MEMORY
    assert turns.longest < turn
