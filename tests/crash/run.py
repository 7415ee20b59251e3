"""Run: a process dies, another one recovers and finishes, a third one looks; then the judge does."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.judge import Evidence, problems
from tests.crash.process import Life
from tests.crash.remains import remains
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.world import World
from tests.crash.zygote import Zygote

# A killed process loses nothing that the system holds for it, so a disk in memory tells the same, sooner.
ROOM = "/dev/shm" if Path("/dev/shm").is_dir() else None


@dataclass(frozen=True)
class Death:
    """When a process dies: at a numbered point, or after so many seconds. Without either it lives."""

    point: int | None = None
    after: float | None = None


@dataclass
class Tally:
    """What came of many runs."""

    runs: int = 0
    killed: int = 0
    recovered: int = 0
    effects: int = 0
    done: int = 0
    unknown: int = 0
    problems: list[str] = field(default_factory=list)

    def __add__(self, other: Tally) -> Tally:
        mine, theirs = vars(self), vars(other)
        return Tally(**{name: mine[name] + theirs[name] for name in mine})


class Harness:
    """Runs scenarios on stores of their own, through one zygote."""

    def __init__(
        self, zygote: Zygote, fresh: Callable[[Path, Scenario], str] | None = None, *, keep: Path | None = None
    ) -> None:
        self._zygote, self._keep = zygote, keep
        self._fresh = fresh or self._file
        self._template: bytes | None = None

    def points(self, name: str) -> list[str]:
        """The points of a scenario, counted once without a kill."""
        with self._room(name) as (world, address):
            self._zygote.run(Life("begin", name, address, str(world.folder)))
            return [str(point) for point in (world.lines("points-begin") or [[]])[0]]

    def run(self, name: str, *deaths: Death, survivor: bool = False, broken: str | None = None) -> Tally:
        """The first death befalls the one who begins, each further one somebody who recovers."""
        with self._room(name) as (world, address):
            evidence = Evidence(SCENARIOS[name], world, alone=not survivor)
            lives = [self._life("begin", name, address, world, death, broken) for death in deaths[:1]]
            lives += [self._life("finish", name, address, world, death, broken) for death in (*deaths[1:], Death())]
            beside = Life("survive", name, address, str(world.folder), broken=broken) if survivor else None
            for life in lives:
                codes = self._zygote.run(life, beside)
                beside, evidence.codes = None, [*evidence.codes, *codes]
                if -9 in codes:
                    evidence.deaths.append(remains(address))
            evidence.last = remains(address)
            evidence.codes += self._zygote.run(Life("look", name, address, str(world.folder)))
            evidence.again = remains(address)
            tally = tally_of(evidence, deaths)
            if tally.problems and self._keep is not None:
                shutil.copytree(world.folder, self._keep / world.folder.name)
            return tally

    def _life(self, part: str, name: str, address: str, world: World, death: Death, broken: str | None) -> Life:
        return Life(part, name, address, str(world.folder), death.point, death.after, broken)

    @contextmanager
    def _room(self, name: str) -> Iterator[tuple[World, str]]:
        folder = Path(tempfile.mkdtemp(prefix="toolwright-crash-", dir=ROOM))
        try:
            yield World(folder), self._fresh(folder, SCENARIOS[name])
        finally:
            shutil.rmtree(folder)

    def _file(self, folder: Path, scenario: Scenario) -> str:
        """A new file; its tables are there already, except where making them is what it is about."""
        path = folder / "store.db"
        if not scenario.empty:
            self._template = self._template or self._made(folder)
            path.write_bytes(self._template)
        return str(path)

    def _made(self, folder: Path) -> bytes:
        self._zygote.run(Life("make", "plain", str(folder / "template.db"), str(folder)))
        return (folder / "template.db").read_bytes()


def chosen(points: list[str], most: int, seed: int) -> list[int]:
    """Every kind of point once, and others by lot; numbered from one."""
    numbers = list(range(1, len(points) + 1))
    random.Random(seed).shuffle(numbers)
    first = {points[number - 1]: number for number in numbers}
    rest = [number for number in numbers if number not in first.values()]
    return sorted([*first.values(), *rest][:most])


def tally_of(evidence: Evidence, deaths: object) -> Tally:
    """What came of one run."""
    assert evidence.last is not None
    found = problems(evidence)
    effects = evidence.world.effects()
    done = Counter('"done"' in (row["outcome"] or "") for row in evidence.last.ledger.values())[True]
    where = f"{evidence.scenario.name}, killed {evidence.world.lines('killed') or deaths}"
    told = [f"{where}: {problem}" for problem in found]
    return Tally(1, evidence.codes.count(-9), int(not found), effects.total(), done, len(evidence.unknown), told)
