"""The official suite reports only expected failures of our server and our proxy."""

import asyncio
import logging

import pytest

from tests.conformance.evaluation import find_outdated, find_unexplained
from tests.conformance.targets import TARGETS, run_targets
from tests.requirements import needs

pytestmark = [needs("node servers"), pytest.mark.timeout(180), pytest.mark.long]
SCENARIOS = {
    "own": 33 + 40 + 9,
    "proxy of 2025-11-25": 33 + 40 + 9,
    "proxy of 2026-07-28": 33 + 40,
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_scenario_passes_or_is_an_expected_failure(name, caplog):
    caplog.set_level(logging.CRITICAL)  # many scenarios use an untrusted client on purpose

    results = (await run_targets([name]))[name]

    assert len(results) == SCENARIOS[name]
    assert_expected(name, results)


def test_the_server_behind_the_proxy_passes_every_scenario(caplog):
    caplog.set_level(logging.CRITICAL)

    results = asyncio.run(run_targets(["sdk"]))[
        "sdk"
    ]  # the MCP SDK leaves a task running, which would fail an async test

    assert len(results) == 33 + 40
    assert not TARGETS["sdk"].expected_failures
    assert_expected("sdk", results)


def assert_expected(name, results):
    for find in (find_unexplained, find_outdated):
        unexpected = find(results, TARGETS[name].expected_failures)
        assert not unexpected, "\n".join([find.__doc__, *unexpected])
