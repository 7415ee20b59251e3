"""The benchmark of REST tools runs. The numbers are not checked, because a busy machine must not fail a test."""

import pytest

from bench.rest_calls import measure_rest_calls


@pytest.mark.timeout(80)  # another interpreter is started
async def test_calls_of_rest_tools_are_measured():
    rows = await measure_rest_calls(rounds=1, count=1)

    assert len(rows) == 4
    assert all(row.measured is not None and row.measured > 0 for row in rows)
