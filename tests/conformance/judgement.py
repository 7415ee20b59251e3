"""What the results mean: what fails without a reason, and which reasons are of no use any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from tests.conformance.explained import Reason
from tests.conformance.suite import Check, Result


def unexplained(results: Iterable[Result], explained: Mapping[str, Reason]) -> list[str]:
    """Each thing that is wrong and has no reason given, in a sentence."""
    return list(chain.from_iterable(_unexplained(result, explained) for result in results))


def outdated(results: Sequence[Result], explained: Mapping[str, Reason]) -> list[str]:
    """The reasons for what is not wrong."""
    return [f"{name}: {what}" for name, reason in explained.items() for what in _outdated(name, reason, results)]


def trouble(result: Result) -> list[Check]:
    """The checks that it did not pass."""
    return [check for check in result.checks if check.status in ("FAILURE", "WARNING")]


def _unexplained(result: Result, explained: Mapping[str, Reason]) -> Iterator[str]:
    reason = explained.get(result.scenario)
    covered = reason is not None and reason.is_for(result.version)
    for check in trouble(result):
        if reason is None or not covered or check.name not in reason.failing(result.scenario):
            yield f"{result.scenario} ({result.version}): {check.name}: {check.message}"
    if not covered and not result.ok and not trouble(result):
        yield f"{result.scenario} ({result.version}): {result.said or 'Nothing of it was looked at.'}"


def _outdated(name: str, reason: Reason, results: Sequence[Result]) -> Iterator[str]:
    mine = [result for result in results if result.scenario == name and reason.is_for(result.version)]
    if not mine:
        yield "it was not run"
    for result in mine:
        failing = {check.name for check in trouble(result)}
        if result.ok:
            yield f"it passes ({result.version})"
        elif passed := [check for check in reason.failing(name) if check not in failing]:
            yield f"{', '.join(passed)} passes ({result.version})"
