"""What the store keeps of a call that has ended."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from surehand import Done, Runtime, tool

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


async def test_a_call_leaves_nothing_behind_that_would_have_to_be_searched_for() -> None:
    @tool(effects={"write"})
    async def save(text: str) -> dict[str, str]:
        """Save a text."""
        return {"saved": text}

    async with Runtime(save, store=":memory:") as runtime:
        await runtime.call("save", {"text": "first"})
        gc.collect()
        gc.disable()
        try:
            for number in range(100):
                assert (await runtime.call("save", {"text": str(number)})).ok
            left = gc.collect()
        finally:
            gc.enable()

    assert left < 100


async def test_middleware_that_proceeds_after_the_end_of_its_call_runs_nothing() -> None:
    ran: list[str] = []
    kept: list[Any] = []

    @tool(effects={"write"})
    async def save(text: str) -> str:
        """Save a text."""
        ran.append(text)
        return text

    async def keeping(invocation: Any, proceed: Any) -> Any:
        kept.append((invocation, proceed))
        return await proceed(invocation)

    async with Runtime(save, store=":memory:", middleware=[keeping]) as runtime:
        assert await runtime.call("save", {"text": "once"}) == Done("once")
        invocation, proceed = kept[0]
        late = await proceed(invocation)

    assert (late.code, ran) == ("conflict", ["once"])
