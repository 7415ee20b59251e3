"""`python -m tests.crash`: the long version. Kills random scenarios at random points or times, alone or with others."""

from __future__ import annotations

import os
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import Any

from tests.crash.harness import Tally
from tests.crash.run_batch import SERVER_KILLED, RunBatch, ScenarioMeasurements
from tests.crash.scenarios import AGENT_SCENARIOS, CRASH_SCENARIOS

PROGRESS_SECONDS = 20.0
"""Pause between two lines that say how far the runs are."""
EPILOG = """\
A line on stderr says every 20 seconds how far the runs are. Ctrl-C, SIGTERM and --seconds let the runs end
that are under way, and then the table is printed. The column `pause` is the longest time in which nothing
changed in the store of a run, in rounds: 0.25 seconds each on a machine with nothing else to do, and longer
on a busy one. After 80 rounds a run is stuck, which is a problem. Exit code: 1 with problems, 130 or 143 if
it was interrupted, else 0."""
PROCESS_SCENARIOS = [scenario.name for scenario in CRASH_SCENARIOS]
SCENARIO_NAMES = [*PROCESS_SCENARIOS, SERVER_KILLED]
SCENARIO_GROUPS = {"agents": AGENT_SCENARIOS}
SERVER_KILL_SHARE = 10
"""Of so many runs on PostgreSQL, one more kills the server, if processes are killed as well."""


def format_table(results: dict[str, Tally]) -> Iterator[str]:
    """The lines of a table with the totals of each scenario."""
    yield _format_line("scenario", "runs", "killed", "recovered", "effects", "unknown", "pause", "problems")
    for name, each in (*results.items(), ("all", sum(results.values(), Tally()))):
        counts = (each.runs, each.killed, each.recovered, each.effects, each.unknown, each.longest_pause)
        yield _format_line(name, *counts, len(each.problems))


def _format_line(name: str, *cells: object) -> str:
    return f"{name:<22}" + "".join(f"{cell!s:>11}" for cell in cells)


def format_progress(results: dict[str, Tally], planned: int, seconds: float) -> str:
    """One line that says how far the runs are."""
    total = sum(results.values(), Tally())
    return (
        f"{seconds:.0f} s: {total.runs} of {planned} runs, {total.runs / seconds:.1f} a second, {total.killed} kills, "
        f"{len(total.problems)} problems, longest pause {total.longest_pause}"
    )


def add_results(batches: Sequence[RunBatch]) -> dict[str, Tally]:
    """The totals of all batches until now, by scenario."""
    parts = [batch.results for batch in batches]
    names = [name for name in SCENARIO_NAMES if any(name in part for part in parts)]
    return {name: sum((part[name] for part in parts if name in part), Tally()) for name in names}


def count_planned_runs(options: Namespace, shares: Sequence[Sequence[int]]) -> int:
    """The process kills and the server kills of all shares."""
    kills = sum(map(len, shares)) if options.process_scenarios else 0
    outages = sum(len(share[:: options.outage_every]) for share in shares) if options.outage_every else 0
    return kills + outages


def parse_options() -> Namespace:
    parser = ArgumentParser(
        prog="scripts/crash",
        description="Kill processes in the middle of calls and check what is left.",
        epilog=EPILOG,
    )
    parser.add_argument("--runs", type=int, default=10_000, metavar="N", help="default: 10000")
    parser.add_argument("--seconds", type=float, metavar="N", help="start no further run after so many seconds")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="decides with its number what a run does")
    parser.add_argument("--only", type=int, metavar="RUN", help="run only this number, to reproduce a problem")
    parser.add_argument(
        "--scenario",
        nargs="+",
        action="extend",
        choices=[*SCENARIO_NAMES, *SCENARIO_GROUPS],
        metavar="NAME",
        help=f"run only these: {', '.join(map(repr, SCENARIO_NAMES))}; 'agents' are all in which an agent runs",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="copy the files of runs with problems to this folder"
    )
    parser.add_argument("--postgres", action="store_true", help="use PostgreSQL, and kill its server once in ten runs")
    parser.add_argument(
        "--jobs", type=int, default=2 * (os.cpu_count() or 1), metavar="N", help="runs at the same time: two per core"
    )
    options = parser.parse_args()
    chosen = expand_groups(options.scenario or SCENARIO_NAMES)
    kills_server = SERVER_KILLED in chosen
    if options.scenario and kills_server and not options.postgres:
        parser.error(f"--scenario {SERVER_KILLED!r} needs --postgres")
    options.process_scenarios = [name for name in PROCESS_SCENARIOS if name in chosen]
    options.outage_every = 0
    if options.postgres and kills_server:
        options.outage_every = SERVER_KILL_SHARE if options.process_scenarios else 1
    return options


def expand_groups(names: Sequence[str]) -> set[str]:
    """The names of scenarios, with those of a group in place of its name."""
    return {name for each in names for name in SCENARIO_GROUPS.get(each, (each,))}


def stop_on_signals(stop: Event) -> list[int]:
    """Set the event at Ctrl-C and SIGTERM; a second one ends the process at once. Returns the signals, as they come."""
    received: list[int] = []

    def handle(number: int, _: Any) -> None:
        received.append(number)
        stop.set()
        signal.signal(number, signal.SIG_DFL)
        print("Stopping: the runs that are under way end first.", file=sys.stderr, flush=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    return received


def wait_for_batches(
    running: list[Future[None]], batches: list[RunBatch], planned: int, stop: Event, seconds: float | None
) -> None:
    """Wait until all runs have ended; say how far they are, and stop them when the time is over."""
    started_at = last_line_at = time.monotonic()
    while wait(running, timeout=0.5).not_done:
        now = time.monotonic()
        if seconds is not None and now - started_at > seconds:
            stop.set()
        if now - last_line_at > PROGRESS_SECONDS:
            last_line_at = now
            print(format_progress(add_results(batches), planned, now - started_at), file=sys.stderr, flush=True)


def main() -> int:
    options = parse_options()
    numbers = [options.only] if options.only is not None else list(range(options.runs))
    jobs = max(1, min(options.jobs, len(numbers)))
    shares = [numbers[first::jobs] for first in range(jobs)]
    stop = Event()
    signals = stop_on_signals(stop)
    measurements = ScenarioMeasurements()
    batches = [RunBatch(options, share, measurements, stop) for share in shares]
    planned = count_planned_runs(options, shares)
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(batch.run) for batch in batches]
        wait_for_batches(running, batches, planned, stop, options.seconds)
    results = add_results(batches)
    total = sum(results.values(), Tally())
    print("\n".join(format_table(results)))
    if total.runs < planned:
        print(f"Ended after {total.runs} of {planned} runs.")
    for future in running:
        future.result()  # raises what has ended a share of the runs
    return 1 if total.problems else 128 + signals[0] if signals else 0


if __name__ == "__main__":
    sys.exit(main())
