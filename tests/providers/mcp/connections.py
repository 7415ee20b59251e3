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
from tests.providers.mcp.chaos import HANG_TIMEOUT_SECONDS, ChaosResults, run_chaos
from tests.providers.mcp.peers import friendly_http_server
from tests.providers.mcp.peers.friendly_server import server as friendly
from tests.providers.mcp.steady_server import SteadyServer
from tests.sandbox.remains import descriptors, gone, marker

Connect = Callable[[random.Random, Path, str], Awaitable[None]]
CONCURRENT_CONNECTIONS = 4


# One connection, from start to end


def steady(folder: Path, word: str, era: str = "both", **options: Any) -> Any:
    return SteadyServer(folder, era).provider(env={"MARK": word}, **options)


async def call_and_close(generator: random.Random, folder: Path, word: str) -> None:
    """Connect, call and close."""
    async with Runtime(steady(folder, word, generator.choice(["modern", "legacy"]))) as runtime:
        assert await runtime.call("steady__echo", {"text": "x"}) == Done("x")


async def close_during_calls(generator: random.Random, folder: Path, word: str) -> None:
    """Close the runtime while calls are in flight."""
    async with Runtime(steady(folder, word, generator.choice(["modern", "legacy"]))) as runtime:
        calls = [asyncio.create_task(runtime.call("steady__wait", {"text": str(n)})) for n in range(5)]
        await asyncio.sleep(generator.uniform(0, 0.02))
    for outcome in await asyncio.gather(*calls):
        assert outcome.code in ("cancelled", "unknown_effect", "unavailable"), outcome


async def close_during_start(generator: random.Random, folder: Path, word: str) -> None:
    """Cancel the runtime while it starts."""
    with suppress(TimeoutError):
        async with asyncio.timeout(generator.uniform(0, 0.15)):
            async with Runtime(steady(folder, word, start_timeout=None)):
                pass


async def kill_server(generator: random.Random, folder: Path, word: str) -> None:
    """Kill the server during a call, or between two calls."""
    async with Runtime(steady(folder, word, generator.choice(["modern", "legacy"]))) as runtime:
        number = int((await runtime.call("steady__pid")).unwrap())
        call = asyncio.create_task(runtime.call("steady__wait", {"text": "x"}))
        await asyncio.sleep(generator.uniform(0, 0.02))
        os.kill(number, signal.SIGKILL)
        if generator.random() < 0.5:
            outcome = await runtime.call("steady__echo", {"text": "x"})
            assert outcome.ok or outcome.code in ("unknown_effect", "unavailable"), outcome
    assert (await call).code in ("unknown_effect", "cancelled", "unavailable")


async def kill_supervisor(generator: random.Random, folder: Path, word: str) -> None:
    """Kill one of the two supervisors of a server during a call."""
    async with Runtime(steady(folder, word, generator.choice(["modern", "legacy"]))) as runtime:
        supervisors = psutil.Process(int((await runtime.call("steady__pid")).unwrap())).parents()[:2]
        call = asyncio.create_task(runtime.call("steady__wait", {"text": "x"}))
        await asyncio.sleep(generator.uniform(0, 0.02))
        generator.choice(supervisors).kill()
        assert (await call).code in ("unknown_effect", "unavailable")


def close_during_call_over(reach: Callable[..., Any], url: str) -> Connect:
    async def connect(generator: random.Random, folder: Path, word: str) -> None:
        """Call a server over the network, and close during another call."""
        provider = reach(url, namespace="web", manifest=False, protocol=generator.choice(["auto", "legacy"]))
        async with Runtime(provider) as runtime:
            assert (await runtime.call("web__echo", {"text": "x"})).ok
            call = asyncio.create_task(runtime.call("web__hang"))
            await asyncio.sleep(generator.uniform(0, 0.02))
        assert (await call).code in ("cancelled", "unknown_effect", "unavailable")

    return connect


async def call_in_memory(generator: random.Random, folder: Path, word: str) -> None:
    """Call a server object in this process."""
    protocol = generator.choice(["auto", "legacy"])
    async with Runtime(mcp.server(friendly("memory"), namespace="memory", protocol=protocol)) as runtime:
        assert (await runtime.call("memory__echo", {"text": "x"})).ok


async def kill_parent(generator: random.Random, folder: Path, word: str) -> None:
    """Kill a program with twenty calls and a server whose children have their own sessions, or kill it at its start."""
    argv = [sys.executable, "-m", "tests.providers.mcp.peers.hostile_parent", str(folder), word]
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, env={**os.environ, "MARK": word}
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(generator.choice([None, generator.uniform(0.5, 2)])):
            assert await process.stdout.readline() == b"ready\n"
    except TimeoutError:
        pass
    finally:
        process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # otherwise a ResourceWarning follows at garbage collection


# Many connections


@dataclass
class Leftovers:
    """Everything that a batch of connections left behind."""

    count: int
    seconds: float
    processes: list[str]
    descriptors: int
    tasks: list[str]
    connections: int
    growth: float
    """Kilobytes of memory per connection, over the second half."""

    @property
    def is_empty(self) -> bool:
        return not (self.processes or self.tasks) and max(self.connections, self.descriptors) <= 0


async def run_batch(
    connect: Connect, count: int, *, seed: int = 1, parallel: int = CONCURRENT_CONNECTIONS
) -> Leftovers:
    """Open and close `count` connections, and measure what is left of them."""
    word, generator = marker(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="surehand-connections-") as folder:
        await _open_and_close(
            connect, parallel, parallel, generator, Path(folder), word
        )  # a first round loads what is loaded once, which does not count
        objects_before, descriptors_before, started_at, sizes = (
            count_objects(Connection),
            descriptors(),
            time.monotonic(),
            [_memory_bytes()],
        )
        for half in (count - count // 2, count // 2):
            await _open_and_close(connect, half, parallel, generator, Path(folder), word)
            sizes.append(_memory_bytes())
        seconds = time.monotonic() - started_at
        left = await gone(word, HANG_TIMEOUT_SECONDS)
    tasks = [str(task) for task in asyncio.all_tasks() - {asyncio.current_task()}]
    opened = len(descriptors()) - len(descriptors_before)
    growth = (sizes[-1] - sizes[-2]) / 1024 / max(count // 2, 1)
    return Leftovers(count, seconds, left, opened, tasks, count_objects(Connection) - objects_before, growth)


async def _open_and_close(
    connect: Connect, count: int, parallel: int, generator: random.Random, folder: Path, word: str
) -> None:
    for start in range(0, count, parallel):
        seeds = [random.Random(generator.random()) for _ in range(min(parallel, count - start))]
        await asyncio.gather(*(connect(each, Path(tempfile.mkdtemp(dir=folder)), word) for each in seeds))


def count_objects(kind: type) -> int:
    """Number of live objects of a class."""
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


def _memory_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


# The table


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/connections", description=__doc__)
    parser.add_argument("--connects", type=int, default=500, help="number of connections in all rows together")
    parser.add_argument("--seconds", type=float, default=60, help="duration of the chaos run")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.getLogger().addHandler(logging.NullHandler())
    logging.lastResort = None
    faulthandler.dump_traceback_later(options.connects * 2 + options.seconds + 120, exit=True)
    return 1 if asyncio.run(_print_table(options.connects, options.seconds, options.seed)) else 0


async def _print_table(connects: int, seconds: float, seed: int) -> int:
    connections_per_part, problems = max(connects // 100, 1), 0
    print("| connections | number | processes left | descriptors | tasks | objects | KB each | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    async with (
        friendly_http_server("streamable-http") as http,
        friendly_http_server("sse") as sse,
        friendly_http_server("websocket") as socket,
    ):
        rows: list[tuple[str, Connect, int]] = [
            ("command: called, then closed", call_and_close, 20),
            ("command: closed during calls", close_during_calls, 14),
            ("command: closed while it starts", close_during_start, 10),
            ("command: killed with SIGKILL", kill_server, 12),
            ("command: one of its supervisors killed with SIGKILL", kill_supervisor, 6),
            ("HTTP: closed during a call", close_during_call_over(mcp.http, f"http://127.0.0.1:{http}/mcp"), 10),
            ("SSE: closed during a call", close_during_call_over(mcp.sse, f"http://127.0.0.1:{sse}/sse"), 8),
            (
                "WebSocket: closed during a call",
                close_during_call_over(mcp.websocket, f"ws://127.0.0.1:{socket}/mcp"),
                8,
            ),
            ("object in this process: called, then closed", call_in_memory, 6),
            ("commands: the whole program killed with SIGKILL", kill_parent, 6),
        ]
        for name, connect, part in rows:
            problems += _print_row(name, await run_batch(connect, part * connections_per_part, seed=seed))
    if seconds:
        problems += _print_chaos(await run_chaos(seconds, seed=seed), seconds)
    return problems


def _print_row(name: str, left: Leftovers) -> bool:
    counted = (left.count, len(left.processes), max(left.descriptors, 0), len(left.tasks), max(left.connections, 0))
    print(f"| {name} | {' | '.join(map(str, counted))} | {left.growth:.1f} | {left.seconds:.1f} |", flush=True)
    for each in [*left.processes, *left.tasks][:10]:
        print("  ", each)
    return not left.is_empty


def _print_chaos(results: ChaosResults, seconds: float) -> bool:
    print(f"\n| {seconds:g} s of chaos | number |\n|---|---|")
    print(f"| times that everything was closed and reopened | {results.restarts} |")
    print(f"| errors of cancel scopes and tasks, hanging calls, processes left | {len(results.errors)} |")
    print(f"| effects of calls | {len(results.effects)} |")
    print(f"| effects that happened twice | {len(results.repeated)} |")
    print(f"| calls that ended as `Done` without their effect | {len(results.missing)} |")
    for code, count in results.outcomes.most_common():
        print(f"| calls that ended as `{code}` | {count} |")
    for each in results.errors[:20]:
        print("  ", each[:3000])
    return bool(results.errors or results.repeated or results.missing)


if __name__ == "__main__":
    raise SystemExit(main())
