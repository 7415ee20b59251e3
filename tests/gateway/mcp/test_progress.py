"""Progress notifications of running calls."""

import asyncio
import math

import pytest
from mcp import Client

from surehand import Context, Runtime, gateway, tool
from tests.gateway.mcp.raw_client import eventually
from tests.gateway.mcp.sdk_clients import ERAS, MODERN, http_client, http_server, sdk_client, within

eras = pytest.mark.parametrize("era", ERAS)


class Heard(list):
    """A progress callback that remembers."""

    async def __call__(self, progress, total, message):
        self.append((progress, total, message))


def reporting(*reports: dict):
    @tool(effects={"read"})
    async def work(ctx: Context) -> str:
        """Work."""
        for report in reports:
            ctx.report(**report)
        return "done"

    return work


async def heard(era: str, *reports: dict) -> Heard:
    told = Heard()
    async with within(), sdk_client(Runtime(reporting(*reports)), era) as client:
        result = await client.call_tool("work", progress_callback=told)
    assert result.content[0].text == "done"
    return told


@eras
async def test_fractions_are_sent_as_percent_before_the_result(era):
    told = await heard(era, {"fraction": 0.25, "message": "a"}, {"fraction": 0.5}, {"fraction": 1.0, "message": "b"})

    assert told == [(25, 100, "a"), (50, 100, None), (100, 100, "b")]


@eras
async def test_messages_alone_are_steps_of_unknown_number(era):
    assert await heard(era, {"message": "a"}, {"message": "b"}) == [(0, None, "a"), (1, None, "b")]


@eras
async def test_another_servers_own_count_is_passed_on(era):
    told = await heard(era, {"progress": 3, "total": 7, "message": "c"}, {"progress": 5, "total": 7})

    assert told == [(3, 7, "c"), (5, 7, None)]


@eras
async def test_progress_always_increases(era):
    told = await heard(era, *({"fraction": each} for each in (0.5, 0.5, 0.2, 0.0, 0.6, -1.0)))

    numbers = [progress for progress, _, _ in told]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 6
    assert numbers[-2] == 60


async def test_a_message_between_fractions_keeps_the_total():
    told = await heard(MODERN, {"fraction": 0.5}, {"message": "still at it"}, {"fraction": 0.75})

    assert [(round(progress, 6), total) for progress, total, _ in told] == [(50, 100), (50, 100), (75, 100)]


async def test_invalid_progress_numbers_count_as_steps():
    told = await heard(MODERN, {"fraction": math.nan}, {"progress": "half"}, {"progress": True}, {"fraction": math.inf})

    assert [(progress, total) for progress, total, _ in told] == [(0, None), (1, None), (2, None), (3, None)]


@eras
async def test_a_number_that_no_client_can_count_to_is_a_step(era):
    told = await heard(
        era, {"progress": 10**400, "total": 7}, {"fraction": -(10**400)}, {"progress": 3, "total": 10**400}
    )

    assert told == [(0, None, None), (1, None, None), (3, None, None)]


async def test_a_message_with_a_lone_surrogate_is_sent_with_a_replacement():
    assert await heard(MODERN, {"message": "half \ud83d"}) == [(0, None, r"half \ud83d")]


@eras
@pytest.mark.parametrize("where", ["message", "title"])
async def test_a_long_message_is_cut_and_hides_nothing(era, where):
    told = await heard(era, {where: "\x1b[2Kdone\u202e"}, {where: "x" * 5_000 + "end"})

    assert told[0][2] == r"\u001b[2Kdone\u202e"
    assert "(4,004 characters left out)" in told[1][2]
    assert told[1][2].endswith("end")
    assert len(told[1][2]) < 1_100


@eras
async def test_a_report_from_a_thread_is_heard(era):
    @tool(effects={"read"})
    def work(ctx: Context) -> str:
        """Work in a thread."""
        ctx.report(fraction=0.5, message="half")
        return "done"

    told = Heard()
    async with within(), sdk_client(Runtime(work), era) as client:
        await client.call_tool("work", progress_callback=told)

    assert told == [(50, 100, "half")]


async def test_without_a_progress_token_nothing_is_sent_and_the_runtime_has_no_listener():
    async with Runtime(reporting({"message": "a"})) as runtime, sdk_client(runtime) as client:
        await client.call_tool("work")
        await client.call_tool("work", progress_callback=Heard())

        assert not runtime._parts.listeners.callbacks


@eras
async def test_each_call_hears_of_itself_alone(era):
    @tool(effects={"read"})
    async def count(ctx: Context, name: str) -> str:
        """Count."""
        for _ in range(5):
            ctx.report(message=name)
            await asyncio.sleep(0)
        return name

    told = {name: Heard() for name in "abc"}
    async with within(), sdk_client(Runtime(count), era) as client:
        calls = (client.call_tool("count", {"name": name}, progress_callback=heard) for name, heard in told.items())
        await asyncio.gather(*calls)

    assert {name: {message for _, _, message in heard} for name, heard in told.items()} == {n: {n} for n in "abc"}


@eras
async def test_a_slow_client_gets_the_last_report_and_does_not_delay_the_handler(era):
    ended = asyncio.Event()

    @tool(effects={"read"})
    async def hurry(ctx: Context) -> str:
        """Report far too often."""
        for number in range(10_000):
            ctx.report(progress=number, total=10_000)
        ended.set()
        return "done"

    told = Heard()

    async def slowly(progress, total, message):
        await ended.wait()
        await told(progress, total, message)

    async with within(), sdk_client(Runtime(hurry), era) as client:
        await client.call_tool("hurry", progress_callback=slowly)

    assert told[-1][0] == 9_999
    assert len(told) < 1_000


@eras
async def test_a_callback_that_raises_does_not_end_the_call(era, caplog):
    async def broken(progress, total, message):
        raise RuntimeError("not now")

    async with within(), sdk_client(Runtime(reporting({"message": "a"}, {"message": "b"})), era) as client:
        result = await client.call_tool("work", progress_callback=broken)

    assert result.content[0].text == "done"


async def test_a_client_in_the_same_process_gets_progress():
    told = Heard()
    server = gateway.mcp.server(Runtime(reporting({"fraction": 0.5, "message": "half"})))
    async with within(), Client(server, mode=MODERN) as client:
        await client.call_tool("work", progress_callback=told)

    assert told == [(50, 100, "half")]


@eras
async def test_a_call_that_is_cancelled_while_it_reports_leaves_nothing_behind(era):
    began, gone = asyncio.Event(), asyncio.Event()

    @tool(effects={"read"})
    async def endless(ctx: Context) -> str:
        """Report for ever."""
        began.set()
        try:
            while True:
                ctx.report(message="on")
                await asyncio.sleep(0.001)
        finally:
            gone.set()

    async with within(), Runtime(endless) as runtime, sdk_client(runtime, era) as client:
        call = asyncio.create_task(client.call_tool("endless", progress_callback=Heard()))
        await began.wait()
        call.cancel()
        await asyncio.wait({call})
        await gone.wait()
        await eventually(lambda: not runtime.running_calls() and not runtime._parts.listeners.callbacks)


@eras
async def test_over_http_progress_comes_before_the_result(era):
    told = Heard()
    runtime = Runtime(reporting({"fraction": 0.5, "message": "half"}, {"fraction": 1.0}))
    async with within(), http_server(runtime) as url, http_client(url, era) as client:
        await client.call_tool("work", progress_callback=told)

    assert told == [(50, 100, "half"), (100, 100, None)]
