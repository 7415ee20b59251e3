"""Whoever recovers may die too, and others may be at work on the same file, and go on."""

from __future__ import annotations

import random

import pytest

from tests.crash.run import Death, Harness, Tally, chosen
from tests.crash.scenarios import ALL

pytestmark = [pytest.mark.timeout(60), pytest.mark.long]
SEED = 4711
NAMES = [scenario.name for scenario in ALL]


def drawn(harness: Harness, name: str, chance: random.Random) -> str:
    return chosen(harness.points(name), 12, chance.randrange(1 << 30))[-1]


def names(start: int) -> list[str]:
    """Every scenario is half of the work of a test."""
    return NAMES[start::2]


@pytest.mark.parametrize("start", [0, 1])
def test_whoever_recovers_may_be_killed_as_well(harness, start):
    chance, tally = random.Random(f"{SEED} {start}"), Tally()

    for name in names(start):
        tally += harness.run(name, Death(drawn(harness, name, chance)), Death(chance.randint(1, 40)), Death())

    assert tally.problems == []
    assert tally.killed > tally.runs


@pytest.mark.parametrize("start", [0, 1])
def test_a_second_runtime_on_the_same_file_goes_on_and_takes_over(harness, start):
    chance, tally = random.Random(f"{SEED} {start}"), Tally()

    for name in names(start):
        tally += harness.run(name, Death(drawn(harness, name, chance)), survivor=True)

    assert tally.problems == []
    assert tally.killed >= tally.runs // 4  # the other one may have been quicker
    assert tally.done >= tally.runs // 2


def test_a_process_may_be_killed_at_any_moment_at_all(harness):
    chance, tally = random.Random(SEED), Tally()

    while tally.runs < 25 or tally.killed < 10:  # who is quick is over when it should die
        tally += harness.run_each([(chance.choice(NAMES), Death(after=chance.uniform(0, 0.06))) for _ in range(5)])

        assert tally.problems == []
