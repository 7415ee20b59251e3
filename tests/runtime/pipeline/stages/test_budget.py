"""The stage `budget`: calls and tokens of a turn."""

import asyncio
import json

from surehand import Call, Context, Pending, Runtime, ToolError, tool
from surehand.testing import settle


@tool
async def say(text: str) -> str:
    """Say something."""
    return text


def internal():
    @tool
    async def report() -> str:
        """Report."""
        return "x" * 4_000

    return report.evolve(kind="internal")


async def test_a_turn_has_so_many_calls():
    async with Runtime(say) as runtime:
        turn = runtime.scope(max_calls=3)
        outcomes = [await turn.call("say", {"text": "hi"}) for _ in range(5)]

    assert [outcome.ok for outcome in outcomes] == [True, True, True, False, False]
    assert (outcomes[3].code, outcomes[3].executed) == ("limit_exceeded", False)
    assert "limit of 3" in outcomes[3].message


async def test_parallel_calls_share_the_turns_calls():
    async with Runtime(say) as runtime:
        turn = runtime.scope(max_calls=7)
        outcomes = await turn.call_many(Call("say", {"text": "hi"}) for _ in range(20))

    assert sum(outcome.ok for outcome in outcomes) == 7


async def test_invalid_arguments_do_not_cost_a_call():
    async with Runtime(say) as runtime:
        turn = runtime.scope(max_calls=1)
        assert (await turn.call("say", {"txet": "hi"})).code == "invalid_arguments"
        assert (await turn.call("say", {"text": "hi"})).ok


async def test_internal_tools_do_not_count_as_calls():
    async with Runtime(say, internal()) as runtime:
        turn = runtime.scope(max_calls=1)
        assert (await turn.call("report")).ok
        assert (await turn.call("say", {"text": "hi"})).ok
        assert (await turn.call("report")).ok
        assert (await turn.call("say", {"text": "hi"})).code == "limit_exceeded"


async def test_an_output_that_does_not_fit_is_stored_and_must_not_be_repeated():
    ran = []

    @tool
    async def big() -> str:
        """Give much."""
        ran.append(1)
        return "line of text\n" * 100

    async with Runtime(say, big) as runtime:
        turn = runtime.scope(max_tokens=100)
        outcome = await turn.call("big")

        kept = outcome.data["tool_output"]
        assert (outcome.code, outcome.executed) == ("over_budget", True)
        assert "must not be repeated" in outcome.message
        assert kept["handle"] in outcome.message
        assert (kept["reason"], kept["bytes"], kept["lines"]) == ("token_budget", 1300, 100)

        later = await turn.call("big")
        assert (later.code, later.executed) == ("over_budget", False)
        assert (await turn.call("say", {"text": "hi"})).code == "over_budget"
        assert len(ran) == 1

        read = await turn.call("tool_output", {"handle": kept["handle"], "lines": "1-2"})
        assert read.text == "1\tline of text\n2\tline of text"


async def test_a_stored_output_can_be_read_without_any_tokens_left():
    async with Runtime(say) as runtime:
        turn = runtime.scope(max_tokens=100)
        assert (await turn.call("say", {"text": "x" * 396})).ok
        outcome = await turn.call("say", {"text": "y" * 400})
        assert outcome.code == "over_budget"

        read = await turn.call("tool_output", {"handle": outcome.data["tool_output"]["handle"], "head": 1})

    assert read.text == "1\t" + "y" * 400


async def test_internal_tools_work_in_a_turn_without_tokens():
    async with Runtime(say, internal()) as runtime:
        turn = runtime.scope(max_tokens=10)
        assert (await turn.call("say", {"text": "x" * 400})).code == "over_budget"
        assert (await turn.call("report")).ok


async def test_parallel_calls_share_the_turns_tokens():
    release = asyncio.Event()

    @tool
    async def slow() -> str:
        """Give forty characters."""
        await release.wait()
        return "x" * 40

    async with Runtime(slow) as runtime:
        turn = runtime.scope(max_tokens=35)
        calls = [asyncio.create_task(turn.call("slow")) for _ in range(6)]
        await settle()
        release.set()
        outcomes = await asyncio.gather(*calls)

    assert [outcome.ok for outcome in outcomes] == [True, True, True, False, False, False]
    assert {outcome.code for outcome in outcomes[3:]} == {"over_budget"}
    assert all(outcome.executed for outcome in outcomes[3:])


async def test_a_budget_that_is_met_exactly_is_not_exceeded():
    async with Runtime(say) as runtime:
        turn = runtime.scope(max_tokens=10)
        assert (await turn.call("say", {"text": "x" * 40})).ok
        assert (await turn.call("say", {"text": "x"})).executed is False


async def test_a_new_turn_has_a_new_budget():
    async with Runtime(say) as runtime:
        for _ in range(3):
            turn = runtime.scope(max_calls=1, max_tokens=10)
            assert (await turn.call("say", {"text": "hi"})).ok
            assert (await turn.call("say", {"text": "hi"})).code == "limit_exceeded"
        assert (await runtime.call("say", {"text": "x" * 1_000})).ok


async def test_a_narrower_scope_spends_the_same_budget():
    async with Runtime(say) as runtime:
        turn = runtime.scope(max_calls=2)
        assert (await turn.scope(user="ann").call("say", {"text": "hi"})).ok
        assert (await turn.scope(user="bob").call("say", {"text": "hi"})).ok
        assert (await turn.call("say", {"text": "hi"})).code == "limit_exceeded"


async def test_clipping_comes_before_the_budget():
    async with Runtime(say, defaults={"max_output": 1_000}) as runtime:
        turn = runtime.scope(max_tokens=400)
        outcome = await turn.call("say", {"text": "x" * 100_000})

    assert outcome.ok
    assert json.loads(outcome.text)["tool_output"]["bytes"] == 100_000


async def test_nested_calls_are_part_of_the_turn():
    @tool
    async def twice(ctx: Context) -> list[str]:
        """Call another tool until it is refused."""
        return [getattr(await ctx.call("say", {"text": "hi"}), "code", "ok") for _ in range(3)]

    async with Runtime(say, twice) as runtime:
        assert (await runtime.scope(max_calls=3).call("twice")).data == ["ok", "ok", "limit_exceeded"]


async def test_a_failure_that_does_not_fit_is_still_returned():
    @tool
    async def fail() -> None:
        """Fail at length."""
        raise ToolError("no " * 200)

    async with Runtime(fail) as runtime:
        outcome = await runtime.scope(max_tokens=10).call("fail")

    assert outcome.code == "failed"


async def test_a_call_that_waited_counts_once():
    @tool(confirm=True)
    async def careful() -> str:
        """Ask first."""
        return "done"

    async with Runtime(careful, say) as runtime:
        turn = runtime.scope(max_calls=1)
        pending = await turn.call("careful")
        assert isinstance(pending, Pending)
        assert (await turn.approve(pending.call_id)).data == "done"
        assert (await turn.call("say", {"text": "hi"})).code == "limit_exceeded"


async def test_an_output_that_is_too_large_and_over_budget_is_kept_once_and_whole():
    async with Runtime(say) as runtime:
        turn = runtime.scope(max_tokens=100)
        outcome = await turn.call("say", {"text": "line\n" * 100_000})
        kept = outcome.data["tool_output"]
        last = await turn.call("tool_output", {"handle": kept["handle"], "tail": 1})

        assert runtime.stats().artifacts == 1

    assert outcome.code == "over_budget"
    assert (kept["bytes"], kept["lines"]) == (500_000, 100_000)
    assert "500000 bytes" in outcome.message
    assert last.text == "100000\tline"
