"""Hostile commands with own sessions, orphans and ignored signals. `scripts/runaways` runs thousands of them."""

import pytest

from surehand.sandbox.sandbox import UNPROTECTED, Sandbox
from tests.requirements import needs
from tests.sandbox.runaways import cancelled, timed_out

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

KINDS = [
    pytest.param(Sandbox(), id="sandbox", marks=needs("bubblewrap")),
    pytest.param(UNPROTECTED, id="unprotected"),
]
COUNTS = [6, pytest.param(40, marks=pytest.mark.long)]


@pytest.mark.parametrize("sandbox", KINDS)
@pytest.mark.parametrize("count", COUNTS)
async def test_commands_that_time_out_leave_nothing(tmp_path, sandbox, count):
    ended = await timed_out(tmp_path, sandbox, count=count, parallel=8, after=0.05)

    assert 0 < len(ended.latencies) <= count  # where even the start takes seconds, a call's own limit ends it
    assert (ended.answers, ended.left, ended.opened) == ({"timed_out"}, [], 0)


@pytest.mark.parametrize("sandbox", KINDS)
@pytest.mark.parametrize("count", COUNTS)
async def test_commands_whose_caller_is_cancelled_leave_nothing(tmp_path, sandbox, count):
    ended = await cancelled(tmp_path, sandbox, count=count, parallel=8, after=0.05)

    assert (len(ended.latencies), ended.answers, ended.left, ended.opened) == (count, {"cancelled"}, [], 0)
