"""A process is killed at the numbered points of a call's life; another one recovers, and the judge finds no fault."""

from __future__ import annotations

import pytest

from tests.crash.run import Death, Harness, Tally, chosen

pytestmark = pytest.mark.timeout(60)
KILLS, SEED = 20, 20260
"""Kills per scenario: more than three hundred in all. `scripts/crash` makes ten thousand."""


def killed_at_points(harness: Harness, name: str) -> Tally:
    points = chosen(harness.points(name), KILLS, SEED)
    tally = harness.run_each([(name, Death(point)) for point in points])
    assert tally.problems == []
    assert tally.runs == tally.recovered == KILLS
    assert tally.killed >= KILLS - 3, "what is counted is no longer where processes die"
    return tally


@pytest.mark.parametrize("name", ["given id", "approved", "settled", "nested"])
def test_a_few_kills_find_no_fault(harness, name):
    tally = harness.run_each([(name, Death(point)) for point in chosen(harness.points(name), 3, SEED)])

    assert tally.problems == []
    assert tally.killed >= 2
    assert tally.recovered == 3


@pytest.mark.long
@pytest.mark.parametrize("name", ["plain", "approved"])
def test_a_call_without_an_id_of_its_callers_happens_at_most_once(harness, name):
    tally = killed_at_points(harness, name)

    assert KILLS // 4 < tally.effects == tally.done < KILLS  # who was killed early enough had called nobody
    assert tally.unknown >= 2


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["given id", "approved, given id", "approved, edited", "verified", "verified approval", "large output", "new file"],
)
def test_a_call_that_is_asked_for_again_under_its_id_happens_exactly_once_or_is_known_not_to_have(harness, name):
    tally = killed_at_points(harness, name)

    assert KILLS - 5 <= tally.effects == tally.done <= KILLS
    assert tally.unknown >= 1


@pytest.mark.long
def test_a_repeatable_call_may_happen_again_and_is_never_unknown(harness):
    tally = killed_at_points(harness, "repeatable")

    assert tally.done == KILLS < tally.effects
    assert tally.unknown == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["rejected", "expired"])
def test_a_call_that_nobody_agreed_to_never_happens(harness, name):
    tally = killed_at_points(harness, name)

    assert (tally.effects, tally.done, tally.unknown) == (0, 0, 0)


@pytest.mark.long
@pytest.mark.parametrize("name", ["settled", "waits twice"])
def test_an_answer_of_a_person_is_the_outcome_and_in_the_inbox_once(harness, name):
    tally = killed_at_points(harness, name)

    assert (tally.effects, tally.done, tally.unknown) == (0, KILLS, 0)


@pytest.mark.long
def test_a_call_that_waits_for_another_one_ends_as_that_does(harness):
    tally = killed_at_points(harness, "nested")

    assert tally.done > KILLS
    assert tally.unknown >= 2


@pytest.mark.long
def test_calls_whose_writes_share_a_commit_keep_or_lose_their_own(harness):
    tally = killed_at_points(harness, "together")

    assert tally.done > 8 * KILLS
    assert tally.unknown >= KILLS // 2
