"""Calls: what the pipeline adds to one call of a tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import BaseModel
from typing_extensions import TypedDict

from bench.limit import ADD, add, add_limit, limit
from bench.measure import ratio, repeated
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
    """The same, as a TypedDict."""

    id: int
    name: str
    price: float
    tags: list[str]
    available: bool


class Articles(TypedDict):
    """What `count_articles` takes."""

    items: list[Article]


class ArticleDicts(TypedDict):
    """What `count_article_dicts` takes."""

    items: list[ArticleDict]


async def count_articles(items: list[Article]) -> int:
    """Count articles."""
    return len(items)


async def count_article_dicts(items: list[ArticleDict]) -> int:
    """Count articles."""
    return len(items)


async def add_later(a: int, b: int) -> int:
    """Add two numbers, one turn of the loop later."""
    await asyncio.sleep(0)
    return a + b


def add_in_thread(a: int, b: int) -> int:
    """Add two numbers in a thread, as every plain function is run."""
    return a + b


def articles(number: int) -> str:
    """So many articles as a model would send them."""
    items = [{"id": i, "name": f"n{i}", "price": 1.5 * i, "tags": ["a", "b"], "available": True} for i in range(number)]
    return json.dumps({"items": items})


async def calls(*, rounds: int = 400, count: int = 500) -> list[Row]:
    """Every kind of call."""
    return [
        await _plain(rounds, count),
        await _nested(Articles, count_articles, "models", rounds, count),
        # For information: a TypedDict's unknown keys are refused, which this limit does not even look for.
        replace(await _nested(ArticleDicts, count_article_dicts, "TypedDicts", rounds, count), goal=None),
        await _watched(rounds, count),
        await _untraced(rounds, count),
        await _told(add_later, "call of a handler that awaits (a loop turn and a deadline)", rounds, count),
        await _told(add_in_thread, "call of a sync handler (a thread and a deadline)", rounds, count),
    ]


async def _plain(rounds: int, count: int) -> Row:
    async with Runtime(tool(add)) as runtime:
        measured = await _call(runtime, rounds, count)
    return Row("call, JSON in, nobody listening (stretch: 4x)", measured, 5)


async def _watched(rounds: int, count: int) -> Row:
    """Heard, queued and in the journal."""
    queued = tool(queue="narrow")(add)
    async with Runtime(queued, queues={"narrow": Queue(concurrent=100)}, journal=True) as runtime:
        runtime.listen(lambda event: None)
        measured = await _call(runtime, rounds, count)
    return Row("call with a listener, a queue and the journal", measured, 8)


async def _untraced(rounds: int, count: int) -> Row:
    """Telemetry is asked for, but no tracer is set: two runtimes turn about, one of them with telemetry."""
    async with Runtime(tool(add)) as plain, Runtime(tool(add)) as observed:
        telemetry(observed)
        ours = repeated(observed.call, "add", ADD, count=count)
        measured = await ratio(ours, repeated(plain.call, "add", ADD, count=count), rounds=rounds)
    return Row("call with telemetry and no tracer set / without telemetry", measured, 1.05)


async def _call(runtime: Runtime, rounds: int, count: int) -> float:
    return await ratio(repeated(runtime.call, "add", ADD, count=count), add_limit(count=count), rounds=rounds)


async def _nested(kind: Any, function: Callable[..., Any], name: str, rounds: int, count: int) -> Row:
    text, fewer = articles(20), max(count // 20, 1)
    counted: Tool[..., Any] = tool(function)
    async with Runtime(counted) as runtime:
        least = limit(kind, function, text, count=fewer)
        measured = await ratio(repeated(runtime.call, counted.name, text, count=fewer), least, rounds=rounds)
    return Row(f"call with 20 objects of 5 fields ({name})", measured, 1.25, note="for information")


async def _told(function: Callable[..., Any], what: str, rounds: int, count: int) -> Row:
    """For information: measured against the limit of a plain call, which neither waits nor leaves its thread."""
    fewer, slow = max(rounds // 8, 1), max(count // 5, 1)
    made: Tool[..., Any] = tool(name="add")(function)
    async with Runtime(made) as runtime:
        measured = await ratio(repeated(runtime.call, "add", ADD, count=slow), add_limit(count=slow), rounds=fewer)
    return Row(what, measured, note="for information")
