"""A provider with scripted answers that records its calls."""

import asyncio

import pytest

from surehand import Call, DefinitionError, Done, Failed, Pending, tool
from surehand.core.errors import Unavailable
from surehand.testing import RecordingProvider, runtime

COMMIT = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}


async def test_calls_are_recorded_with_validated_arguments() -> None:
    git = RecordingProvider("git", [("commit", COMMIT)], {"commit": "abc123"})
    async with runtime(git) as rt:
        outcome = await rt.call("git__commit", '{"message": "Fix"}', call_id="c1")
        refused = await rt.call("git__commit", {"text": "Fix"})

    assert outcome.unwrap() == "abc123"
    assert refused.code == "invalid_arguments"
    assert git.calls == [Call("commit", {"message": "Fix"}, id="c1")]


async def test_an_answer_may_be_an_outcome_an_exception_or_a_function_of_the_call() -> None:
    async def slow(call: Call) -> str:
        await asyncio.sleep(0)
        return f"ran {call.tool}"

    answers = {
        "status": Done({"clean": True}, title="Status"),
        "push": Unavailable("no network"),
        "fetch": slow,
        "log": lambda call: [call.id],
        "gone": Failed("not_found", "no such branch"),
        "pull": Unavailable,
    }
    async with runtime(RecordingProvider("git", [*answers, "other"], answers)) as rt:
        assert (await rt.call("git__status")).title == "Status"
        assert (await rt.call("git__push")).code == "unavailable"
        assert (await rt.call("git__fetch")).unwrap() == "ran fetch"
        assert (await rt.call("git__log", call_id="c1")).unwrap() == ["c1"]
        assert (await rt.call("git__gone")).code == "not_found"
        assert (await rt.call("git__pull")).code == "unavailable"
        assert (await rt.call("git__other")).text == "(no output)"


async def test_tools_may_be_given_as_names_with_their_schemas() -> None:
    async with runtime(RecordingProvider("git", {"commit": COMMIT})) as rt:
        assert rt.catalogue.find("git__commit").tool.schema == COMMIT


async def test_an_iterator_gives_one_answer_per_call_and_fails_when_it_is_exhausted() -> None:
    git = RecordingProvider("git", ["status"], {"status": iter(["clean", Unavailable("busy")])})
    async with runtime(git) as rt:
        outcomes = [await rt.call("git__status") for _ in range(3)]

    assert outcomes[0].unwrap() == "clean"
    assert outcomes[1].code == "unavailable"
    assert "git__status has no answer left for its call 3" in outcomes[2].text


async def test_a_tool_with_a_handler_does_its_own_work_unless_it_has_an_answer() -> None:
    @tool(effects={"read"})
    async def half(number: int) -> float:
        """Half of a number."""
        return number / 2

    real, scripted = RecordingProvider("a", [half]), RecordingProvider("b", [half], {"half": 7})
    async with runtime(real, scripted) as rt:
        assert (await rt.call("a__half", {"number": 8})).unwrap() == 4.0
        assert (await rt.call("b__half", {"number": 8})).unwrap() == 7

    assert [call.arguments for call in (*real.calls, *scripted.calls)] == [{"number": 8}, {"number": 8}]


async def test_answers_can_be_changed_between_calls() -> None:
    git = RecordingProvider("git", ["status"], {"status": "clean"})
    async with runtime(git) as rt:
        await rt.call("git__status")
        git.answers["status"] = "dirty"

        assert (await rt.call("git__status")).unwrap() == "dirty"


async def test_resumed_and_cancelled_calls_are_recorded() -> None:
    async def forever(call: Call) -> None:
        await asyncio.Event().wait()

    answers = {"login": Pending("input", message="Password?"), "clone": forever}
    git = RecordingProvider("git", list(answers), answers, kind="mcp", timeout=2, instructions="Be brief.")
    async with runtime(git) as rt:
        pending = await rt.call("git__login")
        assert (await rt.settle(pending.call_id, "s3cret")).unwrap() == "s3cret"
        call = asyncio.ensure_future(rt.call("git__clone"))
        await rt.clock.advance(2)
        assert (await call).code == "timed_out"
        assert "Be brief." in rt.instructions()

    assert [(call.tool, answer) for call, answer in git.resumed] == [("login", "s3cret")]
    assert [reason for _, reason in git.cancelled] == ["timed_out"]


def test_an_answer_for_an_unknown_tool_is_an_error() -> None:
    with pytest.raises(DefinitionError, match=r"'statsu', which it does not offer.*did you mean 'status'"):
        RecordingProvider("git", ["status"], {"statsu": "clean"})
