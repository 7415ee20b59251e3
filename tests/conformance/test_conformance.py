"""The official suite finds nothing wrong with our client but what is explained. `scripts/conformance` prints it all."""

import logging

import pytest

from tests.conformance import explained
from tests.conformance.client import play
from tests.conformance.judgement import outdated, unexplained
from tests.conformance.page import PAGE, suite_version
from tests.conformance.runs import BEFORE, EXTENSIONS, part
from tests.needs import needs

FEWEST = {"2025-11-25": 19, "2026-07-28": 33, EXTENSIONS: 6, BEFORE: 2}


@pytest.mark.long
@pytest.mark.timeout(180)
@needs("node servers")
@pytest.mark.parametrize("revision", FEWEST)
async def test_every_scenario_passes_or_is_explained(revision, caplog):
    caplog.set_level(logging.ERROR)  # servers that are not to be trusted are part of it

    results = await part(play, revision)

    there = {result.scenario for result in results}
    reasons = {name: reason for name, reason in explained.CLIENT.items() if name in there}
    assert len(results) >= FEWEST[revision]
    assert unexplained(results, reasons) == []
    assert outdated(results, reasons) == []


def test_the_page_tells_of_each_that_is_explained():
    text = PAGE.read_text(encoding="utf-8")
    tables = [getattr(explained, name) for name in dir(explained) if name.isupper() and not name.startswith("_")]

    assert [name for table in tables for name in table if f"| `{name}` |" not in text] == []
    assert suite_version() in text
