"""The official suite reports only expected failures of our client. `scripts/conformance` prints all results."""

import logging

import pytest

from tests.conformance import expected_failures
from tests.conformance.client import play_scenario
from tests.conformance.evaluation import find_outdated, find_unexplained
from tests.conformance.results_page import PAGE, suite_version
from tests.conformance.suite_runs import BACKWARD_COMPATIBILITY, EXTENSIONS, run_client_part
from tests.requirements import needs

MIN_SCENARIOS = {"2025-11-25": 19, "2026-07-28": 33, EXTENSIONS: 6, BACKWARD_COMPATIBILITY: 2}


@pytest.mark.long
@pytest.mark.timeout(180)
@needs("node servers")
@pytest.mark.parametrize("revision", MIN_SCENARIOS)
async def test_every_scenario_passes_or_is_an_expected_failure(revision, caplog):
    caplog.set_level(logging.ERROR)  # many scenarios use an untrusted server on purpose

    results = await run_client_part(play_scenario, revision)

    scenarios = {result.scenario for result in results}
    reasons = {name: reason for name, reason in expected_failures.CLIENT.items() if name in scenarios}
    assert len(results) >= MIN_SCENARIOS[revision]
    assert find_unexplained(results, reasons) == []
    assert find_outdated(results, reasons) == []


def test_the_page_lists_every_expected_failure():
    text = PAGE.read_text(encoding="utf-8")
    tables = [
        getattr(expected_failures, name)
        for name in dir(expected_failures)
        if name.isupper() and not name.startswith("_")
    ]

    assert [name for table in tables for name in table if f"| `{name}` |" not in text] == []
    assert suite_version() in text
