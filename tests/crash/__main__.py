"""`python -m tests.crash`: the long version. Random scenarios die at random points or moments, alone or in company."""

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

from tests.crash.outage import Kill, outage
from tests.crash.run import Death, Files, Harness, Tally
from tests.crash.scenarios import ALL
from tests.crash.server import Server
from tests.crash.zygote import Zygote

SETTLING = 11.0
"""Seconds after its start from which on a server knows who is dead."""
SERVER = "server killed"


class Share:
    """One zygote's share of the runs. What a run does is drawn by its own number, whoever gets it."""

    def __init__(self, given: Namespace, zygote: Zygote, server: Server | None) -> None:
        self._given, self._zygote, self._server = given, zygote, server
        self._harness = Harness(zygote, server or Files(), keep=given.keep)
        self._known: dict[str, tuple[int, float]] = {}
        self.results: dict[str, Tally] = defaultdict(Tally)

    def run(self, number: int) -> None:
        """A process dies, and perhaps the one that recovers does too, or another one is at work beside it."""
        chance = random.Random(f"{self._given.seed} {number}")
        name = chance.choice(ALL).name
        deaths = [self._death(name, chance) for _ in range(2 if chance.random() < 0.25 else 1)]
        self._count(number, name, self._harness.run(name, *deaths, survivor=chance.random() < 0.25))

    def outage(self, number: int) -> None:
        """The server dies under a load."""
        assert self._server is not None
        chance = random.Random(f"{self._given.seed} server {number}")
        kill = Kill(after=chance.uniform(0, 0.5), away=chance.choice((0.0, 0.5, 2.0)))
        if chance.random() < 0.6:
            kill = replace(kill, point=chance.randint(50, 2000), both=chance.random() < 0.3)
        self._count(number, SERVER, outage(self._server, self._zygote, kill, keep=self._given.keep))

    def _death(self, name: str, chance: random.Random) -> Death:
        if name not in self._known:
            self._harness.points(name)  # the first one also makes what the others share
            began = time.perf_counter()
            self._known[name] = len(self._harness.points(name)), time.perf_counter() - began
        points, seconds = self._known[name]
        return Death(chance.randint(1, points)) if chance.random() < 0.5 else Death(after=chance.uniform(0, seconds))

    def _count(self, number: int, name: str, tally: Tally) -> None:
        self.results[name] += tally
        for problem in tally.problems:
            print(f"run {number}: {problem}", file=sys.stderr, flush=True)


def share(given: Namespace, numbers: list[int]) -> dict[str, Tally]:
    """With a zygote, and if need be a server, of its own."""
    with ExitStack() as stack:
        zygote = stack.enter_context(Zygote())
        server = stack.enter_context(Server()) if given.postgres else None
        if server is not None:
            server.wait_until_settled(SETTLING)
        mine = Share(given, zygote, server)
        for number in numbers:
            mine.run(number)
        for number in numbers[::10] if server is not None else ():
            mine.outage(number)
        return mine.results


def table(results: dict[str, Tally]) -> Iterator[str]:
    """What came of each scenario."""
    yield _line("scenario", "runs", "killed", "recovered", "effects", "unknown", "problems")
    for name, each in (*results.items(), ("all", sum(results.values(), Tally()))):
        yield _line(name, each.runs, each.killed, each.recovered, each.effects, each.unknown, len(each.problems))


def _line(name: str, *cells: object) -> str:
    return f"{name:<22}" + "".join(f"{cell!s:>11}" for cell in cells)


def options() -> Namespace:
    parser = ArgumentParser(prog="scripts/crash", description="Kill processes in the middle of calls, and see.")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="RUN", help="this run alone, to see its problem again")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave there what is left of runs with problems")
    parser.add_argument(
        "--postgres", action="store_true", help="on PostgreSQL, whose server is killed too: once in ten runs"
    )
    return parser.parse_args()


def main() -> int:
    given = options()
    numbers = [given.only] if given.only is not None else list(range(given.runs))
    shares = min(2 * (os.cpu_count() or 1), len(numbers))
    with ThreadPoolExecutor(shares) as pool:
        parts = list(pool.map(lambda first: share(given, numbers[first::shares]), range(shares)))
    names = [name for name in (*(scenario.name for scenario in ALL), SERVER) if any(name in part for part in parts)]
    results = {name: sum((part[name] for part in parts if name in part), Tally()) for name in names}
    print("\n".join(table(results)))
    return int(any(tally.problems for tally in results.values()))


if __name__ == "__main__":
    sys.exit(main())
