"""The official suite finds nothing wrong with our client but what is explained. `scripts/conformance` prints it all."""

import logging

import pytest

from tests.conformance.client import play
from tests.conformance.explained import EXPLAINED, NOT_RUN
from tests.conformance.page import PAGE, suite_version
from tests.conformance.runs import EXTENSIONS, OLDER, part
from tests.conformance.suite import Result
from tests.needs import needs

pytestmark = [needs("node servers"), pytest.mark.timeout(120)]
FEWEST = {"2025-11-25": 19, "2026-07-28": 33, EXTENSIONS: 6, OLDER: 2}


@pytest.mark.parametrize("revision", FEWEST)
async def test_every_scenario_passes_or_is_explained(revision, caplog):
    caplog.set_level(logging.ERROR)  # servers that are not to be trusted are part of it

    results = await part(play, revision)

    assert len(results) >= FEWEST[revision]
    assert [told(result) for result in results if not result.ok and result.scenario not in EXPLAINED] == []
    assert [result.scenario for result in results if result.ok and result.scenario in EXPLAINED] == []


def told(result: Result) -> str:
    checks = [f"{check.name}: {check.message}" for check in result.checks if check.status in ("FAILURE", "WARNING")]
    return f"{result.scenario}: {result.said}; {'; '.join(checks)}"


def test_the_page_tells_of_each_that_is_explained():
    text = PAGE.read_text(encoding="utf-8")

    assert [name for name in (*EXPLAINED, *NOT_RUN) if f"| `{name}` |" not in text] == []
    assert suite_version() in text
