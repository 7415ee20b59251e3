"""Options of a call (`timeout`, `context`, `priority`): an invalid one fails the call, which is journalled."""

from pathlib import Path
from typing import Any

import pytest

from surehand import Call, Failed, Runtime, events, tool


@tool
async def greet(name: str = "Ada") -> str:
    """Greet a person."""
    return f"Hello, {name}!"


INVALID_OPTIONS: list[dict[str, Any]] = [
    {"timeout": "soon"},
    {"timeout": -1},
    {"timeout": float("nan")},
    {"timeout": [30]},
    {"timeout": True},
    {"context": 5},
    {"context": "session"},
    {"context": {"user": 7}},
    {"context": {"nobody": "x"}},
]


@pytest.mark.parametrize("options", INVALID_OPTIONS, ids=repr)
async def test_a_call_with_an_invalid_option_is_journalled_counted_and_reported(options: dict[str, Any]) -> None:
    seen: list[Any] = []
    async with Runtime(greet, journal=True) as runtime:
        runtime.listen(seen.append)
        outcome = await runtime.call("greet", {}, **options)

        assert [(entry.tool, entry.status) for entry in runtime.journal] == [("greet", "invalid_arguments")]
        assert runtime.stats().calls["greet"].failures == 1

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.executed) == ("invalid_arguments", False)
    assert [type(event) for event in seen if event.tool == "greet"] == [events.CallStarted, events.CallEnded]
    assert outcome.meta.tool == "greet"


async def test_a_call_with_an_invalid_option_is_in_the_journal_of_the_store(tmp_path: Path) -> None:
    async with Runtime(greet, store=tmp_path / "calls.db") as runtime:
        outcome = await runtime.call("greet", {}, timeout="soon")
        assert runtime.store is not None
        rows = await runtime.store.journal.list()

    assert [(row.call_id, row.status) for row in rows] == [(outcome.meta.call_id, "invalid_arguments")]


async def test_the_message_names_the_option_and_how_to_write_it() -> None:
    async with Runtime(greet) as runtime:
        timeout = await runtime.call("greet", {}, timeout="soon")
        context = await runtime.call("greet", {}, context=5)  # type: ignore[arg-type]

    assert timeout.text == "(tool failed: `timeout`: 'soon' is not a duration. Write 30, '30s' or 'off'.)"
    assert context.text.startswith("(tool failed: `context` must be a Context or a mapping of agent, session,")


async def test_dispatch_and_stream_read_a_timeout_as_call_does() -> None:
    async with Runtime(greet, journal=True) as runtime:
        assert (await runtime.dispatch("greet", {}, timeout="30s")).ok
        refused = await runtime.dispatch("greet", {}, timeout="soon")
        last = [event async for event in runtime.stream("greet", {}, timeout="soon")][-1]
        streamed = [event async for event in runtime.stream("greet", {}, timeout="30s")][-1]

        assert len(runtime.journal) == 4

    assert isinstance(refused, Failed)
    assert refused.code == "invalid_arguments"
    assert isinstance(last, events.CallEnded)
    assert isinstance(last.outcome, Failed)
    assert isinstance(streamed, events.CallEnded)
    assert streamed.outcome.ok


async def test_a_call_of_many_with_an_invalid_priority_is_journalled_and_the_others_run() -> None:
    async with Runtime(greet, journal=True) as runtime:
        wrong = Call("greet", {}, priority="high")  # type: ignore[arg-type]
        outcomes = await runtime.call_many([wrong, Call("greet", {})])

        assert sorted(entry.status for entry in runtime.journal) == ["invalid_arguments", "ok"]

    assert [outcome.ok for outcome in outcomes] == [False, True]


async def test_an_invalid_option_for_an_unknown_tool_or_a_closed_runtime_is_an_outcome_too() -> None:
    runtime = Runtime(greet, journal=True)
    async with runtime:
        unknown = await runtime.call("nothing", {}, timeout="soon")
        no_name = await runtime.call(["greet"], {}, timeout="soon")  # type: ignore[arg-type]
    closed = await runtime.call("greet", {}, timeout="soon")

    assert [isinstance(outcome, Failed) for outcome in (unknown, no_name, closed)] == [True] * 3
