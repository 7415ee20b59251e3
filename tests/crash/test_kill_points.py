"""A process is killed at the numbered points of a call; another process recovers, and every invariant holds."""

from __future__ import annotations

import pytest

from tests.crash.harness import Harness, ProcessKill, Tally, choose_points
from tests.crash.run_batch import SERVER_SETTLING_SECONDS
from tests.crash.scenarios import AGENT_SCENARIOS

pytestmark = pytest.mark.timeout(60)
KILLS_PER_SCENARIO = 20
"""More than three hundred kills in all; `scripts/crash` makes ten thousand."""
SEED = 20260
AGENT_SCENARIO_HALVES = [(name, start) for name in ("agent", "two runs", "sub-agents") for start in (0, 1)]


def run_with_kills(harness: Harness, name: str) -> Tally:
    points = choose_points(harness.points(name), KILLS_PER_SCENARIO, SEED)
    tally = harness.run_each([(name, ProcessKill(point)) for point in points])
    assert tally.problems == []
    assert tally.runs == tally.recovered == KILLS_PER_SCENARIO
    assert tally.killed >= KILLS_PER_SCENARIO - 3, "most chosen points no longer kill a process"
    return tally


@pytest.mark.parametrize(
    "name", ["given id", "approved", "settled", "nested", "follows a run", "agent", "sub-agents", "repeated"]
)
def test_the_invariants_hold_after_a_few_kills(harness, name):
    tally = harness.run_each([(name, ProcessKill(point)) for point in choose_points(harness.points(name), 3, SEED)])

    assert tally.problems == []
    assert tally.killed >= 2
    assert tally.recovered == 3


@pytest.mark.long
@pytest.mark.parametrize("name", ["plain", "approved"])
def test_a_call_without_a_call_id_from_the_caller_happens_at_most_once(harness, name):
    tally = run_with_kills(harness, name)

    assert (
        KILLS_PER_SCENARIO // 4 < tally.effects == tally.done < KILLS_PER_SCENARIO
    )  # a process that was killed early had made no call
    assert tally.unknown >= 2


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["given id", "approved, given id", "approved, edited", "verified", "verified approval", "large output", "new file"],
)
def test_a_call_repeated_under_its_id_happens_exactly_once_or_is_known_not_to_have_happened(harness, name):
    tally = run_with_kills(harness, name)

    assert KILLS_PER_SCENARIO - 5 <= tally.effects == tally.done <= KILLS_PER_SCENARIO
    assert tally.unknown >= 1


@pytest.mark.long
def test_a_repeatable_call_may_happen_again_and_is_never_unknown(harness):
    tally = run_with_kills(harness, "repeatable")

    assert tally.done == KILLS_PER_SCENARIO < tally.effects
    assert tally.unknown == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["rejected", "expired"])
def test_a_call_that_is_not_approved_never_happens(harness, name):
    tally = run_with_kills(harness, name)

    assert (tally.effects, tally.done, tally.unknown) == (0, 0, 0)


@pytest.mark.long
@pytest.mark.parametrize("name", ["settled", "waits twice"])
def test_the_answer_of_a_person_becomes_the_outcome_and_is_in_the_inbox_once(harness, name):
    tally = run_with_kills(harness, name)

    assert (tally.effects, tally.done, tally.unknown) == (0, KILLS_PER_SCENARIO, 0)


@pytest.mark.long
def test_a_call_with_a_pending_nested_call_ends_with_its_outcome(harness):
    tally = run_with_kills(harness, "nested")

    assert tally.done > KILLS_PER_SCENARIO
    assert tally.unknown >= 2


@pytest.mark.long
def test_a_call_that_waits_for_a_run_ends_with_its_report_and_no_answer_is_requested_again(harness):
    tally = run_with_kills(harness, "follows a run")

    assert tally.done > 4 * KILLS_PER_SCENARIO
    assert tally.unknown >= 2


@pytest.mark.long
@pytest.mark.timeout(240)  # a run makes ten times as many writes as a call
@pytest.mark.parametrize(("name", "start"), AGENT_SCENARIO_HALVES)
def test_the_run_of_an_agent_goes_on_without_a_second_effect_or_a_second_request(harness, name, start):
    points = choose_points(harness.points(name), KILLS_PER_SCENARIO, SEED)[start::2]

    tally = harness.run_each([(name, ProcessKill(point)) for point in points])

    assert tally.problems == []
    assert tally.killed >= len(points) - 3
    assert min(tally.effects, tally.done) >= 5 * len(points)


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", AGENT_SCENARIOS)
def test_the_same_holds_for_agents_on_a_database_server(server, fork_server, name):
    server.wait_until_settled(SERVER_SETTLING_SECONDS)
    harness = Harness(fork_server, server)
    points = choose_points(harness.points(name), KILLS_PER_SCENARIO // len(AGENT_SCENARIOS), SEED)

    tally = harness.run_each([(name, ProcessKill(point)) for point in points])

    assert tally.problems == []
    assert tally.killed >= len(points) - 2
    assert tally.recovered == len(points)
    assert min(tally.effects, tally.done) >= len(points)


@pytest.mark.long
def test_calls_whose_writes_share_a_commit_recover_independently(harness):
    tally = run_with_kills(harness, "together")

    assert tally.done > 8 * KILLS_PER_SCENARIO
    assert tally.unknown >= KILLS_PER_SCENARIO // 2


@pytest.mark.long
def test_a_call_that_is_made_again_after_a_crash_follows_the_one_that_waits_or_is_unknown(harness):
    tally = run_with_kills(harness, "repeated")

    assert tally.effects < tally.done  # calls that follow end with the outcome of another one
    assert tally.unknown >= 1
