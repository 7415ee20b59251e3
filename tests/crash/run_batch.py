"""Run batches: each makes a share of the runs of `scripts/crash`, with its own fork server and database server."""

from __future__ import annotations

import random
import sys
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from threading import Event, Lock

from tests.crash.fork_server import ForkServer
from tests.crash.harness import CrashRun, Harness, ProcessKill, SqliteStores, Tally
from tests.crash.killable_postgres import KillablePostgres
from tests.crash.server_outage import ServerKill, run_outage

RUNS_TOGETHER = 10
"""Runs that one process finishes, one after the other, and another verifies."""
SERVER_SETTLING_SECONDS = 11.0
"""Uptime from which the server reports dead clients reliably."""
SERVER_KILLED = "server killed"


class ScenarioMeasurements:
    """How many kill points a scenario has and how long it takes without a kill, measured once for all batches."""

    def __init__(self) -> None:
        self._locks: dict[str, Lock] = {}
        self._measured: dict[str, tuple[int, float]] = {}

    def measure(self, name: str, harness: Harness) -> tuple[int, float]:
        """The number of points, and the seconds."""
        with self._locks.setdefault(name, Lock()):
            if name not in self._measured:
                harness.points(name)  # the first run also creates the store template, so time the second
                started_at = time.perf_counter()
                self._measured[name] = len(harness.points(name)), time.perf_counter() - started_at
            return self._measured[name]


class RunBatch:
    """Makes some of the runs. The seed and the number of a run alone decide what it does."""

    def __init__(
        self, options: Namespace, numbers: Sequence[int], measurements: ScenarioMeasurements, stop: Event
    ) -> None:
        self._options = options
        self._numbers = numbers
        self._measurements = measurements
        self._stop = stop
        self._lock = Lock()
        self._results: dict[str, Tally] = defaultdict(Tally)

    @property
    def results(self) -> dict[str, Tally]:
        """The totals of each scenario until now."""
        with self._lock:
            return dict(self._results)

    def run(self) -> None:
        """Make the runs until all are made, or `stop` is set."""
        with ExitStack() as stack:
            fork_server = stack.enter_context(ForkServer())
            server = stack.enter_context(KillablePostgres()) if self._options.postgres else None
            if server is not None and self._options.outage_every:
                self._run_outages(server, fork_server)
            if self._options.process_scenarios:
                self._run_kills(Harness(fork_server, server or SqliteStores(), keep=self._options.keep), server)

    def _run_outages(self, server: KillablePostgres, fork_server: ForkServer) -> None:
        """Kill the server under load."""
        for number in self._numbers[:: self._options.outage_every]:
            if self._stop.is_set():
                return
            kill = _random_server_kill(random.Random(f"{self._options.seed} server {number}"))
            self._add_tally(number, SERVER_KILLED, run_outage(server, fork_server, kill, keep=self._options.keep))

    def _run_kills(self, harness: Harness, server: KillablePostgres | None) -> None:
        """Kill processes."""
        if server is not None and not self._stop.is_set():
            server.wait_until_settled(SERVER_SETTLING_SECONDS)
        for start in range(0, len(self._numbers), RUNS_TOGETHER):
            if self._stop.is_set():
                return
            numbers = self._numbers[start : start + RUNS_TOGETHER]
            runs = [self._choose_run(number, harness) for number in numbers]
            for number, run, tally in zip(numbers, runs, harness.run_together(runs), strict=True):
                self._add_tally(number, run.name, tally)

    def _choose_run(self, number: int, harness: Harness) -> CrashRun:
        """Kill a process; sometimes kill others that recover or answer too, or let one work at the same time."""
        generator = random.Random(f"{self._options.seed} {number}")
        name = generator.choice(self._options.process_scenarios)
        points, seconds = self._measurements.measure(name, harness)
        kills = [_random_kill(points, seconds, generator) for _ in range(2 if generator.random() < 0.25 else 1)]
        survivor = generator.random() < 0.25
        answers = _random_kill(points, seconds, generator) if generator.random() < 0.25 else None
        return CrashRun(name, tuple(kills), survivor=survivor, answers=answers)

    def _add_tally(self, number: int, name: str, tally: Tally) -> None:
        with self._lock:
            self._results[name] += tally
        for problem in tally.problems:
            print(f"run {number}: {problem}", file=sys.stderr, flush=True)


def _random_kill(points: int, seconds: float, generator: random.Random) -> ProcessKill:
    if generator.random() < 0.5:
        return ProcessKill(generator.randint(1, points))
    return ProcessKill(after_seconds=generator.uniform(0, seconds))


def _random_server_kill(generator: random.Random) -> ServerKill:
    kill = ServerKill(after_seconds=generator.uniform(0, 0.5), downtime_seconds=generator.choice((0.0, 0.5, 2.0)))
    if generator.random() < 0.6:
        kill = replace(kill, point=generator.randint(50, 2000), kill_caller=generator.random() < 0.3)
    return kill
