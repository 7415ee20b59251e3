"""`python -m tests.crash`: the long version. Random scenarios die at random points or moments, alone or in company."""

from __future__ import annotations

import os
import random
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add
from pathlib import Path

from tests.crash.run import Death, Harness, Tally
from tests.crash.scenarios import ALL
from tests.crash.zygote import Zygote

NAMES = [scenario.name for scenario in ALL]
Results = dict[str, Tally]


class Measured:
    """How many points a scenario has and how long it takes, found out once by letting it live."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._known: dict[str, tuple[int, float]] = {}

    def death(self, name: str, chance: random.Random) -> Death:
        """At a point or at a moment, half of the time each."""
        if name not in self._known:
            self._harness.points(name)  # the first one also makes what the others share
            began = time.perf_counter()
            self._known[name] = len(self._harness.points(name)), time.perf_counter() - began
        points, seconds = self._known[name]
        return Death(chance.randint(1, points)) if chance.random() < 0.5 else Death(after=chance.uniform(0, seconds))


def run_all(numbers: Iterable[int], seed: int, keep: Path | None) -> Results:
    """One zygote's share of the runs. Each run is drawn by its own number, whoever gets it."""
    results: Results = {name: Tally() for name in NAMES}
    with Zygote() as zygote:
        harness = Harness(zygote, keep=keep)
        measured = Measured(harness)
        for number in numbers:
            chance = random.Random(f"{seed} {number}")
            name = chance.choice(NAMES)
            deaths = [measured.death(name, chance)]
            if chance.random() < 0.25:
                deaths.append(measured.death(name, chance))
            tally = harness.run(name, *deaths, survivor=chance.random() < 0.25)
            results[name] += tally
            for problem in tally.problems:
                print(f"run {number}: {problem}", file=sys.stderr, flush=True)
    return results


def table(results: Results) -> str:
    """What came of each scenario."""
    rows = [*results.items(), ("all", reduce(add, results.values(), Tally()))]
    head = ("scenario", "runs", "killed", "recovered", "effects", "unknown", "problems")
    return "\n".join(_lines([head, *((name, *_cells(tally)) for name, tally in rows if tally.runs)]))


def _cells(tally: Tally) -> Iterator[object]:
    yield from (tally.runs, tally.killed, tally.recovered, tally.effects, tally.unknown, len(tally.problems))


def _lines(rows: list[tuple[object, ...]]) -> Iterator[str]:
    for name, *numbers in rows:
        yield f"{name!s:<22}" + "".join(f"{number!s:>11}" for number in numbers)


def options() -> Namespace:
    parser = ArgumentParser(prog="scripts/crash", description="Kill processes in the middle of calls, and see.")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="RUN", help="this run alone, to see its problem again")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave there what is left of runs with problems")
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL, whose server is killed too")
    return parser.parse_args()


def main() -> int:
    chosen = options()
    shares = 2 * (os.cpu_count() or 1)
    numbers = [chosen.only] if chosen.only is not None else list(range(chosen.runs))
    with ThreadPoolExecutor(shares) as pool:
        parts = list(pool.map(lambda share: run_all(numbers[share::shares], chosen.seed, chosen.keep), range(shares)))
    results = {name: reduce(add, (part[name] for part in parts)) for name in NAMES}
    print(table(results))
    return int(any(tally.problems for tally in results.values()))


if __name__ == "__main__":
    sys.exit(main())
