"""The benchmarks of the gateway run. The numbers are not checked, because a busy machine must not fail a test."""

import pytest

from bench.gateway_calls import measure_gateway_calls
from bench.gateway_events import measure_event_streams


@pytest.mark.timeout(120)  # other interpreters are started
async def test_calls_by_post_and_event_streams_are_measured():
    rows = [
        *await measure_gateway_calls(rounds=1, count=16),
        *await measure_event_streams(rounds=1, count=1, listeners=5),
    ]

    assert len(rows) == 2
    assert all(row.measured is not None and row.measured > 0 for row in rows)
