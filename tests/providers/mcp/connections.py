"""Opens and closes connections in every way, and runs random tasks: measures what is left and what went wrong."""

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
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from surehand import Done, Runtime, mcp
from surehand.providers.mcp.connection.connection import Connection
from tests.providers.mcp.chaos import BOUND, Chaos, chaos
from tests.providers.mcp.peers import serving
from tests.providers.mcp.peers.friendly import server as friendly
from tests.providers.mcp.steady import Steady
from tests.sandbox.remains import descriptors, gone, marker

Connect = Callable[[random.Random, Path, str], Awaitable[None]]
PARALLEL = 4


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


async def supervisor_killed(dice: random.Random, folder: Path, word: str) -> None:
    """One of the two that look after a server is killed in the middle of a call."""
    async with Runtime(steady(folder, word, dice.choice(["modern", "legacy"]))) as runtime:
        looking_after = psutil.Process(int((await runtime.call("steady__pid")).unwrap())).parents()[:2]
        call = asyncio.create_task(runtime.call("steady__wait", {"text": "x"}))
        await asyncio.sleep(dice.uniform(0, 0.02))
        dice.choice(looking_after).kill()
        assert (await call).code in ("unknown_effect", "unavailable")


def over(reach: Callable[..., Any], url: str) -> Connect:
    async def connect(dice: random.Random, folder: Path, word: str) -> None:
        """A real server; some are left in the middle of a call."""
        provider = reach(url, namespace="web", manifest=False, protocol=dice.choice(["auto", "legacy"]))
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
    """We are killed while twenty calls run, and a server has children in sessions of their own; or while it starts."""
    argv = [sys.executable, "-m", "tests.providers.mcp.peers.hostile_parent", str(folder), word]
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, env={**os.environ, "MARK": word}
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(dice.choice([None, dice.uniform(0.5, 2)])):
            assert await process.stdout.readline() == b"ready\n"
    except TimeoutError:
        pass
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
    with tempfile.TemporaryDirectory(prefix="surehand-connections-") as folder:
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
    """Number of objects of a class that are alive."""
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


def _size() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


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
    print("| connections | number | processes left | descriptors | tasks | objects | KB each | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    async with serving("streamable-http") as http, serving("sse") as sse, serving("websocket") as socket:
        rows: list[tuple[str, Connect, int]] = [
            ("command: called, then closed", plainly, 20),
            ("command: closed during calls", in_the_middle, 14),
            ("command: closed while it starts", while_starting, 10),
            ("command: killed with SIGKILL", killed, 12),
            ("command: one of its supervisors killed with SIGKILL", supervisor_killed, 6),
            ("HTTP: closed during a call", over(mcp.http, f"http://127.0.0.1:{http}/mcp"), 10),
            ("SSE: closed during a call", over(mcp.sse, f"http://127.0.0.1:{sse}/sse"), 8),
            ("WebSocket: closed during a call", over(mcp.websocket, f"ws://127.0.0.1:{socket}/mcp"), 8),
            ("object in this process: called, then closed", in_memory, 6),
            ("commands: the whole program killed with SIGKILL", parent_killed, 6),
        ]
        for name, connect, part in rows:
            bad += _print_row(name, await batch(connect, part * share, seed=seed))
    if seconds:
        bad += _print_chaos(await chaos(seconds, seed=seed), seconds)
    return bad


def _print_row(name: str, left: Left) -> bool:
    counted = (left.count, len(left.processes), max(left.descriptors, 0), len(left.tasks), max(left.connections, 0))
    print(f"| {name} | {' | '.join(map(str, counted))} | {left.growth:.1f} | {left.seconds:.1f} |", flush=True)
    for each in [*left.processes, *left.tasks][:10]:
        print("  ", each)
    return not left.nothing


def _print_chaos(seen: Chaos, seconds: float) -> bool:
    print(f"\n| {seconds:g} s of chaos | number |\n|---|---|")
    print(f"| times that everything was closed and reopened | {seen.restarts} |")
    print(f"| errors of cancel scopes and tasks, hanging calls, processes left | {len(seen.wrong)} |")
    print(f"| effects of calls | {len(seen.effects)} |")
    print(f"| effects that happened twice | {len(seen.repeated)} |")
    print(f"| calls that ended as `Done` without their effect | {len(seen.missing)} |")
    for code, count in seen.outcomes.most_common():
        print(f"| calls that ended as `{code}` | {count} |")
    for each in seen.wrong[:20]:
        print("  ", each[:3000])
    return bool(seen.wrong or seen.repeated or seen.missing)


if __name__ == "__main__":
    raise SystemExit(main())
