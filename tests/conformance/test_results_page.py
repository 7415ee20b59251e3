"""The tables of the conformance page."""

from tests.conformance.results_page import format_table
from tests.conformance.suite import Check, Result


def test_a_scenario_that_was_run_twice_is_marked():
    passed = (Check("ping", "SUCCESS", ""),)

    [_, once, twice, _] = format_table(
        {"now": [Result("a", "now", passed), Result("b", "now", passed, second_run=True)]}
    )

    assert once == ("a", "1 passed")
    assert twice == ("b", "1 passed (second run)")
