"""The crash harness: kills one process, lets another recover and finish, a third verify, and checks the invariants."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from tests.crash.fork_server import ForkServer
from tests.crash.invariants import Evidence, find_problems
from tests.crash.kill_points import number_points
from tests.crash.process import ProcessPlan
from tests.crash.run_log import RunLog
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.stored_state import read_stored_state
from tests.temp_folders import TEMP_FOLDER_PARENT


@dataclass(frozen=True)
class ProcessKill:
    """When to kill a process: at a numbered point, or after some seconds. Without either it is not killed."""

    point: int | str | None = None
    after_seconds: float | None = None


@dataclass(frozen=True)
class CrashRun:
    """A scenario with its kills: the first is of the process that begins, each further one of one that recovers.

    With `answers`, a process without the agents answers what waits before that, and is killed.
    """

    name: str
    kills: tuple[ProcessKill, ...]
    survivor: bool = False
    """Whether another process works on the same calls while the first one dies."""
    answers: ProcessKill | None = None
    fault: str | None = None


@dataclass
class Tally:
    """The totals of many runs."""

    runs: int = 0
    killed: int = 0
    recovered: int = 0
    effects: int = 0
    done: int = 0
    unknown: int = 0
    longest_pause: int = 0
    """Rounds of the progress watch in which the store of a run did not change; see `progress_watch`."""
    problems: list[str] = field(default_factory=list)

    def __add__(self, other: Tally) -> Tally:
        own_values, other_values = vars(self), vars(other)
        total = Tally(**{name: own_values[name] + other_values[name] for name in own_values})
        total.longest_pause = max(self.longest_pause, other.longest_pause)
        return total


class StoreFactory(Protocol):
    """Creates a store for each run. The tables exist already, unless the scenario tests their creation."""

    exclusive: bool
    """No other process works on the store. On a server, statements of a dead client may still run."""

    def create(self, scenario: Scenario, fork_server: ForkServer, folder: Path) -> str:
        """Create a store, and return its address."""
        ...

    def remove(self, address: str) -> None:
        """Remove the store."""
        ...


class SqliteStores:
    """SQLite files in the folder of the run."""

    exclusive = True
    _template = b""

    def create(self, scenario: Scenario, fork_server: ForkServer, folder: Path) -> str:
        path = folder / "store.db"
        if not scenario.creates_store:
            path.write_bytes(self._template or self._create_template(fork_server, folder))
        return str(path)

    def _create_template(self, fork_server: ForkServer, folder: Path) -> bytes:
        fork_server.run(ProcessPlan("create", "plain", str(folder / "template.db"), str(folder)))
        self._template = (folder / "template.db").read_bytes()
        return self._template

    def remove(self, address: str) -> None:
        """The file is removed together with its folder."""


class Harness:
    """Runs scenarios, each on a store of its own, with one fork server."""

    def __init__(
        self, fork_server: ForkServer, stores: StoreFactory | None = None, *, keep: Path | None = None
    ) -> None:
        self._fork_server = fork_server
        self._stores = stores or SqliteStores()
        self._keep = keep

    def points(self, name: str) -> list[str]:
        """The names of the kill points of a scenario, from one run without a kill."""
        with self._new_store(name) as (run_log, address):
            self._fork_server.run(ProcessPlan("begin", name, address, str(run_log.folder)))
            return [str(point) for point in (run_log.lines("points-begin") or [[]])[0]]

    def run(
        self,
        name: str,
        *kills: ProcessKill,
        survivor: bool = False,
        answers: ProcessKill | None = None,
        fault: str | None = None,
    ) -> Tally:
        """Apply the first kill to the process that begins, and each further kill to a process that recovers."""
        [tally] = self.run_together([CrashRun(name, kills, survivor=survivor, answers=answers, fault=fault)])
        return tally

    def run_each(self, kills: list[tuple[str, ProcessKill]]) -> Tally:
        """Kill one process per entry; then one process recovers all stores in turn, and another verifies them."""
        return sum(self.run_together([CrashRun(name, (kill,)) for name, kill in kills]), Tally())

    def run_together(self, runs: Sequence[CrashRun]) -> list[Tally]:
        """Make the kills of each run; then one process finishes all runs in turn, and another verifies them.

        Each run has a store of its own. A process for each part would spend most of its time on its start.
        """
        with ExitStack() as stack:
            stores = [stack.enter_context(self._new_store(run.name)) for run in runs]
            interrupted = [self._interrupt(run, *store) for run, store in zip(runs, stores, strict=True)]
            self._run_last_part("finish", interrupted)
            self._run_last_part("verify", [(replace(plan, fault=None), evidence) for plan, evidence in interrupted])
            return [self._tally(evidence, run.kills) for (_, evidence), run in zip(interrupted, runs, strict=True)]

    def _interrupt(self, run: CrashRun, run_log: RunLog, address: str) -> tuple[ProcessPlan, Evidence]:
        """Start a scenario and make the kills. Returns the plan for the next process, and the evidence so far."""
        plan = ProcessPlan("finish", run.name, address, str(run_log.folder), fault=run.fault)
        evidence = Evidence(SCENARIOS[run.name], run_log, exclusive=self._stores.exclusive and not run.survivor)
        parts = [("begin", run.kills[0]), *(("finish", kill) for kill in run.kills[1:])]
        if run.answers is not None:
            parts.insert(1, ("answer", run.answers))
        for part, kill in parts:
            killed = replace(plan, part=part, point=kill.point, kill_after_seconds=kill.after_seconds)
            survivor = replace(plan, part="survive") if run.survivor and part == "begin" else None
            codes = self._fork_server.run(killed, survivor)
            evidence.codes += codes
            if -9 in codes:
                evidence.add_store_after_kill(read_stored_state(address))
        return plan, evidence

    def _run_last_part(self, part: str, interrupted: list[tuple[ProcessPlan, Evidence]]) -> None:
        codes = self._fork_server.run_sequentially([replace(plan, part=part) for plan, _ in interrupted])
        for code, (plan, evidence) in zip(codes, interrupted, strict=True):
            evidence.codes.append(code)
            evidence.final, evidence.after_restart = evidence.after_restart, read_stored_state(plan.address)

    def _tally(self, evidence: Evidence, kills: Sequence[ProcessKill]) -> Tally:
        tally = make_tally(evidence, kills)
        if tally.problems and self._keep is not None:
            shutil.copytree(evidence.run_log.folder, self._keep / evidence.run_log.folder.name)
        return tally

    @contextmanager
    def _new_store(self, name: str) -> Iterator[tuple[RunLog, str]]:
        folder = Path(tempfile.mkdtemp(prefix="surehand-crash-", dir=TEMP_FOLDER_PARENT))
        try:
            address = self._stores.create(SCENARIOS[name], self._fork_server, folder)
            yield RunLog(folder), address
            self._stores.remove(address)
        finally:
            shutil.rmtree(folder)


def choose_points(points: list[str], maximum: int, seed: int) -> list[str]:
    """Choose the points around the effect and the replies, then one of every kind, then others at random."""
    shuffled = number_points(points)
    random.Random(seed).shuffle(shuffled)
    important = [point for point in shuffled if "effect" in point or "reply" in point]
    kinds = {point.rpartition(" (")[0]: point for point in shuffled}
    return list(dict.fromkeys([*important, *kinds.values(), *shuffled]))[:maximum]


def make_tally(evidence: Evidence, kills: object) -> Tally:
    """Check the evidence of one run, and count its results."""
    assert evidence.final is not None
    problems = find_problems(evidence)
    effects = evidence.run_log.effects()
    done = Counter('"done"' in (row["outcome"] or "") for row in evidence.final.ledger.values())[True]
    run_name = f"{evidence.scenario.name}, killed {evidence.run_log.lines('killed') or kills}"
    return Tally(
        runs=1,
        killed=evidence.codes.count(-9),
        recovered=int(not problems),
        effects=effects.total(),
        done=done,
        unknown=len(evidence.unknown),
        longest_pause=max(evidence.run_log.lines("pauses"), default=0),
        problems=[f"{run_name}: {problem}" for problem in problems],
    )
