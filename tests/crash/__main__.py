"""`python -m tests.crash`: the long version. Kills random scenarios at random points or times, alone or with others."""

from __future__ import annotations

import os
import random
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tests.crash.fork_server import ForkServer
from tests.crash.harness import Harness, ProcessKill, SqliteStores, Tally
from tests.crash.killable_postgres import KillablePostgres
from tests.crash.scenarios import CRASH_SCENARIOS
from tests.crash.server_outage import ServerKill, run_outage

SERVER_SETTLING_SECONDS = 11.0
"""Uptime from which the server reports dead clients reliably."""
SERVER_KILLED = "server killed"


class RunBatch:
    """Runs some of the run numbers with one fork server. The seed and the number alone decide what a run does."""

    def __init__(self, options: Namespace, fork_server: ForkServer, server: KillablePostgres | None) -> None:
        self._options = options
        self._fork_server = fork_server
        self._server = server
        self._harness = Harness(fork_server, server or SqliteStores(), keep=options.keep)
        self._measured: dict[str, tuple[int, float]] = {}
        self.results: dict[str, Tally] = defaultdict(Tally)

    def run(self, number: int) -> None:
        """Kill a process; sometimes kill the recovering process too, or let another process work at the same time."""
        generator = random.Random(f"{self._options.seed} {number}")
        name = self._options.scenario or generator.choice(CRASH_SCENARIOS).name
        kills = [self._random_kill(name, generator) for _ in range(2 if generator.random() < 0.25 else 1)]
        self._add_tally(number, name, self._harness.run(name, *kills, survivor=generator.random() < 0.25))

    def run_outage(self, number: int) -> None:
        """Kill the server under load."""
        assert self._server is not None
        generator = random.Random(f"{self._options.seed} server {number}")
        kill = ServerKill(after_seconds=generator.uniform(0, 0.5), downtime_seconds=generator.choice((0.0, 0.5, 2.0)))
        if generator.random() < 0.6:
            kill = replace(kill, point=generator.randint(50, 2000), kill_caller=generator.random() < 0.3)
        self._add_tally(
            number, SERVER_KILLED, run_outage(self._server, self._fork_server, kill, keep=self._options.keep)
        )

    def _random_kill(self, name: str, generator: random.Random) -> ProcessKill:
        if name not in self._measured:
            self._harness.points(name)  # the first run also creates the store template, so time the second
            started_at = time.perf_counter()
            self._measured[name] = len(self._harness.points(name)), time.perf_counter() - started_at
        points, seconds = self._measured[name]
        return (
            ProcessKill(generator.randint(1, points))
            if generator.random() < 0.5
            else ProcessKill(after_seconds=generator.uniform(0, seconds))
        )

    def _add_tally(self, number: int, name: str, tally: Tally) -> None:
        self.results[name] += tally
        for problem in tally.problems:
            print(f"run {number}: {problem}", file=sys.stderr, flush=True)


def run_batch(options: Namespace, numbers: list[int]) -> dict[str, Tally]:
    """Run the numbers with a fork server and, if requested, a PostgreSQL server of their own."""
    with ExitStack() as stack:
        fork_server = stack.enter_context(ForkServer())
        server = stack.enter_context(KillablePostgres()) if options.postgres else None
        if server is not None:
            server.wait_until_settled(SERVER_SETTLING_SECONDS)
        batch = RunBatch(options, fork_server, server)
        for number in numbers:
            batch.run(number)
        for number in numbers[::10] if server is not None and options.scenario is None else ():
            batch.run_outage(number)
        return batch.results


def format_table(results: dict[str, Tally]) -> Iterator[str]:
    """The lines of a table with the totals of each scenario."""
    yield _format_line("scenario", "runs", "killed", "recovered", "effects", "unknown", "problems")
    for name, each in (*results.items(), ("all", sum(results.values(), Tally()))):
        yield _format_line(name, each.runs, each.killed, each.recovered, each.effects, each.unknown, len(each.problems))


def _format_line(name: str, *cells: object) -> str:
    return f"{name:<22}" + "".join(f"{cell!s:>11}" for cell in cells)


def parse_options() -> Namespace:
    parser = ArgumentParser(
        prog="scripts/crash", description="Kill processes in the middle of calls and check what is left."
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="RUN", help="run only this number, to reproduce a problem")
    parser.add_argument("--scenario", choices=[scenario.name for scenario in CRASH_SCENARIOS], help="run only this one")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="copy the files of runs with problems to this folder"
    )
    parser.add_argument("--postgres", action="store_true", help="use PostgreSQL, and kill its server once in ten runs")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    numbers = [options.only] if options.only is not None else list(range(options.runs))
    shares = min(2 * (os.cpu_count() or 1), len(numbers))
    with ThreadPoolExecutor(shares) as pool:
        parts = list(pool.map(lambda first: run_batch(options, numbers[first::shares]), range(shares)))
    names = [
        name
        for name in (*(scenario.name for scenario in CRASH_SCENARIOS), SERVER_KILLED)
        if any(name in part for part in parts)
    ]
    results = {name: sum((part[name] for part in parts if name in part), Tally()) for name in names}
    print("\n".join(format_table(results)))
    return int(any(tally.problems for tally in results.values()))


if __name__ == "__main__":
    sys.exit(main())
