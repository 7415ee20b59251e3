"""Outage: the server is killed under a load and comes back; then the runtime is restarted, and the judge looks."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.crash.judge import Evidence
from tests.crash.process import Life
from tests.crash.remains import remains
from tests.crash.run import Tally, tally_of
from tests.crash.scenarios import LOAD
from tests.crash.server import Server
from tests.crash.world import World
from tests.crash.zygote import Zygote
from tests.room import ROOM

PATIENCE = 40.0


@dataclass(frozen=True)
class Kill:
    """When the server is killed: at a numbered point of the load, or so many seconds after its first effects."""

    point: int | None = None
    after: float = 0.0
    away: float = 0.0
    """Seconds until it is started again."""
    both: bool = False
    """Whether the process that makes the calls dies with it; at a point only."""


def outage(server: Server, zygote: Zygote, kill: Kill, *, keep: Path | None = None) -> Tally:
    """One kill under load. Calls in flight mostly survive: what has happened is written when the server is back."""
    world = World(Path(tempfile.mkdtemp(prefix="surehand-crash-", dir=ROOM)))
    address = server.fresh(LOAD, zygote, world.folder)
    evidence = Evidence(LOAD, world, alone=False)
    victims = (server.pid, 0) if kill.both else (server.pid,)
    life = Life("load", LOAD.name, address, str(world.folder), point=kill.point, victims=victims)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(zygote.run, life)
        try:
            _kill(server, world, kill)
            time.sleep(kill.away)
            server.restart()
            told = len(world.lines("told"))
            _until(lambda: len(world.lines("told")) >= told + 50 or running.done())
        finally:
            (world.folder / "stop").touch()
        evidence.codes += running.result(PATIENCE)
    for part in ("finish", "look"):
        evidence.codes += zygote.run(Life(part, LOAD.name, address, str(world.folder)))
        evidence.last, evidence.again = evidence.again or remains(address), remains(address)
    tally = replace(tally_of(evidence, kill), killed=1)
    if tally.problems and keep is not None:
        shutil.copytree(world.folder, keep / world.folder.name)
    shutil.rmtree(world.folder)
    server.drop(address)
    return tally


def _kill(server: Server, world: World, kill: Kill) -> None:
    if kill.point is None:
        _until(lambda: len(world.lines("effects")) >= 20)
        time.sleep(kill.after)
        server.kill()
        world.note("killed", f"after {kill.after:g} s")
    else:
        _until(lambda: bool(world.lines("killed")))


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("The load does not get on.")
        time.sleep(0.005)
