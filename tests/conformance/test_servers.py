"""The official suite finds nothing wrong with our server, nor with our proxy, but what is explained."""

import asyncio
import logging

import pytest

from tests.conformance.judgement import outdated, unexplained
from tests.conformance.targets import TARGETS, examined
from tests.needs import needs

pytestmark = [needs("node servers"), pytest.mark.timeout(180), pytest.mark.long]
SCENARIOS = {
    "own": 33 + 40 + 9,
    "proxy of 2025-11-25": 33 + 40 + 9,
    "proxy of 2026-07-28": 33 + 40,
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_scenario_passes_or_is_explained(name, caplog):
    caplog.set_level(logging.CRITICAL)  # clients that are not to be trusted are part of it

    results = (await examined([name]))[name]

    assert len(results) == SCENARIOS[name]
    judge(name, results)


def test_what_is_behind_the_proxy_passes_every_scenario(caplog):
    caplog.set_level(logging.CRITICAL)

    results = asyncio.run(examined(["library"]))["library"]  # it leaves a task behind, which would fail an async test

    assert len(results) == 33 + 40
    assert not TARGETS["library"].explained
    judge("library", results)


def judge(name, results):
    for judged in (unexplained, outdated):
        found = judged(results, TARGETS[name].explained)
        assert not found, "\n".join([judged.__doc__, *found])
