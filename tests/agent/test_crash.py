"""A run whose process is killed goes on in another one: no effect twice, no stored answer requested again."""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
MOMENTS = 109
"""How often the program comes to a point at which it may be killed."""


def run(folder: Path, kill_at: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.agent.crash_program", str(folder), str(kill_at)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)


def check_killed_at(folder: Path, kill_at: int) -> None:
    killed = run(folder, kill_at)
    again = run(folder, 0)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert again.stdout.startswith("done All are paid."), again.stderr
    notes = Counter((folder / "notes.txt").read_text().splitlines())
    assert {note: count for note, count in notes.items() if note.startswith("effect") and count > 1} == {}
    # Only a request whose answer was not stored when the process died is made again.
    assert sum(count - 1 for note, count in notes.items() if note.startswith("request")) <= 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kill_at", [14, 37, 64, 93])
def test_a_run_that_is_killed_goes_on(tmp_path, kill_at):
    check_killed_at(tmp_path, kill_at)


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kill_at", range(1, MOMENTS))
def test_a_run_that_is_killed_at_any_point_goes_on(tmp_path, kill_at):
    check_killed_at(tmp_path, kill_at)
