"""Cassettes: calls are recorded once and replayed without the work."""

import asyncio
import json

import pytest

from surehand import Call, Context, Done, Failed, Pending, ToolError, tool
from surehand.core.content import Image
from surehand.testing import (
    RecordingProvider,
    Unscripted,
    call_log,
    cassette,
    error,
    faulty,
    runtime,
    settle,
)


class Weather:
    """A tool that counts how often its work is done."""

    def __init__(self) -> None:
        self.ran = 0

    @tool(effects={"read"})
    async def weather(self, city: str, days: int = 1) -> dict[str, object]:
        """The weather of a city."""
        self.ran += 1
        if city == "Atlantis":
            raise ToolError("no such city", code="not_found", data={"near": ["Atlanta"]})
        return {"city": city, "degrees": [self.ran] * days}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tapes" / "weather.json"


async def recorded(file, source, *calls: Call, **options):
    with cassette(file, "record", **options) as tape:
        async with runtime(source, middleware=[tape]) as rt:
            return [await rt.call(call.tool, call.arguments) for call in calls]


OSLO, BERGEN = Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Bergen", "days": 2})
ATLANTIS = Call("weather", {"city": "Atlantis"})


async def test_a_replay_gives_the_same_outcomes_and_does_no_work(file) -> None:
    first = await recorded(file, Weather(), OSLO, BERGEN, ATLANTIS)

    weather = Weather()
    with cassette(file) as tape:
        async with runtime(weather, middleware=[tape]) as rt:
            second = [await rt.call(call.tool, call.arguments) for call in (ATLANTIS, BERGEN, OSLO)]

    assert second == first[::-1]
    assert [outcome.text for outcome in second] == [outcome.text for outcome in first[::-1]]
    assert weather.ran == 0


async def test_the_file_is_readable_stable_and_holds_no_times_or_ids(file) -> None:
    await recorded(file, Weather(), Call("weather", {"days": 1, "city": "Oslo"}), ATLANTIS)

    text = file.read_text()
    assert json.loads(text) == {
        "cassette": 1,
        "calls": [
            {
                "tool": "weather",
                "arguments": {"city": "Oslo", "days": 1},
                "outcome": {"done": {"city": "Oslo", "degrees": [1]}},
            },
            {
                "tool": "weather",
                "arguments": {"city": "Atlantis"},
                "outcome": {
                    "failed": "not_found",
                    "message": "no such city",
                    "executed": True,
                    "data": {"near": ["Atlanta"]},
                },
            },
        ],
    }
    await recorded(file, Weather(), Call("weather", '{"city": "Oslo", "days": "1"}'), ATLANTIS)
    assert file.read_text() == text
    assert text.endswith("}\n")
    assert list(file.parent.iterdir()) == [file]


async def test_auto_records_without_a_file_and_replays_with_one(file) -> None:
    weather = Weather()
    for expected in (True, False, False):
        with cassette(file, "auto") as tape:
            async with runtime(weather, middleware=[tape]) as rt:
                assert (await rt.call("weather", {"city": "Oslo"})).ok
            assert tape.recording is expected

    assert weather.ran == 1


async def test_equal_calls_are_replayed_in_the_order_in_which_they_were_recorded(file) -> None:
    await recorded(file, Weather(), OSLO, OSLO, OSLO)

    with cassette(file) as tape:
        async with runtime(Weather(), middleware=[tape]) as rt:
            outcomes = await rt.call_many([OSLO, OSLO, OSLO])

    assert [outcome.data["degrees"] for outcome in outcomes] == [[1], [2], [3]]


async def test_arguments_match_however_they_are_written(file) -> None:
    await recorded(file, Weather(), BERGEN)

    with cassette(file) as tape:
        async with runtime(Weather(), middleware=[tape]) as rt:
            assert (await rt.call("weather", '{"days": "2", "city": "Bergen"}')).ok


async def test_a_call_that_was_not_recorded_fails_and_so_does_the_test(file) -> None:
    await recorded(file, Weather(), OSLO, BERGEN)

    weather = Weather()
    with pytest.raises(Unscripted) as failure, cassette(file, "replay") as tape:
        async with runtime(weather, middleware=[tape]) as rt:
            outcome = await rt.call("weather", {"city": "Bergen", "days": 3})

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.executed, weather.ran) == ("not_found", False, 0)
    assert (
        outcome.message
        == str(failure.value)
        == (
            f'weather({{"city":"Bergen","days":3}}) is not recorded in {file}. Nearest recorded: '
            'weather({"city":"Bergen","days":2}), weather({"city":"Oslo"}). '
            'To record it, run once with mode="record" (or delete the file) and the real tool.'
        )
    )


async def test_the_message_says_when_an_equal_call_was_recorded_less_often(file) -> None:
    await recorded(file, Weather(), OSLO, OSLO)

    tape = cassette(file)
    with pytest.raises(Unscripted, match="It was recorded 2 times, and is called more often now"), tape:
        async with runtime(Weather(), middleware=[tape]) as rt:
            await rt.call_many([OSLO, OSLO, OSLO])

    assert len(tape.missing) == 1


async def test_the_message_lists_recorded_tools_if_this_one_is_not_recorded(file) -> None:
    await recorded(file, Weather(), OSLO)

    @tool
    async def tides(city: str) -> int:
        """The tides."""
        return 1

    with pytest.raises(Unscripted, match="No call of tides is recorded, only of weather"), cassette(file) as tape:
        async with runtime(tides, middleware=[tape]) as rt:
            await rt.call("tides", {"city": "Oslo"})


async def test_another_failure_of_the_test_gets_a_note_about_what_was_not_recorded(file) -> None:
    await recorded(file, Weather(), OSLO)

    with pytest.raises(ToolError) as failure, cassette(file) as tape:
        async with runtime(Weather(), middleware=[tape]) as rt:
            (await rt.call("weather", {"city": "Bergen"})).unwrap()

    assert failure.value.__notes__ == tape.missing


async def test_unused_recordings_are_listed(file) -> None:
    await recorded(file, Weather(), OSLO, BERGEN)

    with cassette(file) as tape:
        async with runtime(Weather(), middleware=[tape]) as rt:
            await rt.call("weather", {"city": "Oslo"})
        assert [str(recording) for recording in tape.unused] == ['weather({"city":"Bergen","days":2})']


async def test_nothing_is_written_when_the_test_fails(file) -> None:
    await recorded(file, Weather(), OSLO)
    before = file.read_text()

    with pytest.raises(ToolError, match="no such city"), cassette(file, "record") as tape:
        async with runtime(Weather(), middleware=[tape]) as rt:
            (await rt.call("weather", {"city": "Atlantis"})).unwrap()

    assert file.read_text() == before


async def test_a_call_that_was_cancelled_is_not_recorded(file) -> None:
    @tool
    async def stuck() -> None:
        """Never end."""
        await asyncio.Event().wait()

    with cassette(file) as tape:
        async with runtime(stuck, middleware=[tape]) as rt:
            call = asyncio.ensure_future(rt.call("stuck", call_id="c1"))
            await settle()
            await rt.cancel("c1")
            assert (await call).code == "cancelled"

    assert json.loads(file.read_text())["calls"] == []


async def test_a_time_limit_of_the_tool_is_recorded_and_replays_at_once(file) -> None:
    @tool(timeout=9)
    async def stuck() -> None:
        """Never end."""
        await asyncio.Event().wait()

    with cassette(file) as tape:
        async with runtime(stuck, middleware=[tape]) as rt:
            call = asyncio.ensure_future(rt.call("stuck"))
            await rt.clock.advance(9)
            first = await call
    with cassette(file) as tape:
        async with runtime(stuck, middleware=[tape]) as rt:
            second = await rt.call("stuck")

    assert first == second == Failed("timed_out", "stuck timed out after 9 s.", executed=True)


async def test_only_the_result_of_all_retries_is_recorded(file) -> None:
    @tool(effects={"read"}, retries=3)
    async def fetch() -> str:
        """Fetch a page."""
        return "page"

    with cassette(file) as tape:
        async with runtime(faulty(fetch, {"fetch": error("unavailable", retry_after=1)}), middleware=[tape]) as rt:
            call = asyncio.ensure_future(rt.call("fetch"))
            await rt.clock.advance(3)
            assert (await call).meta.attempts == 4
    with cassette(file) as tape:
        async with runtime(fetch, middleware=[tape]) as rt:
            assert (await rt.call("fetch")).code == "unavailable"


async def test_policy_and_approval_are_asked_in_a_replay_too(file) -> None:
    await recorded(file, Weather(), OSLO)

    with cassette(file) as tape:
        async with runtime(Weather(), middleware=[tape], policy=[{"tools": "*", "decision": "ask"}]) as rt:
            pending = await rt.call("weather", {"city": "Oslo"})
            assert pending.waiting_for == "approval"
            assert (await rt.approve(pending.call_id)).ok


async def test_large_outputs_are_recorded_whole_and_clipped_again(file) -> None:
    @tool(max_bytes=200)
    async def book() -> str:
        """A long text."""
        return "line\n" * 1000

    first = await recorded(file, book, Call("book"))
    with cassette(file) as tape:
        async with runtime(book, middleware=[tape]) as rt:
            second = await rt.call("book")

    assert first[0].data == second.data == "line\n" * 1000
    assert len(second.text) < 2000


async def test_blocks_titles_metadata_and_attachments_are_replayed(file) -> None:
    @tool
    async def draw() -> Done:
        """Draw."""
        image = Image("aGk=", "image/png")
        return Done({"n": 1}, content=[image], title="A drawing", metadata={"cost": 0.1}, attachments=[image])

    first = await recorded(file, draw, Call("draw"))
    with cassette(file) as tape:
        async with runtime(draw, middleware=[tape]) as rt:
            assert await rt.call("draw") == first[0]


async def test_progress_is_replayed_too(file) -> None:
    @tool
    async def climb(ctx: Context) -> str:
        """Climb."""
        ctx.report(0.5, "half way")
        ctx.report(title="Top", metres=4000)
        return "there"

    await recorded(file, climb, Call("climb"))
    with cassette(file) as tape:
        async with runtime(climb, middleware=[tape]) as rt:
            log = call_log(rt)
            await rt.call("climb")

    reported = [(each.fraction, each.message, each.title, each.data) for each in log.progress]
    assert reported == [(0.5, "half way", None, {}), (None, None, "Top", {"metres": 4000})]


async def test_progress_from_a_thread_is_recorded(file) -> None:
    @tool
    def dig(ctx: Context) -> str:
        """Dig."""
        ctx.report("one metre")
        return "gold"

    await recorded(file, dig, Call("dig"))

    assert json.loads(file.read_text())["calls"][0]["progress"] == [{"message": "one metre"}]


async def test_the_same_call_twice_at_once_is_recorded_once(file) -> None:
    gate = asyncio.Event()

    @tool(effects={"write"})
    async def pay() -> str:
        """Pay."""
        await gate.wait()
        return "paid"

    with cassette(file) as tape:
        async with runtime(pay, middleware=[tape]) as rt:
            first = asyncio.ensure_future(rt.call("pay", call_id="c1"))
            await settle()
            second = asyncio.ensure_future(rt.call("pay", call_id="c1"))
            await settle()
            gate.set()
            await asyncio.gather(first, second)

    assert json.loads(file.read_text())["calls"] == [{"tool": "pay", "arguments": {}, "outcome": {"done": "paid"}}]


async def test_nested_calls_are_part_of_the_recorded_call(file) -> None:
    weather = Weather()

    @tool
    async def trip(ctx: Context) -> object:
        """Plan a trip."""
        return (await ctx.call("weather", {"city": "Oslo"})).unwrap()

    first = await recorded(file, [weather, trip], Call("trip"))
    with cassette(file) as tape:
        async with runtime(weather, trip, middleware=[tape]) as rt:
            assert await rt.call("trip") == first[0]
        assert tape.unused == []

    assert weather.ran == 1


async def test_only_tools_that_match_the_glob_are_recorded(file) -> None:
    weather, ran = Weather(), []

    @tool
    async def trip(ctx: Context) -> object:
        """Plan a trip."""
        ran.append(1)
        return (await ctx.call("weather", {"city": "Oslo"})).unwrap()

    for _ in range(2):
        with cassette(file, tools="w*") as tape:
            async with runtime(weather, trip, middleware=[tape]) as rt:
                assert (await rt.call("trip")).data["city"] == "Oslo"

    assert (weather.ran, len(ran)) == (1, 2)


async def test_secrets_are_masked_in_the_file_and_not_in_the_call(file) -> None:
    @tool
    async def login(token: str) -> dict[str, str]:
        """Log in."""
        return {"session": f"for {token}"}

    call = Call("login", {"token": "hunter2-hunter2"})
    first = await recorded(file, login, call, redact=["hunter2-hunter2"])
    with cassette(file, redact=["hunter2-hunter2"]) as tape:
        async with runtime(login, middleware=[tape]) as rt:
            second = await rt.call(call.tool, call.arguments)

    assert first[0].data == {"session": "for hunter2-hunter2"}
    assert "hunter2" not in file.read_text()
    assert second.data == {"session": "for [redacted]"}


async def test_an_answer_to_a_providers_question_is_part_of_the_recording(file) -> None:
    class Asking(RecordingProvider):
        async def resume(self, call, state, answer, context):
            return Pending("input", message="Sure?") if answer == "Oslo" else f"flying, {answer}"

    answers = {"fly": Pending("input", message="Where to?", state={"step": 1})}

    async def story(provider) -> list:
        with cassette(file) as tape:
            async with runtime(tape.provider(provider), middleware=[tape]) as rt:
                pending = await rt.call("air__fly", call_id="c1")
                again = await rt.settle("c1", "Oslo")
                return [pending.message, again.message, await rt.settle("c1", "yes")]

    first = await story(Asking("air", ["fly"], answers))
    second = await story(RecordingProvider("air", ["other"]))

    assert first == second == ["Where to?", "Sure?", Done("flying, yes")]


async def test_a_replay_without_the_file_says_how_to_record(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no cassette .*Record it with"):
        cassette(tmp_path / "none.json", "replay").__enter__()


@pytest.mark.parametrize("text", ["not json", "{}", '{"cassette": 2, "calls": []}', '{"cassette": 1, "calls": [{}]}'])
async def test_an_invalid_cassette_file_is_rejected(tmp_path, text) -> None:
    (tmp_path / "odd.json").write_text(text)

    with pytest.raises(ValueError, match=r"cannot be replayed .*Delete it and record again"):
        cassette(tmp_path / "odd.json").__enter__()


def test_an_unknown_mode_is_rejected(file) -> None:
    with pytest.raises(ValueError, match="must be auto, record or replay, got 'play'"):
        cassette(file, "play")


async def test_a_cassette_that_was_not_opened_says_so(file) -> None:
    tape = cassette(file)
    async with runtime(Weather(), middleware=[tape]) as rt:
        assert "The cassette is not open. Use `with cassette(" in (await rt.call("weather", {"city": "Oslo"})).text


async def test_a_provider_that_was_not_recorded_fails_the_test(file) -> None:
    await recorded(file, Weather(), OSLO)

    git = RecordingProvider("git", ["status"])
    with pytest.raises(Unscripted, match="The provider git is not recorded"), cassette(file) as tape:
        async with runtime(tape.provider(git), middleware=[tape]) as rt:
            assert (await rt.call("git__status")).code == "not_found"
