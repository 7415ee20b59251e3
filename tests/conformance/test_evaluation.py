"""Unexpected failures and outdated explanations are found."""

from tests.conformance.evaluation import find_outdated, find_unexplained
from tests.conformance.expected_failures import ExpectedFailure
from tests.conformance.suite import Check, Result


def make_result(
    scenario: str = "ping", *, version: str = "2026-07-28", is_error: bool = False, **checks: str
) -> Result:
    return Result(
        scenario, version, tuple(Check(name, status, "") for name, status in checks.items()), is_error=is_error
    )


def test_a_failure_or_warning_must_be_expected():
    results = [make_result(a="SUCCESS", b="FAILURE"), make_result("tools-list", a="WARNING", b="SUCCESS")]

    assert find_unexplained(results, {}) == ["ping (2026-07-28): b: ", "tools-list (2026-07-28): a: "]
    assert (
        find_unexplained(
            results, {"ping": ExpectedFailure("no", checks=("b",)), "tools-list": ExpectedFailure("no", checks=("a",))}
        )
        == []
    )


def test_a_scenario_without_a_check_must_be_expected():
    assert find_unexplained([make_result(a="INFO"), make_result("tools-list", is_error=True)], {}) == [
        "ping (2026-07-28): The suite ran no check.",
        "tools-list (2026-07-28): The suite ran no check.",
    ]


def test_an_expectation_applies_only_to_its_checks_and_its_revision():
    results = [make_result(a="FAILURE", b="FAILURE"), make_result(version="2025-11-25", a="FAILURE", b="SUCCESS")]
    reasons = {"ping": ExpectedFailure("no", checks=("a",), revision="2026-07-28")}

    assert find_unexplained(results, reasons) == ["ping (2026-07-28): b: ", "ping (2025-11-25): a: "]


def test_an_expectation_without_checks_applies_to_the_check_with_the_scenarios_name():
    results = [make_result(ping="FAILURE", b="WARNING")]

    assert find_unexplained(results, {"ping": ExpectedFailure("no")}) == ["ping (2026-07-28): b: "]


def test_an_expectation_for_a_passing_check_is_outdated():
    assert find_outdated([make_result(a="SUCCESS")], {"ping": ExpectedFailure("no")}) == [
        "ping: it passes (2026-07-28)"
    ]
    assert find_outdated([make_result(a="FAILURE", ping="SUCCESS")], {"ping": ExpectedFailure("no")}) == [
        "ping: ping passes (2026-07-28)"
    ]
    assert find_outdated(
        [make_result(a="FAILURE", b="SUCCESS")], {"ping": ExpectedFailure("no", checks=("a", "b"))}
    ) == ["ping: b passes (2026-07-28)"]
    assert find_outdated([make_result(a="FAILURE")], {"pong": ExpectedFailure("no")}) == ["pong: it was not run"]
    assert find_outdated([make_result(ping="FAILURE")], {"ping": ExpectedFailure("no")}) == []
