"""Providers: start, stop, tools, invocation, input requests and failures."""

import asyncio
import logging
from collections.abc import Mapping

import pytest

from surehand import Call, Context, DefinitionError, Done, Failed, Pending, Policy, Provider, Runtime, ToolError, tool
from surehand.core.errors import Unavailable
from surehand.testing import ManualClock, settle

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}


class Weather(Provider):
    """A small real provider."""

    namespace = "weather"

    def __init__(self, namespace: str = "weather") -> None:
        self.namespace = namespace
        self.seen: list[tuple[Call, Context]] = []
        self.told: list[tuple[str, str, str]] = []
        self.log: list[str] = []
        self.entered = asyncio.Event()

    async def start(self) -> None:
        self.log.append("start")

    async def stop(self) -> None:
        self.log.append("stop")

    async def tools(self):
        forecast = tool.external("forecast", "Forecast.", parameters=SCHEMA, aliases=("wetter",))
        hang = tool.external("hang", "Hang.", timeout=5)
        book = tool.external("book", "Book a trip.")
        return [each.evolve(kind="rest", handler=None) for each in (forecast, hang, book)]

    async def invoke(self, call: Call, context: Context):
        self.seen.append((call, context))
        match call.tool:
            case "forecast":
                return {"city": call.arguments["city"], "sun": True}
            case "hang":
                self.entered.set()
                return await asyncio.Event().wait()
            case "book":
                return Pending("input", message="Which date?", request={"type": "string"}, state={"step": 1})

    async def resume(self, call: Call, state, answer, context):
        self.seen.append((call, state))
        if state["step"] == 1:
            return Pending("input", message="How many?", state={"step": 2, "date": answer})
        if answer == "none":
            raise ToolError("Nobody travels.")
        return f"{state['date']} for {answer}"

    async def cancel(self, call: Call, reason: str) -> None:
        self.told.append((call.tool, call.id, reason))


async def test_its_tools_are_named_after_its_namespace():
    async with Runtime(Weather()) as runtime:
        names = {listing.name for listing in runtime.catalogue}
        outcome = await runtime.call("weather__forecast", {"city": "Oslo"})

    assert names == {"weather__forecast", "weather__hang", "weather__book"}
    assert outcome == Done({"city": "Oslo", "sun": True})


async def test_two_of_a_kind_live_side_by_side():
    one, two = Weather("one"), Weather("two")

    async with Runtime(one, two) as runtime:
        await runtime.call("two__forecast", {"city": "Oslo"})

    assert (len(one.seen), len(two.seen)) == (0, 1)


async def test_the_same_namespace_twice_is_a_definition_error():
    with pytest.raises(DefinitionError, match="weather__forecast"):
        async with Runtime(Weather(), Weather()):
            pass


async def test_invoke_gets_the_tools_own_name_and_checked_arguments():
    weather = Weather()

    async with Runtime(weather) as runtime:
        scope = runtime.scope(user="ann", session="s1")
        outcome = await scope.call("weather__forecast", '{"city": "Oslo", "days": "3"}')

    call, context = weather.seen[0]
    assert call.tool == "forecast"
    assert isinstance(call.arguments, Mapping)
    assert dict(call.arguments) == {"city": "Oslo", "days": 3}
    assert (call.user, call.session) == ("ann", "s1")
    assert call.id == context.call_id == outcome.meta.call_id
    assert (context.user, context.attempt) == ("ann", 1)


@pytest.mark.parametrize("arguments", [{}, {"city": 5}, {"city": "Oslo", "town": 1}, "nonsense", '{"city": "Os'])
async def test_invalid_arguments_never_reach_it(arguments):
    weather = Weather()

    async with Runtime(weather) as runtime:
        outcome = await runtime.call("weather__forecast", arguments)

    assert (outcome.code, outcome.executed, weather.seen) == ("invalid_arguments", False, [])


async def test_it_is_started_and_stopped_once():
    weather = Weather()

    async with Runtime(weather):
        assert weather.log == ["start"]

    assert weather.log == ["start", "stop"]


async def test_an_unavailable_provider_is_skipped_with_a_warning(caplog):
    class Dead(Weather):
        async def start(self) -> None:
            raise Unavailable("connection refused")

    with caplog.at_level(logging.WARNING, "surehand"):
        async with Runtime(Dead("dead"), Weather()) as runtime:
            assert (await runtime.call("weather__forecast", {"city": "Oslo"})).ok
            assert (await runtime.call("dead__forecast", {"city": "Oslo"})).code == "unavailable"

    assert "Provider dead is unavailable: connection refused" in caplog.text


async def test_a_provider_that_started_but_has_no_tools_to_give_is_stopped_too():
    class Broken(Weather):
        async def tools(self):
            raise Unavailable("no list")

    broken = Broken()
    async with Runtime(broken) as runtime:
        assert len(runtime.catalogue) == 0

    assert broken.log == ["start", "stop"]


async def test_a_bug_at_the_start_is_raised_and_the_others_are_stopped():
    release = asyncio.Event()

    class Buggy(Weather):
        async def start(self) -> None:
            release.set()
            raise RuntimeError("bug")

    class Slow(Weather):
        async def start(self) -> None:
            await release.wait()
            await settle()
            self.log.append("start")

    slow = Slow("slow")
    with pytest.raises(RuntimeError, match="bug"):
        async with Runtime(Buggy("buggy"), slow):
            pass

    assert slow.log in ([], ["start", "stop"])


async def test_a_provider_that_does_not_stop_cleanly_does_not_stop_the_others_from_stopping(caplog):
    class Stuck(Weather):
        async def stop(self) -> None:
            raise RuntimeError("stuck")

    weather = Weather()
    with caplog.at_level(logging.CRITICAL, "surehand"):
        async with Runtime(Stuck("stuck"), weather):
            pass

    assert weather.log == ["start", "stop"]


async def test_a_provider_can_be_added_while_running():
    weather = Weather()

    async with Runtime() as runtime:
        await runtime.add(weather)
        assert (await runtime.call("weather__forecast", {"city": "Oslo"})).ok

    assert weather.log == ["start", "stop"]


async def test_more_input_is_asked_for_as_often_as_needed():
    weather = Weather()

    async with Runtime(weather) as runtime:
        pending = await runtime.call("weather__book")
        assert isinstance(pending, Pending)
        assert (pending.waiting_for, pending.message, pending.request) == ("input", "Which date?", {"type": "string"})

        again = await runtime.settle(pending.call_id, "1 May")
        assert isinstance(again, Pending)
        assert (again.call_id, again.message) == (pending.call_id, "How many?")

        assert await runtime.settle(pending.call_id, 2) == Done("1 May for 2")

    assert [call.tool for call, _ in weather.seen] == ["book"] * 3
    assert {call.id for call, _ in weather.seen} == {pending.call_id}


async def test_a_resumed_call_may_fail():
    async with Runtime(Weather()) as runtime:
        pending = await runtime.call("weather__book")
        await runtime.settle(pending.call_id, "1 May")
        outcome = await runtime.settle(pending.call_id, "none")

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message, outcome.executed) == ("failed", "Nobody travels.", True)


async def test_the_provider_state_of_a_pending_call_is_not_shown_to_people():
    async with Runtime(Weather()) as runtime:
        await runtime.call("weather__book")
        (wait,) = await runtime.pending()

    assert "step" not in repr(wait)


async def test_a_provider_is_notified_when_its_call_timed_out():
    clock, weather = ManualClock(), Weather()

    async with Runtime(weather, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("weather__hang", call_id="c1"))
        await weather.entered.wait()
        await clock.advance(5)
        assert (await call).code == "timed_out"

    assert weather.told == [("hang", "c1", "timed_out")]


@pytest.mark.parametrize("how", ["by id", "with its task"])
async def test_a_provider_is_notified_when_its_call_was_cancelled(how):
    weather = Weather()

    async with Runtime(weather) as runtime:
        call = asyncio.create_task(runtime.call("weather__hang", call_id="c1"))
        await weather.entered.wait()
        if how == "by id":
            await runtime.cancel("c1")
        else:
            call.cancel()
        await asyncio.wait({call})

    assert weather.told == [("hang", "c1", "cancelled")]


@pytest.mark.parametrize("how", ["raises", "hangs"])
async def test_a_provider_that_raises_on_cancel_changes_nothing_for_the_caller(how, caplog):
    class Deaf(Weather):
        async def cancel(self, call, reason):
            if how == "raises":
                raise RuntimeError("deaf")
            await asyncio.Event().wait()

    clock, weather = ManualClock(), Deaf()
    with caplog.at_level(logging.CRITICAL, "surehand"):
        async with Runtime(weather, clock=clock) as runtime:
            call = asyncio.create_task(runtime.call("weather__hang"))
            await weather.entered.wait()
            await clock.advance(5)
            assert (await call).code == "timed_out"


async def test_a_bug_of_a_provider_is_a_crash_of_that_call_alone():
    class Buggy(Weather):
        async def invoke(self, call, context):
            raise KeyError("missing")

    async with Runtime(Buggy()) as runtime:
        outcome = await runtime.call("weather__forecast", {"city": "Oslo"})

    assert (outcome.code, outcome.executed) == ("crashed", True)


async def test_a_provider_without_tools_or_invoke_names_the_missing_method():
    class Empty(Provider):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must define tools\(\)"):
        async with Runtime(Empty()):
            pass


async def test_a_remote_tool_that_declares_nothing_counts_as_writing_over_the_network():
    class Remote(Provider):
        namespace = "remote"

        async def tools(self):
            return [tool.provided("wipe", "Wipe it."), tool.provided("look", "Look.", effects={"read"})]

        async def invoke(self, call, context):
            return call.tool

    async with Runtime(Remote(), policy=Policy.default()) as runtime:
        assert (await runtime.call("remote__wipe")).waiting_for == "approval"
        assert (await runtime.call("remote__look")).data == "look"
        assert [listing.name for listing in runtime.catalogue.enabled(["read"])] == ["remote__look"]


async def test_a_provider_gets_calls_under_the_names_that_it_gave_its_tools():
    class Library(Provider):
        namespace = "library"

        async def tools(self):
            return [tool.provided("read file", "Read."), tool.provided("read_file", "Read, too.")]

        async def invoke(self, call, context):
            return call.tool

    async with Runtime(Library()) as runtime:
        names = [listing.name for listing in runtime.catalogue]
        called = [(await runtime.call(name)).data for name in names]

    assert called == ["read file", "read_file"]


async def test_a_provider_whose_tools_are_not_async_is_a_definition_error():
    class Sync(Provider):
        def tools(self):
            return []

    with pytest.raises(
        DefinitionError, match=r"test_providers.py:\d+: Sync.tools\(\) is not async. Fix: write `async def"
    ):
        await Runtime(Sync()).__aenter__()


async def test_a_provider_whose_start_is_not_async_is_a_definition_error():
    class Sync(Weather):
        def start(self):
            pass

    with pytest.raises(DefinitionError, match=r"Sync.start\(\) is not async"):
        await Runtime(Sync()).__aenter__()


@pytest.mark.parametrize("returned", [None, [None], [print], {"forecast": 1}, "forecast"])
async def test_a_provider_that_returns_anything_but_tools_is_a_definition_error(returned):
    class Wrong(Weather):
        async def tools(self):
            return returned

    with pytest.raises(DefinitionError, match=r"Wrong.tools\(\) returned .*, which is not a tool. Fix: return a list"):
        await Runtime(Wrong()).__aenter__()
