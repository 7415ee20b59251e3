"""`python -m tests.traversal`: the long version. Every path with every file tool, both ways to open, then the races."""

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
from tests.traversal.guarded_tree import GuardedTree
from tests.traversal.symlink_races import race_opens, race_tools
from tests.traversal.tool_calls import TOOLS, try_paths

OPEN_METHODS = ("kernel", "step by step")
SHOWN_CODES = ("done", "denied", "not_found", "invalid_arguments", "conflict")


def parse_options() -> Namespace:
    parser = ArgumentParser(prog="scripts/traversal", description="Try to leave a workspace.")
    parser.add_argument("--count", type=int, default=15_000, help="paths for each tool (default 15000)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="duration of the races for each way to open (default 60)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the generated paths")
    return parser.parse_args()


@contextmanager
def open_with(method: str) -> Iterator[GuardedTree]:
    """A new tree, with files opened by this method."""
    beneath._has_openat2[0] = method == "kernel"
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="surehand-", dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield GuardedTree(Path(folder))


async def print_path_results(options: Namespace, method: str) -> None:
    """Print a line for each tool; the first path that leads outside raises."""
    codes = "".join(f"{code:>19}" for code in SHOWN_CODES)
    print(f"\n{method}\n{'tool':<14}{'paths':>8}{'outside':>9}{codes}{'other':>7}")
    for number, name in enumerate(TOOLS):
        with open_with(method) as tree:
            outcomes = await try_paths(tree, name, options.count, seed=options.seed * 100 + number)
        counts = [outcomes.pop(code, 0) for code in SHOWN_CODES]
        shown = "".join(f"{count:>19,}" for count in counts)
        print(f"{name:<14}{sum(counts) + outcomes.total():>8,}{0:>9}{shown}{outcomes.total():>7,}", flush=True)


def print_race_results(options: Namespace, method: str) -> None:
    """Print a line for the tools and one for opening files directly; the first leak raises."""
    for kind in ("tools", "opening"):
        with open_with(method) as tree:
            started_at = time.monotonic()
            race = (
                asyncio.run(race_tools(tree, options.seconds)) if kind == "tools" else race_opens(tree, options.seconds)
            )
            seconds = time.monotonic() - started_at
        assert race.done > race.calls // 20, f"too few calls succeeded for a meaningful race: {race.outcomes}"
        assert race.swaps > 100 * options.seconds, f"too few swaps for a meaningful race: {race.swaps}"
        print(
            f"{kind:<9}{method:<14}{seconds:>8.0f}{0:>9}{race.calls:>12,}{race.done:>12,}{race.swaps:>12,}", flush=True
        )


def main() -> None:
    options = parse_options()
    for method in OPEN_METHODS:
        asyncio.run(print_path_results(options, method))
    print(f"\n{'racing':<23}{'seconds':>8}{'outside':>9}{'calls':>12}{'done':>12}{'swaps':>12}")
    for method in OPEN_METHODS:
        print_race_results(options, method)


if __name__ == "__main__":
    main()
