"""A PostgreSQL server is killed under load and restarted: no call, approval or answer is lost."""

from __future__ import annotations

import pytest

from tests.crash.server_outage import ServerKill, run_outage

MOMENTS = {
    "at_a_statement": ServerKill(point=310),
    "at_another_statement": ServerKill(point=801),
    "after_some_effects": ServerKill(after_seconds=0.1),
    "with_a_second_of_downtime": ServerKill(after_seconds=0.2, downtime_seconds=1.0),
}


@pytest.mark.long
@pytest.mark.timeout(60)
@pytest.mark.parametrize("moment", MOMENTS)
def test_calls_survive_a_server_that_is_killed(server, fork_server, moment):
    tally = run_outage(server, fork_server, MOMENTS[moment])

    assert tally.problems == []
    assert tally.done > 20  # some before the kill or after the restart, most across both
    assert tally.unknown <= 2
