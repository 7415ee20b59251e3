"""Benchmark of one tool call: the time that the pipeline adds to reading the arguments and awaiting the function."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import BaseModel
from typing_extensions import TypedDict

from bench.call_limit import ADD_ARGUMENTS, Addends, add, add_limit, call_limit
from bench.measure import measure_ratio, time_calls
from bench.table import Row
from surehand import Queue, Runtime, Tool, tool
from surehand.observe import telemetry


class Article(BaseModel):
    """One of the objects in a nested argument."""

    id: int
    name: str
    price: float
    tags: list[str]
    available: bool


class ArticleDict(TypedDict):
    """The fields of `Article` as a TypedDict."""

    id: int
    name: str
    price: float
    tags: list[str]
    available: bool


class Articles(TypedDict):
    """The arguments of `count_articles`."""

    items: list[Article]


class ArticleDicts(TypedDict):
    """The arguments of `count_article_dicts`."""

    items: list[ArticleDict]


async def count_articles(items: list[Article]) -> int:
    """Count articles."""
    return len(items)


async def count_article_dicts(items: list[ArticleDict]) -> int:
    """Count articles."""
    return len(items)


async def add_later(a: int, b: int) -> int:
    """Add two numbers after one iteration of the event loop."""
    await asyncio.sleep(0)
    return a + b


def add_in_thread(a: int, b: int) -> int:
    """Add two numbers in a thread: the runtime runs every sync function in one."""
    return a + b


def articles_json(number: int) -> str:
    """The given number of articles as JSON text, as a model sends them."""
    items = [{"id": i, "name": f"n{i}", "price": 1.5 * i, "tags": ["a", "b"], "available": True} for i in range(number)]
    return json.dumps({"items": items})


async def measure_calls(*, rounds: int = 400, count: int = 500) -> list[Row]:
    """Measure each arguments_type of call."""
    return [
        await _measure_plain_call(rounds, count),
        await _measure_nested_arguments(Articles, count_articles, "models", rounds, count),
        # For information: the runtime rejects unknown keys of a TypedDict, which this limit does not check.
        replace(
            await _measure_nested_arguments(ArticleDicts, count_article_dicts, "TypedDicts", rounds, count), goal=None
        ),
        await _measure_observed_call(rounds, count),
        await _measure_untraced_call(rounds, count),
        await _measure_awaiting_handler(rounds, count),
        await _measure_sync_handler(rounds, count),
    ]


async def _measure_plain_call(rounds: int, count: int) -> Row:
    async with Runtime(tool(add)) as runtime:
        measured = await _add_ratio(runtime, rounds, count)
    return Row("call, JSON in, no listeners (stretch: 4x)", measured, 5)


async def _measure_observed_call(rounds: int, count: int) -> Row:
    """A call with an event listener, in a queue, and written to the journal."""
    queued = tool(queue="narrow")(add)
    async with Runtime(queued, queues={"narrow": Queue(concurrent=100)}, journal=True) as runtime:
        runtime.listen(lambda event: None)
        measured = await _add_ratio(runtime, rounds, count)
    return Row("call with a listener, a queue and the journal", measured, 8)


async def _measure_untraced_call(rounds: int, count: int) -> Row:
    """Alternate between a runtime with telemetry but no tracer and a runtime without telemetry."""
    async with Runtime(tool(add)) as plain, Runtime(tool(add)) as observed:
        telemetry(observed)
        ours = time_calls(observed.call, "add", ADD_ARGUMENTS, count=count)
        measured = await measure_ratio(ours, time_calls(plain.call, "add", ADD_ARGUMENTS, count=count), rounds=rounds)
    return Row("call with telemetry and no tracer set / without telemetry", measured, 1.05)


async def _add_ratio(runtime: Runtime, rounds: int, count: int) -> float:
    return await measure_ratio(
        time_calls(runtime.call, "add", ADD_ARGUMENTS, count=count), add_limit(count=count), rounds=rounds
    )


async def _measure_nested_arguments(
    arguments_type: Any, function: Callable[..., Any], name: str, rounds: int, count: int
) -> Row:
    text = articles_json(20)
    count = max(count // 20, 1)
    counter: Tool[..., Any] = tool(function)
    async with Runtime(counter) as runtime:
        baseline = call_limit(arguments_type, function, text, count=count)
        measured = await measure_ratio(
            time_calls(runtime.call, counter.name, text, count=count), baseline, rounds=rounds
        )
    return Row(f"call with 20 objects of 5 fields ({name})", measured, 1.25, note="for information")


async def _measure_awaiting_handler(rounds: int, count: int) -> Row:
    async def add_by_hand(a: int, b: int) -> int:
        async with asyncio.timeout(30):
            return await add_later(a, b)

    measured = await _slow_handler_ratio(add_later, add_by_hand, rounds, count)
    return Row("call of a handler that awaits / awaiting it by hand under asyncio.timeout", measured, 1.3)


async def _measure_sync_handler(rounds: int, count: int) -> Row:
    async def add_by_hand(a: int, b: int) -> int:
        return await asyncio.to_thread(add_in_thread, a, b)

    measured = await _slow_handler_ratio(add_in_thread, add_by_hand, rounds, count)
    return Row("call of a sync handler / asyncio.to_thread by hand", measured, 1)


async def _slow_handler_ratio(
    function: Callable[..., Any], by_hand: Callable[..., Any], rounds: int, count: int
) -> float:
    """A call with the default deadline, against validating the same arguments and awaiting by hand."""
    rounds = max(rounds // 8, 1)
    count = max(count // 5, 1)
    slow_tool: Tool[..., Any] = tool(name="add")(function)
    async with Runtime(slow_tool) as runtime:
        ours = time_calls(runtime.call, "add", ADD_ARGUMENTS, count=count)
        return await measure_ratio(ours, call_limit(Addends, by_hand, ADD_ARGUMENTS, count=count), rounds=rounds)
