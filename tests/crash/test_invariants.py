"""The invariant checks detect every deliberate fault, and report none for a process that is not killed."""

from __future__ import annotations

import pytest

from tests.crash.harness import ProcessKill, choose_points

FAULTS = {
    "intent_after_effect": ("given id", "happened 2 times"),
    "reply_before_write": ("plain", "was the reply, but"),
    "rerun_unknown_calls": ("given id", "happened 2 times"),
    "overwrite_outcome": ("settled", "is stored"),
    "push_to_inbox_separately": ("settled", "the inbox holds"),
    "ask_model_again": ("agent", "was asked again"),
    "drop_outcomes_of_steps": ("agent", "the step of"),
    "never_follow": ("repeated", "does not follow"),
    "forget_reports": ("sub-agents", "its run reported"),
    "forget_inner_outcomes": ("nested", "ended with {'done': 'It has ended.'}, and"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault", FAULTS)
def test_each_deliberate_fault_is_detected(harness, fault):
    name, complaint = FAULTS[fault]
    problems: list[str] = []

    for point in choose_points(harness.points(name), 30, 1):
        problems += harness.run(name, ProcessKill(point), fault=fault).problems
        if any(complaint in problem for problem in problems):
            return

    pytest.fail(f"No check detected {fault}: {problems}")


@pytest.mark.timeout(60)
def test_a_process_that_is_not_killed_leaves_no_unknown_calls(harness):
    tally = harness.run("together", ProcessKill())

    assert tally.problems == []
    assert (tally.killed, tally.unknown) == (0, 0)
