"""The tools `current_time` and `sleep`."""

from __future__ import annotations

import asyncio

import pytest

from surehand import DefinitionError, Runtime
from surehand.builtin.clock import clock
from surehand.testing import ManualClock

MOMENT = 1_806_508_800.125  # 2027-03-31 16:00:00.125 UTC


async def test_the_time_is_in_utc_by_default():
    async with Runtime(clock(ManualClock(MOMENT))) as runtime:
        outcome = await runtime.call("current_time")

    assert outcome.data == {
        "timestamp": 1_806_508_800_125,
        "iso": "2027-03-31T16:00:00.125+00:00",
        "timezone": "UTC",
        "formatted": "Wednesday, 31 March 2027, 16:00:00 UTC",
    }


async def test_the_time_in_a_time_zone_has_its_offset():
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
async def test_an_unknown_time_zone_is_refused_with_similar_names(name, near):
    async with Runtime(clock()) as runtime:
        outcome = await runtime.call("current_time", {"timezone": name})

    assert outcome.code == "invalid_arguments"
    assert near in outcome.message


@pytest.mark.parametrize(
    "name", ["", "../../etc/passwd", "/etc/passwd", "America", "leapseconds", "a\0b", "x" * 100, "+99"]
)
async def test_no_time_zone_name_reads_another_file(name):
    async with Runtime(clock()) as runtime:
        outcome = await runtime.call("current_time", {"timezone": name})

    assert outcome.code == "invalid_arguments"
    assert len(outcome.message) < 300


async def test_a_call_sleeps_for_the_given_duration():
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
async def test_a_duration_outside_the_limits_is_refused(duration):
    async with Runtime(clock()) as runtime:
        outcome = await runtime.call("sleep", {"duration": duration})

    assert outcome.code == "invalid_arguments"


async def test_the_developer_sets_the_longest_sleep():
    time = ManualClock()
    async with Runtime(clock(time, max_sleep="2h"), clock=time) as runtime:
        sleeping = asyncio.create_task(runtime.call("sleep", {"duration": 7_200}))
        await time.advance(7_200)
        assert (await sleeping).ok
        assert (await runtime.call("sleep", {"duration": 7_201})).code == "invalid_arguments"


@pytest.mark.parametrize("longest", ["off", 0, -5, "soon", 1e9])
def test_an_invalid_max_sleep_is_a_definition_error(longest):
    with pytest.raises(DefinitionError):
        clock(max_sleep=longest)
