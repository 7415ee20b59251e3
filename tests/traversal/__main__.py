"""`python -m tests.traversal`: the long version. Every file tool, every path, both ways to open; then the races."""

from __future__ import annotations

import asyncio
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from surehand.workspace import beneath
from tests.traversal.attempts import TOOLS, attempts
from tests.traversal.grounds import Grounds
from tests.traversal.racing import opens, race

WAYS = ("kernel", "step by step")
CODES = ("done", "denied", "not_found", "invalid_arguments", "conflict")


def options() -> Namespace:
    parser = ArgumentParser(prog="scripts/traversal", description="Try to leave a workspace.")
    parser.add_argument("--count", type=int, default=15_000, help="paths for each tool (default 15000)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of racing, for each way to open (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="draws other paths")
    return parser.parse_args()


@contextmanager
def opening(way: str) -> Iterator[Grounds]:
    """Fresh grounds, and files that are opened that way."""
    beneath._has_openat2[0] = way == "kernel"
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="surehand-", dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Grounds(Path(folder))


async def paths(given: Namespace, way: str) -> None:
    """A line for each tool; the first path that leads outside ends it all."""
    print(f"\n{way}\n{'tool':<14}{'paths':>8}{'outside':>9}{''.join(f'{code:>19}' for code in CODES)}{'other':>7}")
    for number, name in enumerate(TOOLS):
        with opening(way) as grounds:
            ended = await attempts(grounds, name, given.count, seed=given.seed * 100 + number)
        counts = [ended.pop(code, 0) for code in CODES]
        shown = "".join(f"{count:>19,}" for count in counts)
        print(f"{name:<14}{sum(counts) + ended.total():>8,}{0:>9}{shown}{ended.total():>7,}", flush=True)


def races(given: Namespace, way: str) -> None:
    """A line for the tools and one for bare openings; the first leak ends it all."""
    for what in ("tools", "opening"):
        with opening(way) as grounds:
            began = time.monotonic()
            found = asyncio.run(race(grounds, given.seconds)) if what == "tools" else opens(grounds, given.seconds)
            took = time.monotonic() - began
        assert found.done > found.calls // 20, f"too little got through to mean anything: {found.ended}"
        assert found.swaps > 100 * given.seconds, f"too few swaps to mean anything: {found.swaps}"
        print(f"{what:<9}{way:<14}{took:>8.0f}{0:>9}{found.calls:>12,}{found.done:>12,}{found.swaps:>12,}", flush=True)


def main() -> None:
    given = options()
    for way in WAYS:
        asyncio.run(paths(given, way))
    print(f"\n{'racing':<23}{'seconds':>8}{'outside':>9}{'calls':>12}{'done':>12}{'swaps':>12}")
    for way in WAYS:
        races(given, way)


if __name__ == "__main__":
    main()
