"""A PostgreSQL server is killed under a load of calls, approvals and answers, and comes back; nothing is lost."""

from __future__ import annotations

import pytest

from tests.crash.outage import Kill, outage

MOMENTS = {
    "at_a_statement": Kill(point=310),
    "at_another_statement": Kill(point=801),
    "in_the_middle_of_it": Kill(after=0.1),
    "for_a_second": Kill(after=0.2, away=1.0),
}


@pytest.mark.long
@pytest.mark.timeout(60)
@pytest.mark.parametrize("moment", MOMENTS)
def test_calls_survive_a_server_that_is_killed(server, zygote, moment):
    tally = outage(server, zygote, MOMENTS[moment])

    assert tally.problems == []
    assert tally.done > 20  # before the server died or after it came back, and mostly across that
    assert tally.unknown <= 2
