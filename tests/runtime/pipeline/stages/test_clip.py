"""The stage `clip`: outputs that are too large, and the tool that reads them."""

import json
import re
from time import process_time

import pytest

from surehand import DefinitionError, Runtime, ToolError, tool
from surehand.core.facets import CallLimits

LINES = [f"line {n}: {'x' * 20}" for n in range(1, 10_001)]


@tool
async def big() -> str:
    """Give much."""
    return "\n".join(LINES)


def giving(value, **facets):
    @tool(**facets)
    async def give():
        """Give something."""
        return value

    return give


def handle_of(outcome) -> dict:
    return json.loads(outcome.text)["tool_output"]


@pytest.fixture
def defaults():
    return {"max_output": 1_000}


async def read(runtime, outcome, **how) -> str:
    answer = await runtime.call("tool_output", {"handle": handle_of(outcome)["handle"], **how})
    return answer.text


async def test_too_large_a_text_becomes_a_handle_that_says_how_to_read_on():
    async with Runtime(big) as runtime:
        outcome = await runtime.call("big")

    told = handle_of(outcome)
    whole = "\n".join(LINES)
    assert outcome.ok
    assert told["reason"] == "size_limit_exceeded"
    assert (told["bytes"], told["lines"], told["tokens"]) == (len(whole), 10_000, -(-len(whole) // 4))
    assert whole.startswith(told["preview"])
    assert "tool_output" in told["next"]
    assert len(outcome.text) < 2_000
    assert [block.text for block in outcome.content] == [outcome.text]


async def test_the_data_stays_whole():
    async with Runtime(big) as runtime:
        assert (await runtime.call("big")).data == "\n".join(LINES)


@pytest.mark.parametrize("value", ["x" * 1_000, ["y" * 100] * 9, "é" * 500, {"a": 1}])
async def test_an_output_within_the_limit_is_not_changed(value, defaults):
    async with Runtime(giving(value), defaults=defaults) as runtime:
        outcome = await runtime.call("give")

    assert outcome.text == value if isinstance(value, str) else json.loads(outcome.text) == value


@pytest.mark.parametrize(
    ("value", "size"),
    [("x" * 1_001, 1_001), ("é" * 501, 1_002), ("\U0001f600" * 251, 1_004), (["z" * 1_000], 1_004)],
)
async def test_the_limit_counts_bytes(value, size, defaults):
    async with Runtime(giving(value), defaults=defaults) as runtime:
        outcome = await runtime.call("give")

    assert handle_of(outcome)["bytes"] == size
    assert outcome.data == value


async def test_a_tool_may_have_a_limit_of_its_own(defaults):
    async with Runtime(giving("x" * 50, max_bytes=49), defaults=defaults) as runtime:
        assert handle_of(await runtime.call("give"))["bytes"] == 50

    async with Runtime(giving("x" * 5_000, max_bytes=5_000), defaults=defaults) as runtime:
        assert (await runtime.call("give")).text == "x" * 5_000


async def test_text_that_cannot_be_encoded_is_clipped_like_any_other(defaults):
    async with Runtime(giving("\ud800" * 2_000), defaults=defaults) as runtime:
        outcome = await runtime.call("give")

    assert outcome.ok
    assert handle_of(outcome)["bytes"] == 6_000


async def test_the_reader_is_described_only_once_there_is_something_to_read():
    async with Runtime(big) as runtime:
        before = [each["function"]["name"] for each in runtime.describe("openai")]
        assert "tool_output" not in before
        assert (await runtime.call("tool_output", {"handle": "x"})).code == "not_found"

        await runtime.call("big")

        after = [each["function"]["name"] for each in runtime.describe("openai")]
        assert after.count("tool_output") == 1
        assert runtime.stats().artifacts == 1


async def test_the_reader_gives_head_tail_and_ranges_with_line_numbers():
    async with Runtime(big) as runtime:
        outcome = await runtime.call("big")
        numbered = [f"{n}\t{line}" for n, line in enumerate(LINES, 1)]
        assert (await read(runtime, outcome, head=3)).split("\n") == numbered[:3]
        assert (await read(runtime, outcome, tail=2)).split("\n") == numbered[-2:]
        assert (await read(runtime, outcome, lines="10-40")).split("\n") == numbered[9:40]
        assert (await read(runtime, outcome, lines="7")).split("\n") == numbered[6:7]
        assert (await read(runtime, outcome, lines="9999-")).split("\n") == numbered[9998:]
        assert (await read(runtime, outcome, lines="9990-99999")).split("\n") == numbered[9989:]


async def test_the_reader_searches_with_context():
    async with Runtime(big) as runtime:
        outcome = await runtime.call("big")
        found = await read(runtime, outcome, grep=r"^line (500|502):", context=1)
        assert [row.split("\t")[0] for row in found.split("\n")] == ["499", "500", "501", "502", "503"]
        found = await read(runtime, outcome, grep="line 1:", context=2)
        assert [row.split("\t")[0] for row in found.split("\n")] == ["1", "2", "3"]
        found = await read(runtime, outcome, grep="line 9..:", lines="1-950", tail=2)
        assert [row.split("\t")[0] for row in found.split("\n")] == ["949", "950"]
        assert "no lines" in await read(runtime, outcome, grep="nowhere")


@pytest.mark.parametrize("context", [10**12, 10_000, -5])
async def test_any_amount_of_context_is_quick(context):
    async with Runtime(big) as runtime:
        outcome = await runtime.call("big")
        began = process_time()
        answer = await runtime.call(
            "tool_output", {"handle": handle_of(outcome)["handle"], "grep": "line", "context": context}
        )

    assert answer.ok
    assert process_time() - began < 2


@pytest.mark.parametrize(
    "how", [{"lines": "all"}, {"lines": "-"}, {"lines": "1-2-3"}, {"grep": "("}, {"grep": "[z-a]"}]
)
async def test_invalid_arguments_of_the_reader_are_rejected(how):
    async with Runtime(big) as runtime:
        outcome = await runtime.call("big")
        answer = await runtime.call("tool_output", {"handle": handle_of(outcome)["handle"], **how})

    assert answer.code == "invalid_arguments"


@pytest.mark.parametrize("pattern", ["(?=x)y", "(?!x)y", "(?<=a)b", "(?<!a)b", r"(a)\1"])
async def test_patterns_that_need_backtracking_are_refused(pattern):
    async with Runtime(big) as runtime:
        outcome = await runtime.call("big")
        answer = await runtime.call("tool_output", {"handle": handle_of(outcome)["handle"], "grep": pattern})

    assert answer.code == "invalid_arguments"


async def test_a_pattern_that_would_take_forever_elsewhere_is_quick_here():
    async with Runtime(giving("\n".join(["a" * 5_000 + "b"] * 50))) as runtime:
        outcome = await runtime.call("give")
        began = process_time()
        answer = await read(runtime, outcome, grep=r"(a+)+$")

    assert "no lines" in answer
    assert process_time() - began < 2


async def test_an_excerpt_is_limited_and_says_how_to_read_the_rest():
    async with Runtime(big, defaults={"max_output": 2_000}) as runtime:
        outcome = await runtime.call("big")
        shown = await read(runtime, outcome)
        assert len(shown.encode()) <= 2_000
        assert "more lines, from line" in shown

        following = shown.rsplit("lines='", 1)[1].split("'")[0]
        assert (await read(runtime, outcome, lines=following)).startswith(following.split("-")[0] + "\t")


async def test_one_endless_line_is_cut_at_the_limit(defaults):
    async with Runtime(giving("é" * 100_000), defaults=defaults) as runtime:
        outcome = await runtime.call("give")
        shown = await read(runtime, outcome)

    assert len(shown.encode()) <= 1_000
    assert shown.startswith("1\téé")


async def test_anothers_handle_looks_unknown():
    async with Runtime(big) as runtime:
        ann, bob = runtime.scope(user="ann"), runtime.scope(user="bob")
        handle = handle_of(await ann.call("big"))["handle"]
        stolen = await bob.call("tool_output", {"handle": handle})
        invented = await bob.call("tool_output", {"handle": "x" * len(handle)})
        nobodys = await runtime.call("tool_output", {"handle": handle})

    assert stolen.code == invented.code == nobodys.code == "not_found"
    assert stolen.message.replace(handle, "") == invented.message.replace("x" * len(handle), "")


async def test_another_session_of_the_same_user_has_its_own_handles():
    async with Runtime(big) as runtime:
        handle = handle_of(await runtime.scope(user="ann", session="s1").call("big"))["handle"]
        assert (
            await runtime.scope(user="ann", session="s2").call("tool_output", {"handle": handle})
        ).code == "not_found"
        assert (await runtime.scope(user="ann", session="s1").call("tool_output", {"handle": handle})).ok


async def test_a_failure_with_an_endless_message_is_clipped_too(defaults):
    @tool
    async def fail() -> None:
        """Fail at length."""
        raise ToolError("no " * 10_000, code="not_found")

    async with Runtime(fail, defaults=defaults) as runtime:
        outcome = await runtime.call("fail")
        told = json.loads(outcome.message)["tool_output"]
        assert (outcome.code, outcome.executed) == ("not_found", True)
        assert len(outcome.text) < 1_500
        assert (await runtime.call("tool_output", {"handle": told["handle"], "head": 1})).ok


async def test_structured_data_is_clipped_by_its_json(defaults):
    rows = [{"id": n, "name": f"row {n}"} for n in range(500)]

    async with Runtime(giving(rows), defaults=defaults) as runtime:
        outcome = await runtime.call("give")
        shown = await read(runtime, outcome)

    assert outcome.data == rows
    assert json.loads(handle_of(outcome)["preview"][:1] + "]") == []
    assert shown.startswith('1\t[{"id":0')


async def test_clipped_outputs_of_different_calls_have_different_handles(defaults):
    async with Runtime(giving("one" * 1_000), defaults=defaults) as runtime:
        first, second = await runtime.call("give"), await runtime.call("give")
        assert handle_of(first)["handle"] != handle_of(second)["handle"]
        assert runtime.stats().artifacts == 2


async def test_one_endless_line_can_be_read_piece_by_piece():
    @tool
    async def blob() -> str:
        return "".join(f"{number:06d}," for number in range(50_000))

    async with Runtime(blob) as runtime:
        told = json.loads((await runtime.call("blob")).text)["tool_output"]
        first = await runtime.call("tool_output", {"handle": told["handle"], "lines": "1"})
        last = await runtime.call("tool_output", {"handle": told["handle"], "tail": 1})

    assert told["lines"] == 18
    assert first.data.startswith("1\t000000,")
    assert last.data.endswith("049999,")


@pytest.mark.parametrize("limit", [2_000, 10_000, 300_000])
async def test_an_excerpt_keeps_whole_lines_of_head_and_tail_within_the_limit(limit):
    async with Runtime(big.evolve(limits=CallLimits(max_bytes=limit, overflow="excerpt"))) as runtime:
        outcome = await runtime.call("big")
        header, *shown = outcome.text.split("\n")
        told = json.loads(header)["tool_output"]
        missing = await runtime.call("tool_output", {"handle": told["handle"], "lines": told["left_out"], "head": 1})

    first, last = map(int, told["left_out"].split("-"))
    assert len(outcome.text) <= limit
    assert shown == [*LINES[: first - 1], f"[... lines {first} to {last} left out ...]", *LINES[last:]]
    assert missing.data.split("\t")[1] == LINES[first - 1]
    assert outcome.data == "\n".join(LINES)


@pytest.mark.parametrize("value", ["x" * 50_000, "é" * 20_000, "x" * 30_000 + "\n" + "y" * 30_000, "\n" * 20_000])
async def test_an_excerpt_of_lines_that_are_too_long_is_cut_inside_them(value):
    async with Runtime(giving(value, max_bytes=10_000, overflow="excerpt")) as runtime:
        outcome = await runtime.call("give")

    header, _, shown = outcome.text.partition("\n")
    head, tail = re.split(r"\n\[\.\.\. lines \d+ to \d+ left out \.\.\.\]\n", shown)
    assert "handle" in json.loads(header)["tool_output"]
    assert value.startswith(head)
    assert value.endswith(tail)
    assert 9_000 < len(outcome.text.encode()) <= 10_000


async def test_an_excerpt_that_has_no_room_is_only_a_handle():
    async with Runtime(giving("a\n" * 400, max_bytes=300, overflow="excerpt")) as runtime:
        assert "preview" in handle_of(await runtime.call("give"))


async def test_a_failure_may_be_shown_as_an_excerpt():
    @tool(max_bytes=2_000, overflow="excerpt")
    async def fail() -> None:
        """Fail at length."""
        raise ToolError("\n".join(LINES))

    async with Runtime(fail) as runtime:
        outcome = await runtime.call("fail")

    assert LINES[0] in outcome.message.split("\n")
    assert outcome.message.endswith(LINES[-1])


def test_an_unknown_overflow_is_a_definition_error():
    with pytest.raises(DefinitionError, match="`overflow` must be 'handle' or 'excerpt', got 'all'"):
        giving("x", overflow="all")
