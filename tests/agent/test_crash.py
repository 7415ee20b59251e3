"""A run whose process is killed goes on in another one: no effect twice, no stored answer requested again."""

import itertools
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
EFFECTS = ("effect started", "effect 250", "effect 100", "effect finished")
"""What the run does to the world."""
SHARES = 8
"""The tests among which the points are divided at which the program is killed."""


def run(folder: Path, kill_at: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.agent.crash_program", str(folder), str(kill_at)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)


def check_killed_at(folder: Path, kill_at: int) -> bool:
    """Kill the program at one point and run it again; False if it ended before it came to that point."""
    folder.mkdir(exist_ok=True)
    killed = run(folder, kill_at)
    if killed.returncode == 0:
        assert reported_moments(killed) < kill_at
        return False
    again = run(folder, 0)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert again.stdout.startswith("done All are paid."), again.stderr
    notes = Counter((folder / "notes.txt").read_text().splitlines())
    assert [effect for effect in EFFECTS if notes[effect] > 1] == []
    # None is lost either: what did not happen was interrupted, and a person has told the agent so.
    assert [effect for effect in EFFECTS if not notes[effect] and not notes[f"told: no {effect}"]] == []
    # Only a request whose answer was not stored when the process died is made again.
    assert sum(count - 1 for note, count in notes.items() if note.startswith("request")) <= 1
    return True


def reported_moments(ended: subprocess.CompletedProcess[str]) -> int:
    """How often the program came to a point at which it may be killed, as it says itself."""
    return int(ended.stdout.split("moments ")[1])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kill_at", [14, 37, 64, 93])
def test_a_run_that_is_killed_goes_on(tmp_path, kill_at):
    assert check_killed_at(tmp_path, kill_at)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1, SHARES + 1))
def test_a_run_that_is_killed_at_any_point_goes_on(tmp_path, first):
    # The number of points differs from run to run: a lease is renewed in the background, or not in time.
    points = itertools.takewhile(
        lambda kill_at: check_killed_at(tmp_path / str(kill_at), kill_at), itertools.count(first, SHARES)
    )

    assert len(list(points)) > 1
