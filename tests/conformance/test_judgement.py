"""Nothing that fails goes unseen, and no reason outlives what it is for."""

from tests.conformance.explained import Reason
from tests.conformance.judgement import outdated, unexplained
from tests.conformance.suite import Check, Result


def result(scenario: str = "ping", *, version: str = "2026-07-28", wrong: bool = False, **checks: str) -> Result:
    return Result(scenario, version, tuple(Check(name, status, "") for name, status in checks.items()), wrong=wrong)


def test_what_fails_or_warns_needs_a_reason():
    found = [result(a="SUCCESS", b="FAILURE"), result("tools-list", a="WARNING", b="SUCCESS")]

    assert unexplained(found, {}) == ["ping (2026-07-28): b: ", "tools-list (2026-07-28): a: "]
    assert unexplained(found, {"ping": Reason("no", checks=("b",)), "tools-list": Reason("no", checks=("a",))}) == []


def test_a_scenario_that_looked_at_nothing_needs_a_reason():
    assert unexplained([result(a="INFO"), result("tools-list", wrong=True)], {}) == [
        "ping (2026-07-28): Nothing of it was looked at.",
        "tools-list (2026-07-28): Nothing of it was looked at.",
    ]


def test_a_reason_is_only_for_the_checks_and_the_revision_that_it_names():
    found = [result(a="FAILURE", b="FAILURE"), result(version="2025-11-25", a="FAILURE", b="SUCCESS")]
    reasons = {"ping": Reason("no", checks=("a",), at="2026-07-28")}

    assert unexplained(found, reasons) == ["ping (2026-07-28): b: ", "ping (2025-11-25): a: "]


def test_a_reason_that_names_no_check_is_for_the_one_that_bears_the_name_of_the_scenario():
    found = [result(ping="FAILURE", b="WARNING")]

    assert unexplained(found, {"ping": Reason("no")}) == ["ping (2026-07-28): b: "]


def test_a_reason_for_what_passes_is_outdated():
    assert outdated([result(a="SUCCESS")], {"ping": Reason("no")}) == ["ping: it passes (2026-07-28)"]
    assert outdated([result(a="FAILURE", ping="SUCCESS")], {"ping": Reason("no")}) == ["ping: ping passes (2026-07-28)"]
    assert outdated([result(a="FAILURE", b="SUCCESS")], {"ping": Reason("no", checks=("a", "b"))}) == [
        "ping: b passes (2026-07-28)"
    ]
    assert outdated([result(a="FAILURE")], {"pong": Reason("no")}) == ["pong: it was not run"]
    assert outdated([result(ping="FAILURE")], {"ping": Reason("no")}) == []
