"""Run: a process dies, another one recovers and finishes, a third one looks; then the judge does."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from tests.crash.judge import Evidence, problems
from tests.crash.points import numbered
from tests.crash.process import Life
from tests.crash.remains import remains
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.world import World
from tests.crash.zygote import Zygote
from tests.room import ROOM


@dataclass(frozen=True)
class Death:
    """When a process dies: at a numbered point, or after so many seconds. Without either it lives."""

    point: int | str | None = None
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


class Rooms(Protocol):
    """Where each run gets a store of its own. The tables are there already, except where making them is the point."""

    alone: bool
    """Whether nothing of a dead process goes on elsewhere, as it may on a server."""

    def fresh(self, scenario: Scenario, zygote: Zygote, folder: Path) -> str:
        """The address of a new store."""
        ...

    def drop(self, address: str) -> None:
        """Nobody needs it any more."""
        ...


class Files:
    """SQLite files in the folder of the run."""

    alone = True
    _template = b""

    def fresh(self, scenario: Scenario, zygote: Zygote, folder: Path) -> str:
        path = folder / "store.db"
        if not scenario.empty:
            path.write_bytes(self._template or self._made(zygote, folder))
        return str(path)

    def _made(self, zygote: Zygote, folder: Path) -> bytes:
        zygote.run(Life("make", "plain", str(folder / "template.db"), str(folder)))
        self._template = (folder / "template.db").read_bytes()
        return self._template

    def drop(self, address: str) -> None:
        """It goes with the folder."""


class Harness:
    """Runs scenarios on stores of their own, through one zygote."""

    def __init__(self, zygote: Zygote, rooms: Rooms | None = None, *, keep: Path | None = None) -> None:
        self._zygote, self._rooms, self._keep = zygote, rooms or Files(), keep

    def points(self, name: str) -> list[str]:
        """The points of a scenario, counted once without a kill."""
        with self._room(name) as (world, address):
            self._zygote.run(Life("begin", name, address, str(world.folder)))
            return [str(point) for point in (world.lines("points-begin") or [[]])[0]]

    def run_each(self, deaths: list[tuple[str, Death]]) -> Tally:
        """Who dies is a process of its own; one other recovers all of them in turn, and a third one looks at each."""
        with ExitStack() as stack:
            begun = [self._begun(name, death, *stack.enter_context(self._room(name))) for name, death in deaths]
            for part in ("finish", "look"):
                codes = self._zygote.run_in_turn([replace(life, part=part) for life, _ in begun])
                for code, (life, evidence) in zip(codes, begun, strict=True):
                    evidence.codes.append(code)
                    evidence.last, evidence.again = evidence.again, remains(life.address)
            tallies = (self._tally(evidence, death) for (_, evidence), (_, death) in zip(begun, deaths, strict=True))
            return sum(tallies, Tally())

    def _begun(self, name: str, death: Death, world: World, address: str) -> tuple[Life, Evidence]:
        """Somebody began and died. The life of somebody else in the same room, and what is known so far."""
        life = Life("begin", name, address, str(world.folder))
        evidence = Evidence(SCENARIOS[name], world, alone=self._rooms.alone)
        evidence.codes += self._zygote.run(replace(life, point=death.point, after=death.after))
        if -9 in evidence.codes:
            evidence.deaths.append(remains(address))
        return life, evidence

    def _tally(self, evidence: Evidence, *deaths: Death) -> Tally:
        tally = tally_of(evidence, deaths)
        if tally.problems and self._keep is not None:
            shutil.copytree(evidence.world.folder, self._keep / evidence.world.folder.name)
        return tally

    def run(self, name: str, *deaths: Death, survivor: bool = False, broken: str | None = None) -> Tally:
        """The first death befalls the one who begins, each further one somebody who recovers."""
        with self._room(name) as (world, address):
            evidence = Evidence(SCENARIOS[name], world, alone=self._rooms.alone and not survivor)
            beside = Life("survive", name, address, str(world.folder), broken=broken) if survivor else None
            for part, death in zip(("begin", *["finish"] * len(deaths)), (*deaths, Death()), strict=True):
                life = Life(part, name, address, str(world.folder), death.point, death.after, broken=broken)
                evidence.codes += (codes := self._zygote.run(life, beside))
                beside = None
                if -9 in codes:
                    evidence.deaths.append(remains(address))
            evidence.last = remains(address)
            evidence.codes += self._zygote.run(Life("look", name, address, str(world.folder)))
            evidence.again = remains(address)
            return self._tally(evidence, *deaths)

    @contextmanager
    def _room(self, name: str) -> Iterator[tuple[World, str]]:
        folder = Path(tempfile.mkdtemp(prefix="surehand-crash-", dir=ROOM))
        try:
            address = self._rooms.fresh(SCENARIOS[name], self._zygote, folder)
            yield World(folder), address
            self._rooms.drop(address)
        finally:
            shutil.rmtree(folder)


def chosen(points: list[str], most: int, seed: int) -> list[str]:
    """Those around the effect and what people are told, then every kind once, then others, by lot."""
    drawn = numbered(points)
    random.Random(seed).shuffle(drawn)
    vital = [point for point in drawn if "effect" in point or "told" in point]
    kinds = {point.rpartition(" (")[0]: point for point in drawn}
    return list(dict.fromkeys([*vital, *kinds.values(), *drawn]))[:most]


def tally_of(evidence: Evidence, deaths: object) -> Tally:
    """What came of one run."""
    assert evidence.last is not None
    found = problems(evidence)
    effects = evidence.world.effects()
    done = Counter('"done"' in (row["outcome"] or "") for row in evidence.last.ledger.values())[True]
    where = f"{evidence.scenario.name}, killed {evidence.world.lines('killed') or deaths}"
    told = [f"{where}: {problem}" for problem in found]
    return Tally(1, evidence.codes.count(-9), int(not found), effects.total(), done, len(evidence.unknown), told)
