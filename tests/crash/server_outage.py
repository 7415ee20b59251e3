"""Kills the PostgreSQL server under load and restarts it, then restarts the runtime and checks the invariants."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.crash.fork_server import ForkServer
from tests.crash.harness import Tally, make_tally
from tests.crash.invariants import Evidence
from tests.crash.killable_postgres import KillablePostgres
from tests.crash.process import ProcessPlan
from tests.crash.run_log import RunLog
from tests.crash.scenarios import LOAD
from tests.crash.stored_state import read_stored_state
from tests.temp_folders import TEMP_FOLDER_PARENT

OUTAGE_TIMEOUT_SECONDS = 120.0
"""Time without any effect or reply after which the load counts as stuck."""


@dataclass(frozen=True)
class ServerKill:
    """When to kill the server: at a numbered point of the load, or some seconds after its first effects."""

    point: int | None = None
    after_seconds: float = 0.0
    downtime_seconds: float = 0.0
    """Seconds until the server is started again."""
    kill_caller: bool = False
    """Whether to kill the calling process too; only at a point."""


def run_outage(
    server: KillablePostgres, fork_server: ForkServer, kill: ServerKill, *, keep: Path | None = None
) -> Tally:
    """Kill the server once under load. Most calls in flight survive: their outcome is written after the restart."""
    run_log = RunLog(Path(tempfile.mkdtemp(prefix="surehand-crash-", dir=TEMP_FOLDER_PARENT)))
    address = server.create(LOAD, fork_server, run_log.folder)
    evidence = Evidence(LOAD, run_log, server_kills=1, exclusive=False)
    victims = (server.pid, 0) if kill.kill_caller else (server.pid,)
    plan = ProcessPlan("load", LOAD.name, address, str(run_log.folder), point=kill.point, victims=victims)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(fork_server.run, plan)
        try:
            _kill_server(server, run_log, kill)
            time.sleep(kill.downtime_seconds)
            server.restart()
            replies = len(run_log.lines("replies"))
            _wait_until(run_log, lambda: len(run_log.lines("replies")) >= replies + 50 or running.done())
        finally:
            (run_log.folder / "stop").touch()
        evidence.codes += running.result(OUTAGE_TIMEOUT_SECONDS)
    for part in ("finish", "verify"):
        evidence.codes += fork_server.run(ProcessPlan(part, LOAD.name, address, str(run_log.folder)))
        evidence.final, evidence.after_restart = (
            evidence.after_restart or read_stored_state(address),
            read_stored_state(address),
        )
    tally = replace(make_tally(evidence, kill), killed=1)
    if tally.problems and keep is not None:
        shutil.copytree(run_log.folder, keep / run_log.folder.name)
    shutil.rmtree(run_log.folder)
    server.remove(address)
    return tally


def _kill_server(server: KillablePostgres, run_log: RunLog, kill: ServerKill) -> None:
    if kill.point is None:
        _wait_until(run_log, lambda: len(run_log.lines("effects")) >= 20)
        time.sleep(kill.after_seconds)
        server.kill()
        run_log.note("killed", f"after {kill.after_seconds:g} s")
    else:
        _wait_until(run_log, lambda: bool(run_log.lines("killed")))


def _wait_until(run_log: RunLog, condition: Callable[[], bool]) -> None:
    """Wait as long as the load has effects and gets replies."""
    seen, deadline = -1, 0.0
    while not condition():
        progress = len(run_log.lines("effects")) + len(run_log.lines("replies"))
        if progress != seen:
            seen, deadline = progress, time.monotonic() + OUTAGE_TIMEOUT_SECONDS
        if time.monotonic() > deadline:
            raise TimeoutError(f"The load makes no progress after {progress} effects and replies.")
        time.sleep(0.02)
