"""The MCP benchmarks run. The tests do not check the numbers, because a busy machine must not fail a test."""

from dataclasses import replace

import pytest

from bench.mcp_calls import measure_http_calls, measure_stdio_calls
from bench.mcp_connections import measure_mcp_connections
from bench.mcp_proxy import MAX_RATIO_BY_FRONT, OURS, measure_proxies

pytestmark = [pytest.mark.timeout(80), pytest.mark.long]  # other interpreters are started


async def test_calls_over_stdio_are_measured_in_both_protocols():
    rows = await measure_stdio_calls(rounds=1, count=1)

    assert len(rows) == 4
    assert all(row.measured is not None and row.measured > 0 for row in rows)


async def test_calls_over_http_are_measured_in_both_protocols():
    rows = await measure_http_calls(rounds=1, count=1)

    assert len(rows) == 4
    assert all(row.measured is not None and row.measured > 0 for row in rows)


async def test_the_life_of_a_connection_is_measured():
    rows = await measure_mcp_connections(rounds=1, tools=3, connections=1, count=2)

    assert len(rows) == 5
    assert all(row.measured is not None and row.measured > 0 for row in rows)


async def test_our_proxy_is_measured_against_the_direct_call():
    rows = await measure_proxies(
        [replace(OURS, protocols=("2026-07-28",), transports=(("stdio", "stdio"),))], rounds=1, count=1
    )

    assert len(rows) == 2
    assert all(
        row.measured is not None and row.measured > 0 and row.goal in MAX_RATIO_BY_FRONT.values() for row in rows
    )
