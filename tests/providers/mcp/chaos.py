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
from tests.providers.mcp.hostile_scene import hostile
from tests.providers.mcp.peers import serving
from tests.providers.mcp.steady import Steady, whole_lines
from tests.sandbox.remains import gone, marker

BOUND = 20.0
"""Seconds after which a call counts as hung, and a process as left."""
SCOPES = ("cancel scope", "different task", "never retrieved", "never awaited", "Task was destroyed")


@dataclass
class Chaos:
    """What ten tasks met."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Errors that must never happen: errors of cancel scopes, unawaited tasks, hanging calls."""
    done: set[str] = field(default_factory=set)
    """Effects whose call said that they were done."""
    effects: Counter[str] = field(default_factory=Counter)
    """Effects as the servers wrote them down."""
    restarts: int = 0

    @property
    def repeated(self) -> list[str]:
        return [name for name, times in self.effects.items() if times > 1]

    @property
    def missing(self) -> list[str]:
        return sorted(self.done - self.effects.keys())


class Place:
    """A runtime with several servers, which the tasks close and reopen at random."""

    def __init__(self, folder: Path, word: str, url: str) -> None:
        folder.mkdir()
        self.folder, self.word, self.url = folder, word, url
        self.changing = asyncio.Lock()
        self.runtime = self._made()

    def _made(self) -> Runtime:
        folder, word = self.folder, self.word
        modern = Steady(folder / "modern", "modern").provider(namespace="modern", env={"MARK": word}, timeout=2)
        legacy = Steady(folder / "legacy", "legacy").provider(namespace="legacy", env={"MARK": word}, timeout=2)
        bad = hostile(folder / "bad", timeout=0.5, start_timeout=5)
        web = mcp.http(self.url, namespace="web", manifest=False, timeout=2)
        return Runtime(modern, legacy, bad, web)

    async def reopen(self) -> None:
        async with self.changing:
            await self.runtime.close()
            await self.runtime.__aenter__()

    def pids(self) -> list[int]:
        started = [whole_lines(self.folder / name / "starts") for name in ("modern", "legacy", "bad")]
        return [int(numbers[-1]) for numbers in started if numbers]


async def chaos(seconds: float, *, seed: int = 1, tasks: int = 10, places: int = 2) -> Chaos:
    """Ten tasks call, cancel, kill, close and open at random."""
    seen, word = Chaos(), marker()
    gc.collect()  # what others have left is none of its own
    with impatient(), tempfile.TemporaryDirectory(prefix="surehand-chaos-") as name:
        folder = Path(name)
        async with watched(seen), serving("streamable-http", FRIENDLY_NOTES=str(folder / "notes"), MARK=word) as port:
            url = f"http://127.0.0.1:{port}/mcp"
            all_places = [Place(folder / str(n), word, url) for n in range(places)]
            await asyncio.gather(*(place.runtime.__aenter__() for place in all_places))
            until = time.monotonic() + seconds
            await asyncio.gather(
                *(_roam(random.Random(f"{seed} {n}"), all_places, seen, until, n) for n in range(tasks))
            )
            await asyncio.gather(*(place.runtime.close() for place in all_places))
        seen.wrong += [f"left: {each}" for each in await gone(word, BOUND)]
        seen.wrong += [f"left: {task}" for task in asyncio.all_tasks() - {asyncio.current_task()}]
        for file in [*folder.glob("*/*/effects"), *folder.glob("notes")]:
            seen.effects.update(line for line in file.read_text().split() if line.startswith("e-"))
    return seen


async def _roam(dice: random.Random, places: list[Place], seen: Chaos, until: float, number: int) -> None:
    step = 0
    while time.monotonic() < until:
        step += 1
        await asyncio.sleep(dice.uniform(0, 0.02))
        place, name = dice.choice(places), f"e-{number}-{step}"
        try:
            async with asyncio.timeout(BOUND):
                await _one(dice, place, seen, name)
        except TimeoutError:
            seen.wrong.append(f"{name} hangs")
        except Exception as error:  # noqa: BLE001 - it is looked at
            seen.outcomes[type(error).__name__] += 1
            if any(word in str(error) for word in SCOPES):
                seen.wrong.append(repr(error))


async def _one(dice: random.Random, place: Place, seen: Chaos, name: str) -> None:
    era = dice.choice(["modern", "legacy"])
    match dice.choices(range(9), [40, 10, 10, 12, 2, 4, 8, 1, 1])[0]:
        case 0:
            tool = dice.choice(["modern__effect", "legacy__effect", "bad__effect", "web__note"])
            outcome = await _count(place.runtime.call(tool, {"text": name}), seen)
            if isinstance(outcome, Done):
                seen.done.add(name)
        case 1:
            await _cancelled(dice, place, f"{era}__wait", {"text": name}, seen)
        case 2:
            await _cancelled(dice, place, f"{era}__steps", {"count": 100, "seconds": 0.01}, seen)
        case 3:
            await _asked(dice, place, f"{era}__ask", name, seen)
        case 4:
            await _count(place.runtime.call(f"{era}__die", {"text": name}), seen)
        case 5:
            await _count(place.runtime.call("bad__bad", {"steps": dice.choice(MISCHIEF)}), seen)
        case 6:
            await _cancelled(dice, place, "web__hang", {}, seen)
        case 7:
            with suppress(ProcessLookupError, IndexError):
                os.kill(dice.choice(place.pids()), signal.SIGKILL)
        case 8:
            seen.restarts += 1
            await place.reopen()


MISCHIEF: list[list[dict[str, Any]]] = [
    [],
    [{"do": "die"}],
    [{"say": "{bad\n", "times": 1000}],
    [{"say": '{"jsonrpc":"2.0","id":$ID,"result":5}\n'}],
    [{"say": '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n', "times": 1000}],
    [{"say": "x" * 1000, "times": 10_000}],
]


async def _count(call: Awaitable[Outcome], seen: Chaos) -> Outcome:
    outcome = await call
    seen.outcomes[getattr(outcome, "code", None) or type(outcome).__name__] += 1
    return outcome


async def _cancelled(dice: random.Random, place: Place, tool: str, given: dict[str, Any], seen: Chaos) -> None:
    task = asyncio.create_task(_count(place.runtime.call(tool, given), seen))
    await asyncio.wait({task}, timeout=dice.uniform(0, 0.1))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _asked(dice: random.Random, place: Place, tool: str, name: str, seen: Chaos) -> None:
    outcome = await _count(place.runtime.call(tool, {"text": name}), seen)
    if isinstance(outcome, Pending) and dice.random() < 0.7:
        await _count(place.runtime.settle(outcome.call_id, {"action": "accept", "content": {"sure": True}}), seen)


@contextmanager
def impatient() -> Iterator[None]:
    """Broken servers are left alone for moments only: else most of the time would be spent waiting."""
    usual, backoff.BACKOFF_DELAYS_SECONDS = backoff.BACKOFF_DELAYS_SECONDS, (0.0, 0.05, 0.1, 0.2)
    try:
        yield
    finally:
        backoff.BACKOFF_DELAYS_SECONDS = usual


@asynccontextmanager
async def watched(seen: Chaos) -> AsyncIterator[None]:
    """Record complaints of the event loop, the interpreter and the log."""
    loop, root, hook = asyncio.get_running_loop(), logging.getLogger(), sys.unraisablehook
    handler = _Handler(seen)
    loop.set_exception_handler(lambda _, context: seen.wrong.append(f"loop: {context}"))
    sys.unraisablehook = lambda unraisable: seen.wrong.append(
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
    def __init__(self, seen: Chaos) -> None:
        super().__init__(logging.DEBUG)
        self._seen = seen

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage() + (logging.Formatter().formatException(record.exc_info) if record.exc_info else "")
        if any(word in text for word in SCOPES) or (record.name.startswith("surehand") and record.exc_info):
            self._seen.wrong.append(f"log: {text[:2000]}")
