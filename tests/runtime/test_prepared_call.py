"""A prepared call: a call that has its id before it runs."""

from __future__ import annotations

import pytest

from surehand import Done, Failed, Runtime, tool
from surehand.core.events import CallEnded, CallStarted, Event


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ARGUMENTS = {"a": 1, "b": 2}


async def test_a_prepared_call_has_the_id_of_its_outcome_before_it_runs() -> None:
    async with Runtime(add) as runtime:
        prepared = runtime.prepare("add", ARGUMENTS)
        call_id = prepared.id

        outcome = await prepared.run()

    assert outcome == Done(3)
    assert outcome.meta.call_id == call_id


async def test_a_prepared_call_that_never_runs_emits_nothing() -> None:
    events: list[Event] = []
    async with Runtime(add) as runtime:
        runtime.listen(events.append)

        skipped = runtime.prepare("add", ARGUMENTS)
        ran = runtime.prepare("add", ARGUMENTS)
        await ran.run()

    assert [type(event) for event in events] == [CallStarted, CallEnded]
    assert skipped.id not in {event.call_id for event in events if isinstance(event, (CallStarted, CallEnded))}


async def test_a_prepared_call_streams_its_events() -> None:
    async with Runtime(add) as runtime:
        prepared = runtime.prepare("add", ARGUMENTS)
        events = [event async for event in prepared.stream()]

    assert [type(event) for event in events] == [CallStarted, CallEnded]


async def test_a_prepared_call_runs_once() -> None:
    async with Runtime(add) as runtime:
        prepared = runtime.prepare("add", ARGUMENTS)
        await prepared.run()

        with pytest.raises(RuntimeError, match="was started already"):
            await prepared.run()


async def test_a_prepared_call_with_an_invalid_timeout_fails_when_it_runs() -> None:
    async with Runtime(add) as runtime:
        outcome = await runtime.prepare("add", ARGUMENTS, timeout="soon").run()

    assert isinstance(outcome, Failed)
    assert outcome.code == "invalid_arguments"
