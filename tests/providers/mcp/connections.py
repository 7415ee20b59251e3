"""Connections made and left in every way, and ten tasks that do as they please: what is left, and what went wrong."""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.providers.mcp.besides import hostile
from tests.providers.mcp.peers import serving
from tests.providers.mcp.peers.friendly import server as friendly
from tests.providers.mcp.steady import Steady, whole_lines
from tests.sandbox.remains import descriptors, gone, marker
from toolwright import Done, Pending, Runtime, mcp
from toolwright.core.outcome import Outcome
from toolwright.providers.mcp import backoff
from toolwright.providers.mcp.connection import Connection

Connect = Callable[[random.Random, Path, str], Awaitable[None]]
PARALLEL = 4
BOUND = 20.0
"""Seconds after which a call counts as hung."""
SCOPES = ("cancel scope", "different task", "never retrieved", "never awaited", "Task was destroyed")


# One connection, from its beginning to its end


def steady(folder: Path, word: str, era: str = "both", **options: Any) -> Any:
    return Steady(folder, era).provider(env={"MARK": word}, **options)


async def plainly(dice: random.Random, folder: Path, word: str) -> None:
    """Connect, call, leave."""
    async with Runtime(steady(folder, word, dice.choice(["modern", "legacy"]))) as runtime:
        assert await runtime.call("steady__echo", {"text": "x"}) == Done("x")


async def in_the_middle(dice: random.Random, folder: Path, word: str) -> None:
    """Leave while calls are in flight."""
    async with Runtime(steady(folder, word, dice.choice(["modern", "legacy"]))) as runtime:
        calls = [asyncio.create_task(runtime.call("steady__wait", {"text": str(n)})) for n in range(5)]
        await asyncio.sleep(dice.uniform(0, 0.02))
    for outcome in await asyncio.gather(*calls):
        assert outcome.code in ("cancelled", "unknown_effect", "unavailable"), outcome


async def while_starting(dice: random.Random, folder: Path, word: str) -> None:
    """Be cancelled before it is up."""
    with suppress(TimeoutError):
        async with asyncio.timeout(dice.uniform(0, 0.15)):
            async with Runtime(steady(folder, word, start_timeout=None)):
                pass


async def killed(dice: random.Random, folder: Path, word: str) -> None:
    """The server is killed in the middle of a call, or between two."""
    async with Runtime(steady(folder, word, dice.choice(["modern", "legacy"]))) as runtime:
        number = int((await runtime.call("steady__pid")).unwrap())
        call = asyncio.create_task(runtime.call("steady__wait", {"text": "x"}))
        await asyncio.sleep(dice.uniform(0, 0.02))
        os.kill(number, signal.SIGKILL)
        if dice.random() < 0.5:
            outcome = await runtime.call("steady__echo", {"text": "x"})
            assert outcome.ok or outcome.code in ("unknown_effect", "unavailable"), outcome
    assert (await call).code in ("unknown_effect", "cancelled", "unavailable")


def over_http(url: str) -> Connect:
    async def connect(dice: random.Random, folder: Path, word: str) -> None:
        """A real server; some are left in the middle of a call."""
        provider = mcp.http(url, namespace="web", manifest=False, protocol=dice.choice(["auto", "legacy"]))
        async with Runtime(provider) as runtime:
            assert (await runtime.call("web__echo", {"text": "x"})).ok
            call = asyncio.create_task(runtime.call("web__hang"))
            await asyncio.sleep(dice.uniform(0, 0.02))
        assert (await call).code in ("cancelled", "unknown_effect", "unavailable")

    return connect


async def in_memory(dice: random.Random, folder: Path, word: str) -> None:
    """A server object in this process."""
    protocol = dice.choice(["auto", "legacy"])
    async with Runtime(mcp.server(friendly("memory"), namespace="memory", protocol=protocol)) as runtime:
        assert (await runtime.call("memory__echo", {"text": "x"})).ok


async def parent_killed(dice: random.Random, folder: Path, word: str) -> None:
    """We are killed while twenty calls run, and a server has children in sessions of their own."""
    argv = [sys.executable, "-m", "tests.providers.mcp.peers.hostile_parent", str(folder), word]
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, env={**os.environ, "MARK": word}
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"ready\n"
    finally:
        process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # else it is warned of when collected


# Many of them


@dataclass
class Left:
    """What a batch left behind."""

    count: int
    seconds: float
    processes: list[str]
    descriptors: int
    tasks: list[str]
    connections: int
    growth: float
    """Kilobytes of memory for each connection, over the second half."""

    @property
    def nothing(self) -> bool:
        return not (self.processes or self.tasks) and max(self.connections, self.descriptors) <= 0


async def batch(connect: Connect, count: int, *, seed: int = 1, parallel: int = PARALLEL) -> Left:
    """Make and leave so many connections; what is left of them."""
    word, dice = marker(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="toolwright-connections-") as folder:
        await _many(connect, parallel, parallel, dice, Path(folder), word)  # what is loaded once is not counted
        known, before, began, sizes = alive(Connection), descriptors(), time.monotonic(), [_size()]
        for half in (count - count // 2, count // 2):
            await _many(connect, half, parallel, dice, Path(folder), word)
            sizes.append(_size())
        seconds = time.monotonic() - began
        left = await gone(word, BOUND)
    tasks = [str(task) for task in asyncio.all_tasks() - {asyncio.current_task()}]
    opened = len(descriptors()) - len(before)
    growth = (sizes[-1] - sizes[-2]) / 1024 / max(count // 2, 1)
    return Left(count, seconds, left, opened, tasks, alive(Connection) - known, growth)


async def _many(connect: Connect, count: int, parallel: int, dice: random.Random, folder: Path, word: str) -> None:
    for start in range(0, count, parallel):
        seeds = [random.Random(dice.random()) for _ in range(min(parallel, count - start))]
        await asyncio.gather(*(connect(each, Path(tempfile.mkdtemp(dir=folder)), word) for each in seeds))


def alive(kind: type) -> int:
    """How many objects of a class nobody has let go."""
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


def _size() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


# Chaos


@dataclass
class Chaos:
    """What ten tasks met."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """What must never be: errors of scopes, tasks that nobody looked after, calls that hang."""
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
    """A runtime with several servers, which is closed and opened again now and then, by whoever comes along."""

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
    with impatient(), tempfile.TemporaryDirectory(prefix="toolwright-chaos-") as name:
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
    usual, backoff.DELAYS = backoff.DELAYS, (0.0, 0.05, 0.1, 0.2)
    try:
        yield
    finally:
        backoff.DELAYS = usual


@asynccontextmanager
async def watched(seen: Chaos) -> AsyncIterator[None]:
    """Write down what nobody may see: what the loop, the interpreter or a log complains of."""
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
        if any(word in text for word in SCOPES) or (record.name.startswith("toolwright") and record.exc_info):
            self._seen.wrong.append(f"log: {text[:2000]}")


# The table


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/connections", description=__doc__)
    parser.add_argument("--connects", type=int, default=500, help="connections over all rows")
    parser.add_argument("--seconds", type=float, default=60, help="of chaos")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    logging.getLogger().addHandler(logging.NullHandler())
    logging.lastResort = None
    faulthandler.dump_traceback_later(given.connects * 2 + given.seconds + 120, exit=True)
    return 1 if asyncio.run(_table(given.connects, given.seconds, given.seed)) else 0


async def _table(connects: int, seconds: float, seed: int) -> int:
    share, bad = max(connects // 100, 1), 0
    columns = f"{'count':>6} {'processes':>10} {'open':>5} {'tasks':>6} {'kept':>5} {'KB each':>8} {'seconds':>8}"
    print(f"{'connections':22} {columns}")
    async with serving("streamable-http") as port:
        rows: list[tuple[str, Connect, int]] = [
            ("stdio", plainly, 25), ("left in calls", in_the_middle, 20), ("cancelled at start", while_starting, 15),
            ("server killed", killed, 15), ("http", over_http(f"http://127.0.0.1:{port}/mcp"), 13),
            ("in memory", in_memory, 10), ("parent killed", parent_killed, 2),
        ]  # fmt: skip
        for name, connect, part in rows:
            bad += _shown(name, await batch(connect, part * share, seed=seed, parallel=1 if part < 5 else PARALLEL))
    if seconds:
        bad += _told(await chaos(seconds, seed=seed), seconds)
    return bad


def _shown(name: str, left: Left) -> bool:
    counted = f"{left.count:6} {len(left.processes):10} {left.descriptors:5} {len(left.tasks):6} {left.connections:5}"
    print(f"{name:22} {counted} {left.growth:8.1f} {left.seconds:8.1f}", flush=True)
    for each in [*left.processes, *left.tasks][:10]:
        print("  ", each)
    return not left.nothing


def _told(seen: Chaos, seconds: float) -> bool:
    total = sum(seen.outcomes.values())
    print(
        f"\n{seconds:g} s of chaos: {total} outcomes, {seen.restarts} times closed and opened, {len(seen.wrong)} wrong"
    )
    for code, count in seen.outcomes.most_common():
        print(f"  {code:22} {count:6}")
    done, missing = len(seen.done), len(seen.missing)
    print(f"effects: {len(seen.effects)} written, {len(seen.repeated)} twice, {done} done, {missing} missing")
    for each in seen.wrong[:20]:
        print("  ", each[:3000])
    return bool(seen.wrong or seen.repeated or seen.missing)


if __name__ == "__main__":
    raise SystemExit(main())
