"""Deadlines of one duration share a timer, and no callback keeps the others from running."""

import pytest

from surehand.core.clock import Deadlines
from surehand.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def deadlines(clock):
    return Deadlines(clock)


async def test_a_deadline_runs_once_when_it_is_due(clock, deadlines):
    expired = []
    deadlines.start(5, lambda: expired.append("first"))
    await clock.advance(3)
    deadlines.start(5, lambda: expired.append("second"))

    await clock.advance(2)
    assert expired == ["first"]
    await clock.advance(3)
    assert expired == ["first", "second"]


async def test_a_cancelled_deadline_does_not_run(clock, deadlines):
    expired = []
    deadlines.start(5, lambda: expired.append("cancelled")).cancel()
    deadlines.start(5, lambda: expired.append("kept"))

    await clock.advance(5)

    assert expired == ["kept"]


async def test_a_callback_may_cancel_another_deadline_that_is_due(clock, deadlines):
    expired = []
    to_cancel = []
    deadlines.start(5, lambda: to_cancel.pop().cancel())
    to_cancel.append(deadlines.start(5, lambda: expired.append("second")))
    deadlines.start(5, lambda: expired.append("third"))

    await clock.advance(5)

    assert expired == ["third"]


async def test_a_callback_may_start_another_deadline(clock, deadlines):
    expired = []
    deadlines.start(5, lambda: deadlines.start(5, lambda: expired.append("started later")))
    await clock.advance(1)
    deadlines.start(5, lambda: expired.append("second"))

    await clock.advance(5)
    assert expired == ["second"]
    await clock.advance(4)
    assert expired == ["second", "started later"]


async def test_closing_cancels_every_deadline(clock, deadlines):
    expired = []
    deadlines.start(5, lambda: expired.append("closed"))
    deadlines.close()

    await clock.advance(10)

    assert expired == []
