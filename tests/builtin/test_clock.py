"""The time in any zone, and waiting."""

from __future__ import annotations

import asyncio

import pytest

from surehand import DefinitionError, Runtime
from surehand.builtin.clock import clock
from surehand.testing import ManualClock

MOMENT = 1_806_508_800.125  # 2027-03-31 16:00:00.125 UTC


async def test_the_time_is_told_in_utc_unless_a_zone_is_named():
    async with Runtime(clock(ManualClock(MOMENT))) as runtime:
        outcome = await runtime.call("current_time")

    assert outcome.data == {
        "timestamp": 1_806_508_800_125,
        "iso": "2027-03-31T16:00:00.125+00:00",
        "timezone": "UTC",
        "formatted": "Wednesday, 31 March 2027, 16:00:00 UTC",
    }


async def test_the_time_is_told_in_a_zone_with_its_offset():
    async with Runtime(clock(ManualClock(MOMENT))) as runtime:
        outcome = await runtime.call("current_time", {"timezone": "Europe/Berlin"})

    assert outcome.data["timestamp"] == 1_806_508_800_125
    assert outcome.data["iso"] == "2027-03-31T18:00:00.125+02:00"
    assert outcome.data["timezone"] == "Europe/Berlin"
    assert outcome.data["formatted"] == "Wednesday, 31 March 2027, 18:00:00 CEST"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("europe/berlin", "Europe/Berlin"),
        ("Europe/Berlim", "Europe/Berlin"),
        ("Calcutta", "Asia/Calcutta"),
    ],
)
async def test_a_zone_that_is_not_there_is_refused_with_the_nearest_names(name, near):
    async with Runtime(clock()) as runtime:
        outcome = await runtime.call("current_time", {"timezone": name})

    assert outcome.code == "invalid_arguments"
    assert near in outcome.message


@pytest.mark.parametrize(
    "name", ["", "../../etc/passwd", "/etc/passwd", "America", "leapseconds", "a\0b", "x" * 100, "+99"]
)
async def test_no_name_of_a_zone_reads_another_file(name):
    async with Runtime(clock()) as runtime:
        outcome = await runtime.call("current_time", {"timezone": name})

    assert outcome.code == "invalid_arguments"
    assert len(outcome.message) < 300


async def test_a_call_sleeps_as_long_as_it_was_told():
    time = ManualClock()
    async with Runtime(clock(time), clock=time) as runtime:
        sleeping = asyncio.create_task(runtime.call("sleep", {"duration": 90}))
        await time.advance(89.9)
        assert not sleeping.done()
        await time.advance(0.2)

        assert (await sleeping).data == {"slept": 90}


async def test_a_sleep_that_is_cancelled_ends_at_once():
    time = ManualClock()
    async with Runtime(clock(time), clock=time) as runtime:
        sleeping = asyncio.create_task(runtime.call("sleep", {"duration": 200}, call_id="s1"))
        await time.advance(1)
        await runtime.cancel("s1")

        assert (await sleeping).code == "cancelled"


@pytest.mark.parametrize("duration", [0, -1, 301, "NaN", 1e300])
async def test_nobody_sleeps_backwards_or_for_ever(duration):
    async with Runtime(clock()) as runtime:
        outcome = await runtime.call("sleep", {"duration": duration})

    assert outcome.code == "invalid_arguments"


async def test_the_longest_sleep_is_the_developers_to_say():
    time = ManualClock()
    async with Runtime(clock(time, max_sleep="2h"), clock=time) as runtime:
        sleeping = asyncio.create_task(runtime.call("sleep", {"duration": 7_200}))
        await time.advance(7_200)
        assert (await sleeping).ok
        assert (await runtime.call("sleep", {"duration": 7_201})).code == "invalid_arguments"


@pytest.mark.parametrize("longest", ["off", 0, -5, "soon", 1e9])
def test_a_longest_sleep_that_is_none_is_a_mistake(longest):
    with pytest.raises(DefinitionError):
        clock(max_sleep=longest)
