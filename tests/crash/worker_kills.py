"""`scripts/crash worker`: kills a process that triggers an agent and works on the event, and checks what is left.

The event is one run, whenever the process dies; no effect happens twice, and no answer of the model that was stored is
asked for again.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from surehand import Runtime
from tests.crash.run_log_file import read_lines
from tests.temp_folders import TEMP_FOLDER_PARENT

PROJECT = Path(__file__).parents[2]
EFFECTS = {"post ann", "pay bob"}


def run_program(folder: Path, address: str, kill_at: int = 0) -> int:
    """Run the process; returns its moments, or 0 if it was killed."""
    command = [sys.executable, "-m", "tests.crash.worker_program", str(folder), address, str(kill_at)]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False)
    if ended.returncode == -signal.SIGKILL:
        return 0
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


def kill_and_recover(folder: Path, address: str, kill_at: int) -> list[str]:
    """Kill a process at a moment, let another one finish, and return what is wrong then."""
    run_program(folder, address, kill_at)
    steps_at_kill = asyncio.run(_count_steps(address))
    requests_at_kill = len(read_lines(folder / "requests"))
    run_program(folder, address)
    later_requests = read_lines(folder / "requests")[requests_at_kill:]
    return [
        *asyncio.run(_find_problems(address)),
        *_find_effect_problems(Counter(read_lines(folder / "effects"))),
        *(f"the model was asked again for step {step}" for step in later_requests if step < steps_at_kill),
    ]


async def _count_steps(address: str) -> int:
    async with Runtime(store=address) as runtime:
        assert runtime.store is not None
        event = await runtime.find_event("clerk", "e1")
        return 0 if event is None else len(await runtime.store.steps.list(event.run_id or ""))


async def _find_problems(address: str) -> list[str]:
    async with Runtime(store=address) as runtime:
        assert runtime.store is not None
        event = await runtime.find_event("clerk", "e1")
        runs = await runtime.store.runs.latest()
        waits = await runtime.pending()
    problems = [f"{wait.tool} still waits" for wait in waits]
    if event is None or (event.status, event.attempts) != ("done", 0):
        problems.append(f"the event has become {event}")
    if [run.state for run in runs] != ["done"]:
        problems.append(f"the runs are {[(run.run_id, run.state) for run in runs]}")
    return problems


def _find_effect_problems(effects: Counter[str]) -> Iterator[str]:
    yield from (f"{effect} happened {number} times" for effect, number in effects.items() if number > 1)
    yield from (f"{effect} is no effect of the run" for effect in effects.keys() - EFFECTS)


def main() -> int:
    parser = ArgumentParser(prog="scripts/crash worker", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    problems = 0
    with tempfile.TemporaryDirectory(dir=TEMP_FOLDER_PARENT) as parent:
        measured = _new_folder(parent, "measured")
        moments = run_program(measured, str(measured / "store.db"))
        for number in range(options.runs):
            folder = _new_folder(parent, str(number))
            kill_at = generator.randint(1, moments)
            for problem in kill_and_recover(folder, str(folder / "store.db"), kill_at):
                problems += 1
                print(f"run {number}, killed at moment {kill_at} of {moments}: {problem}", flush=True)
    print(f"{options.runs} kills, {problems} problems")
    return int(problems > 0)


def _new_folder(parent: str, name: str) -> Path:
    folder = Path(parent, name)
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
