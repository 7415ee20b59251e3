"""Compares results with the expected failures: finds unexplained failures and outdated explanations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from tests.conformance.expected_failures import ExpectedFailure
from tests.conformance.suite import Check, Result


def find_unexplained(results: Iterable[Result], expected: Mapping[str, ExpectedFailure]) -> list[str]:
    """A line for each failed check or scenario that is not expected."""
    return list(chain.from_iterable(_find_unexplained(result, expected) for result in results))


def find_outdated(results: Sequence[Result], expected: Mapping[str, ExpectedFailure]) -> list[str]:
    """A line for each expected failure that did not happen."""
    return [f"{name}: {what}" for name, reason in expected.items() for what in _find_outdated(name, reason, results)]


def failed_checks(result: Result) -> list[Check]:
    """The checks that failed or warned."""
    return [check for check in result.checks if check.status in ("FAILURE", "WARNING")]


def _find_unexplained(result: Result, expected: Mapping[str, ExpectedFailure]) -> Iterator[str]:
    reason = expected.get(result.scenario)
    is_expected = reason is not None and reason.applies_to(result.version)
    for check in failed_checks(result):
        if reason is None or not is_expected or check.name not in reason.expected_checks(result.scenario):
            yield f"{result.scenario} ({result.version}): {check.name}: {check.message}"
    if not is_expected and not result.ok and not failed_checks(result):
        yield f"{result.scenario} ({result.version}): {result.message or 'The suite ran no check.'}"


def _find_outdated(name: str, reason: ExpectedFailure, results: Sequence[Result]) -> Iterator[str]:
    own_results = [result for result in results if result.scenario == name and reason.applies_to(result.version)]
    if not own_results:
        yield "it was not run"
    for result in own_results:
        failed = {check.name for check in failed_checks(result)}
        if result.ok:
            yield f"it passes ({result.version})"
        elif passed := [check for check in reason.expected_checks(name) if check not in failed]:
            yield f"{', '.join(passed)} passes ({result.version})"
