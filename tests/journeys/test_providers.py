"""Providers: tools that somebody else does the work of, from the start of a runtime to its end."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from surehand import Call, Context, Failed, Provider, Queue, Runtime, Tool, Unavailable, filtered, tool
from surehand.testing import ManualClock, settle

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Weather(Provider):
    """Keeps a diary of what is asked of it."""

    kind = "rest"
    namespace = "weather"

    def __init__(self) -> None:
        self.diary: list[str] = []

    async def start(self) -> None:
        self.diary.append("start")

    async def stop(self) -> None:
        self.diary.append("stop")

    async def tools(self) -> Sequence[Tool[..., Any]]:
        return [
            tool.provided("Get-Forecast", "Forecast a city.", parameters=CITY, effects={"read"}),
            tool.provided("hang", "Never answer.", timeout=5),
        ]

    async def invoke(self, call: Call, context: Context) -> Any:
        self.diary.append(call.tool)
        if call.tool == "hang":
            await asyncio.Event().wait()
        return {"city": call.arguments["city"], "sun": True}

    async def cancel(self, call: Call, reason: str) -> None:
        self.diary.append(f"cancel {call.tool}: {reason}")

    def instructions(self, principal: Any) -> str:
        return "Ask for one city at a time."


async def test_a_provider_is_started_listed_called_and_stopped() -> None:
    weather = Weather()
    async with Runtime(weather) as runtime:
        names = [listing.name for listing in runtime.catalogue]
        known = ("weather__Get-Forecast" in runtime.catalogue, "weather__nothing" in runtime.catalogue)
        told = runtime.instructions()
        outcome = await runtime.call("weather__Get-Forecast", {"city": "Oslo"})

    assert names == ["weather__Get-Forecast", "weather__hang"]
    assert known == (True, False)
    assert told == "## weather\nAsk for one city at a time."
    assert outcome.unwrap() == {"city": "Oslo", "sun": True}
    assert weather.diary == ["start", "Get-Forecast", "stop"]


async def test_an_outcome_tells_who_did_the_work_and_how_long_it_took() -> None:
    async with Runtime(Weather()) as runtime:
        good = await runtime.call("weather__Get-Forecast", {"city": "Oslo"})
        bad = await runtime.call("weather__Get-Forecast", {})

    assert (good.ok, good.text) == (True, '{"city":"Oslo","sun":true}')
    assert (bad.ok, bad.text.startswith("(tool failed: ")) == (False, True)
    for outcome in (good, bad):
        assert (outcome.meta.kind, outcome.meta.namespace) == ("rest", "weather")
        assert outcome.meta.latency_ms > 0


async def test_a_running_call_is_cancelled_and_the_provider_hears_of_it() -> None:
    weather = Weather()
    async with Runtime(weather) as runtime:
        call = asyncio.create_task(runtime.call("weather__hang", call_id="c1"))
        await settle()
        assert await runtime.cancel("c1")
        outcome = await call

    assert isinstance(outcome, Failed)
    assert outcome.code == "cancelled"
    assert weather.diary == ["start", "hang", "cancel hang: cancelled", "stop"]


async def test_every_call_of_a_providers_tools_waits_in_the_providers_queue() -> None:
    class Narrow(Weather):
        queue = "narrow"

    clock = ManualClock()
    async with Runtime(Narrow(), queues={"narrow": Queue(concurrent=1)}, clock=clock) as runtime:
        holder = asyncio.create_task(runtime.call("weather__hang"))
        await settle()
        waiter = asyncio.create_task(runtime.call("weather__Get-Forecast", {"city": "Oslo"}))
        await settle()
        before = runtime.queues()["narrow"]
        await clock.advance(5)
        outcomes = await asyncio.gather(holder, waiter)
        after = runtime.queues()["narrow"]

    assert (before.in_use, before.waiting) == (1, 1)
    assert outcomes[0].text == "(tool failed: weather__hang timed out after 5 s.)"
    assert outcomes[1].ok
    assert (after.in_use, after.waiting) == (0, 0)


async def test_a_provider_may_keep_the_answers_of_its_tools_for_a_while() -> None:
    class Kept(Weather):
        cache = 60.0

    weather, clock = Kept(), ManualClock()
    async with Runtime(weather, clock=clock) as runtime:
        outcomes = [await runtime.call("weather__Get-Forecast", {"city": city}) for city in ("Oslo", "Oslo", "Rome")]
        await clock.advance(61)
        outcomes.append(await runtime.call("weather__Get-Forecast", {"city": "Oslo"}))

    assert [outcome.meta.cached for outcome in outcomes] == [False, True, False, False]
    assert weather.diary.count("Get-Forecast") == 3


async def test_a_tool_of_a_provider_that_is_down_says_what_is_wrong() -> None:
    class Down(Weather):
        async def start(self) -> None:
            raise Unavailable("no route to key=s3cret")

    async with Runtime(Down(), secrets=["s3cret"]) as runtime:
        outcome = await runtime.call("weather__Get-Forecast", {"city": "Oslo"})
        other = await runtime.call("weather", {"city": "Oslo"})

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.executed) == ("unavailable", False)
    assert outcome.message.startswith("weather__Get-Forecast is not available now: no route to key=")
    assert "s3cret" not in outcome.text
    assert isinstance(other, Failed)
    assert other.code == "not_found"


async def test_a_provider_that_comes_back_is_there_again(caplog: pytest.LogCaptureFixture) -> None:
    class Moody(Weather):
        up = False

        async def start(self) -> None:
            if not self.up:
                raise Unavailable("asleep")

    moody = Moody()
    with caplog.at_level(logging.WARNING, "surehand"):
        async with Runtime(moody) as runtime:
            down = await runtime.call("weather__hnag")
            moody.up = True
            await runtime.add(moody)
            up = await runtime.call("weather__Get-Forecast", {"city": "Oslo"})
            unknown = await runtime.call("weather__hnag")

    assert "asleep" in down.text
    assert "Provider weather is unavailable: asleep" in caplog.text
    assert up.ok
    assert "Did you mean weather__hang" in unknown.text


async def test_a_tool_that_was_filtered_out_is_refused_with_that_reason() -> None:
    weather = Weather()
    async with Runtime(filtered(weather, deny="hang")) as runtime:
        outcome = await runtime.call("weather__hang")

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == ("denied", "weather__hang is not allowed here: it is filtered out.")
    assert weather.diary == ["start", "stop"]
