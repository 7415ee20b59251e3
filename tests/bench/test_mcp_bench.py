"""What is measured of MCP runs. The numbers are not looked at: a busy machine must not fail a test."""

from dataclasses import replace

import pytest

from bench.mcp_calls import over_http, over_stdio
from bench.mcp_life import mcp_life
from bench.mcp_proxy import GOALS, OURS, measured

pytestmark = [pytest.mark.timeout(80), pytest.mark.long]  # other interpreters are started


async def test_calls_over_stdio_are_measured_in_both_protocols():
    rows = await over_stdio(rounds=1, count=1)

    assert len(rows) == 4
    assert all(row.measured is not None and row.measured > 0 for row in rows)


async def test_calls_over_http_are_measured_in_both_protocols():
    rows = await over_http(rounds=1, count=1)

    assert len(rows) == 4
    assert all(row.measured is not None and row.measured > 0 for row in rows)


async def test_the_life_of_a_connection_is_measured():
    rows = await mcp_life(rounds=1, tools=3, connections=1, count=2)

    assert len(rows) == 5
    assert all(row.measured is not None and row.measured > 0 for row in rows)


async def test_our_proxy_is_measured_against_the_direct_call():
    rows = await measured([replace(OURS, protocols=("2026-07-28",), ways=(("stdio", "stdio"),))], rounds=1, count=1)

    assert len(rows) == 2
    assert all(row.measured is not None and row.measured > 0 and row.goal in GOALS.values() for row in rows)
