"""A recovering process may be killed too, and other processes may work on the same file at the same time."""

from __future__ import annotations

import random

import pytest

from tests.crash.harness import Harness, ProcessKill, Tally, choose_points
from tests.crash.scenarios import CRASH_SCENARIOS

pytestmark = pytest.mark.timeout(240)
SEED = 4711
NAMES = [scenario.name for scenario in CRASH_SCENARIOS]


def random_point(harness: Harness, name: str, generator: random.Random) -> str:
    return choose_points(harness.points(name), 12, generator.randrange(1 << 30))[-1]


def scenario_names(start: int) -> list[str]:
    """Half of the scenarios: each test runs in two parts."""
    return NAMES[start::2]


@pytest.mark.parametrize("name", ["agent", "sub-agents", "follows a run"])
def test_of_two_processes_that_resume_one_run_one_drives(harness, name):
    tally = harness.run(name, ProcessKill(), survivor=True)

    assert tally.problems == []  # no request to a model was made twice
    assert tally.killed == 0


@pytest.mark.parametrize("name", ["agent", "follows a run"])
@pytest.mark.parametrize(
    "answers", [ProcessKill(), ProcessKill("after the reply to approve (1)")], ids=["alive", "killed"]
)
def test_a_process_without_the_agent_answers_calls_of_its_own_tools(harness, name, answers):
    tally = harness.run(name, ProcessKill("before approve (1)"), answers=answers)

    assert tally.problems == []
    assert tally.killed == (1 if answers.point is None else 2)


@pytest.mark.long
@pytest.mark.parametrize("name", ["agent", "sub-agents", "follows a run"])
def test_a_process_without_the_agent_may_be_killed_while_it_answers(harness, name):
    tally = Tally()

    for point in range(1, 40, 3):
        tally += harness.run(name, ProcessKill("before approve (1)"), answers=ProcessKill(point))

    assert tally.problems == []
    assert tally.killed > 1.5 * tally.runs


@pytest.mark.long
@pytest.mark.parametrize("start", [0, 1])
def test_a_recovering_process_may_be_killed_too(harness, start):
    generator, tally = random.Random(f"{SEED} {start}"), Tally()

    for name in scenario_names(start):
        tally += harness.run(
            name,
            ProcessKill(random_point(harness, name, generator)),
            ProcessKill(generator.randint(1, 40)),
            ProcessKill(),
        )

    assert tally.problems == []
    assert tally.killed > tally.runs


@pytest.mark.long
@pytest.mark.parametrize("start", [0, 1])
def test_a_second_runtime_on_the_same_file_takes_over(harness, start):
    generator, tally = random.Random(f"{SEED} {start}"), Tally()

    for name in scenario_names(start):
        tally += harness.run(name, ProcessKill(random_point(harness, name, generator)), survivor=True)

    assert tally.problems == []
    assert tally.killed >= tally.runs // 4  # the survivor may have finished first
    assert tally.done >= tally.runs // 2


@pytest.mark.long
def test_a_process_may_be_killed_at_any_moment(harness):
    generator, tally = random.Random(SEED), Tally()

    while tally.runs < 25 or tally.killed < 10:  # a fast process may have ended before its kill
        tally += harness.run_each(
            [(generator.choice(NAMES), ProcessKill(after_seconds=generator.uniform(0, 0.06))) for _ in range(5)]
        )

        assert tally.problems == []
