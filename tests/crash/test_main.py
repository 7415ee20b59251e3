"""`python -m tests.crash` ends with its table, also when it is stopped before all runs were made."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.crash.__main__ import expand_groups
from tests.crash.scenarios import AGENT_SCENARIOS, CRASH_SCENARIOS

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]
ROOT = Path(__file__).parents[2]


@contextmanager
def crash_runs(*options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.crash", "--scenario", "plain", "--jobs", "1", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_prints_its_table(number: signal.Signals) -> None:
    with crash_runs("--runs", "1000000") as process:
        while not psutil.Process(process.pid).children():  # the runs have begun
            assert process.poll() is None
        process.send_signal(number)
        output, errors = process.communicate()

    assert process.returncode == 128 + number
    assert output.startswith("scenario")
    assert "of 1000000 runs" in output
    assert "Stopping" in errors


def test_no_run_is_started_when_the_time_is_over() -> None:
    with crash_runs("--runs", "1000000", "--seconds", "1") as process:
        output, _ = process.communicate()

    assert process.returncode == 0
    assert "of 1000000 runs" in output


def test_all_runs_are_made() -> None:
    with crash_runs("--runs", "12") as process:
        output, _ = process.communicate()

    name, runs, *_, problems = output.splitlines()[-1].split()
    assert (process.returncode, name, runs, problems) == (0, "all", "12", "0")


def test_several_scenarios_and_groups_of_them_can_be_chosen() -> None:
    with crash_runs("--scenario", "two runs", "follows a run", "--runs", "12") as process:
        output, errors = process.communicate()

    names = [line[:22].strip() for line in output.splitlines()[1:]]
    assert process.returncode == 0, errors
    assert set(names) <= {"plain", "two runs", "follows a run", "all"}
    assert len(names) > 2


def test_the_group_of_agents_is_all_scenarios_in_which_an_agent_runs() -> None:
    assert expand_groups(["plain", "agents"]) == {"plain", *AGENT_SCENARIOS}
    assert {scenario.name for scenario in CRASH_SCENARIOS if scenario.runs} <= set(AGENT_SCENARIOS)
