"""A judge that finds no fault must be able to find one: runtimes that are broken on purpose are caught."""

from __future__ import annotations

import pytest

from tests.crash.run import Death, chosen

BROKEN = {
    "intent_after_effect": ("given id", "happened 2 times"),
    "told_before_written": ("plain", "was told, and"),
    "runs_again": ("given id", "happened 2 times"),
    "outcome_changes": ("settled", "is stored"),
    "inbox_apart": ("settled", "the inbox holds"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("way", BROKEN)
def test_a_runtime_that_is_broken_on_purpose_is_caught(harness, way):
    name, complaint = BROKEN[way]
    found: list[str] = []

    for point in chosen(harness.points(name), 30, 1):
        found += harness.run(name, Death(point), broken=way).problems
        if any(complaint in problem for problem in found):
            return

    pytest.fail(f"Nobody noticed {way}: {found}")


@pytest.mark.timeout(60)
def test_a_process_that_is_not_killed_leaves_nothing_to_find_out(harness):
    tally = harness.run("together", Death())

    assert tally.problems == []
    assert (tally.killed, tally.unknown) == (0, 0)
