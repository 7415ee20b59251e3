"""Ten tasks that act at random on servers of every kind, and the errors that must never happen."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surehand import Done, Pending, Runtime, mcp
from surehand.core.outcome import Outcome
from surehand.providers.mcp.connection import backoff
from tests.providers.mcp.hostile_runtime import hostile_provider
from tests.providers.mcp.peers import friendly_http_server
from tests.providers.mcp.steady_server import SteadyServer, read_whole_lines
from tests.sandbox.remains import gone, marker

HANG_TIMEOUT_SECONDS = 20.0
"""Time after which a call counts as hanging, and a process as left behind."""
FATAL_PHRASES = ("cancel scope", "different task", "never retrieved", "never awaited", "Task was destroyed")


@dataclass
class ChaosResults:
    """What the tasks observed."""

    outcomes: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    """Errors that must never happen: errors of cancel scopes, unawaited tasks, hanging calls."""
    done: set[str] = field(default_factory=set)
    """Effects whose call ended as done."""
    effects: Counter[str] = field(default_factory=Counter)
    """Effects that the servers recorded."""
    restarts: int = 0

    @property
    def repeated(self) -> list[str]:
        return [name for name, times in self.effects.items() if times > 1]

    @property
    def missing(self) -> list[str]:
        return sorted(self.done - self.effects.keys())


class ChaosRuntime:
    """A runtime with several servers, which the tasks close and reopen at random."""

    def __init__(self, folder: Path, word: str, url: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.word = word
        self.url = url
        self.changing = asyncio.Lock()
        self.runtime = self._make_runtime()

    def _make_runtime(self) -> Runtime:
        folder, word = self.folder, self.word
        modern = SteadyServer(folder / "modern", "modern").provider(namespace="modern", env={"MARK": word}, timeout=2)
        legacy = SteadyServer(folder / "legacy", "legacy").provider(namespace="legacy", env={"MARK": word}, timeout=2)
        bad = hostile_provider(folder / "bad", timeout=0.5, start_timeout=5)
        web = mcp.http(self.url, namespace="web", manifest=False, timeout=2)
        return Runtime(modern, legacy, bad, web)

    async def reopen(self) -> None:
        async with self.changing:
            await self.runtime.close()
            await self.runtime.__aenter__()

    def pids(self) -> list[int]:
        started = [read_whole_lines(self.folder / name / "starts") for name in ("modern", "legacy", "bad")]
        return [int(numbers[-1]) for numbers in started if numbers]


async def run_chaos(seconds: float, *, seed: int = 1, tasks: int = 10, runtimes: int = 2) -> ChaosResults:
    """Ten tasks call, cancel, kill, close and open at random."""
    results, word = ChaosResults(), marker()
    gc.collect()  # collect the garbage of earlier tests, which must not be reported here
    with short_backoff(), tempfile.TemporaryDirectory(prefix="surehand-chaos-") as name:
        folder = Path(name)
        async with (
            record_errors(results),
            friendly_http_server("streamable-http", FRIENDLY_NOTES=str(folder / "notes"), MARK=word) as port,
        ):
            url = f"http://127.0.0.1:{port}/mcp"
            members = [ChaosRuntime(folder / str(n), word, url) for n in range(runtimes)]
            await asyncio.gather(*(member.runtime.__aenter__() for member in members))
            deadline = time.monotonic() + seconds
            await asyncio.gather(
                *(_act_until(random.Random(f"{seed} {n}"), members, results, deadline, n) for n in range(tasks))
            )
            await asyncio.gather(*(member.runtime.close() for member in members))
        results.errors += [f"left: {each}" for each in await gone(word, HANG_TIMEOUT_SECONDS)]
        results.errors += [f"left: {task}" for task in asyncio.all_tasks() - {asyncio.current_task()}]
        for file in [*folder.glob("*/*/effects"), *folder.glob("notes")]:
            results.effects.update(line for line in file.read_text().split() if line.startswith("e-"))
    return results


async def _act_until(
    generator: random.Random, runtimes: list[ChaosRuntime], results: ChaosResults, deadline: float, number: int
) -> None:
    step = 0
    while time.monotonic() < deadline:
        step += 1
        await asyncio.sleep(generator.uniform(0, 0.02))
        member, name = generator.choice(runtimes), f"e-{number}-{step}"
        try:
            async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
                await _act_once(generator, member, results, name)
        except TimeoutError:
            results.errors.append(f"{name} hangs")
        except Exception as error:  # noqa: BLE001 - recorded as an outcome
            results.outcomes[type(error).__name__] += 1
            if any(word in str(error) for word in FATAL_PHRASES):
                results.errors.append(repr(error))


async def _act_once(generator: random.Random, member: ChaosRuntime, results: ChaosResults, name: str) -> None:
    era = generator.choice(["modern", "legacy"])
    match generator.choices(range(9), [40, 10, 10, 12, 2, 4, 8, 1, 1])[0]:
        case 0:
            tool = generator.choice(["modern__effect", "legacy__effect", "bad__effect", "web__note"])
            outcome = await _count_outcome(member.runtime.call(tool, {"text": name}), results)
            if isinstance(outcome, Done):
                results.done.add(name)
        case 1:
            await _call_and_cancel(generator, member, f"{era}__wait", {"text": name}, results)
        case 2:
            await _call_and_cancel(generator, member, f"{era}__steps", {"count": 100, "seconds": 0.01}, results)
        case 3:
            await _call_and_answer(generator, member, f"{era}__ask", name, results)
        case 4:
            await _count_outcome(member.runtime.call(f"{era}__die", {"text": name}), results)
        case 5:
            await _count_outcome(member.runtime.call("bad__bad", {"steps": generator.choice(HOSTILE_STEPS)}), results)
        case 6:
            await _call_and_cancel(generator, member, "web__hang", {}, results)
        case 7:
            with suppress(ProcessLookupError, IndexError):
                os.kill(generator.choice(member.pids()), signal.SIGKILL)
        case 8:
            results.restarts += 1
            await member.reopen()


HOSTILE_STEPS: list[list[dict[str, Any]]] = [
    [],
    [{"do": "die"}],
    [{"say": "{bad\n", "times": 1000}],
    [{"say": '{"jsonrpc":"2.0","id":$ID,"result":5}\n'}],
    [{"say": '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n', "times": 1000}],
    [{"say": "x" * 1000, "times": 10_000}],
]


async def _count_outcome(call: Awaitable[Outcome], results: ChaosResults) -> Outcome:
    outcome = await call
    results.outcomes[getattr(outcome, "code", None) or type(outcome).__name__] += 1
    return outcome


async def _call_and_cancel(
    generator: random.Random, member: ChaosRuntime, tool: str, given: dict[str, Any], results: ChaosResults
) -> None:
    task = asyncio.create_task(_count_outcome(member.runtime.call(tool, given), results))
    await asyncio.wait({task}, timeout=generator.uniform(0, 0.1))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _call_and_answer(
    generator: random.Random, member: ChaosRuntime, tool: str, name: str, results: ChaosResults
) -> None:
    outcome = await _count_outcome(member.runtime.call(tool, {"text": name}), results)
    if isinstance(outcome, Pending) and generator.random() < 0.7:
        await _count_outcome(
            member.runtime.settle(outcome.call_id, {"action": "accept", "content": {"sure": True}}),
            results,
        )


@contextmanager
def short_backoff() -> Iterator[None]:
    """Shorten the backoff after failures, which would take most of the time."""
    original, backoff.BACKOFF_DELAYS_SECONDS = backoff.BACKOFF_DELAYS_SECONDS, (0.0, 0.05, 0.1, 0.2)
    try:
        yield
    finally:
        backoff.BACKOFF_DELAYS_SECONDS = original


@asynccontextmanager
async def record_errors(results: ChaosResults) -> AsyncIterator[None]:
    """Record complaints of the event loop, the interpreter and the log."""
    loop, root, hook = asyncio.get_running_loop(), logging.getLogger(), sys.unraisablehook
    handler = _Handler(results)
    loop.set_exception_handler(lambda _, context: results.errors.append(f"loop: {context}"))
    sys.unraisablehook = lambda unraisable: results.errors.append(
        f"unraisable: {unraisable.exc_value!r} {unraisable.object!r}"
    )
    root.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
            gc.collect()
            await asyncio.sleep(0)
    finally:
        loop.set_exception_handler(None)
        sys.unraisablehook = hook
        root.removeHandler(handler)


class _Handler(logging.Handler):
    def __init__(self, results: ChaosResults) -> None:
        super().__init__(logging.DEBUG)
        self._seen = results

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage() + (logging.Formatter().formatException(record.exc_info) if record.exc_info else "")
        if any(word in text for word in FATAL_PHRASES) or (record.name.startswith("surehand") and record.exc_info):
            self._seen.errors.append(f"log: {text[:2000]}")
