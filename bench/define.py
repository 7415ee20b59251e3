"""Defining and describing: thousands of tools at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from pydantic import TypeAdapter

from bench.measure import Timed, once, ratio
from bench.table import Row
from surehand import Catalogue, Runtime, tool

_SOURCE = '''
async def tool_{number}(query: str, limit: int = 10, tags: list[str] | None = None) -> str:
    """Find records of kind {number}.

    Args:
        query: What to look for.
        limit: At most so many.
        tags: Only those with one of these.
    """
    return query
'''


def functions(count: int) -> list[Callable[..., Any]]:
    """Functions that have nothing in common but their shape."""
    namespace: dict[str, Any] = {}
    for number in range(count):
        exec(_SOURCE.format(number=number), namespace)
    return [namespace[f"tool_{number}"] for number in range(count)]


async def define(*, rounds: int = 3, count: int = 10_000) -> list[Row]:
    """Definitions against pydantic's, descriptions against writing them out."""
    made = functions(count)
    some = made[: max(count // 10, 1)]
    defined = await ratio(once(lambda: [tool(function) for function in made]), _adapters(made), rounds=rounds)
    started = await ratio(once(lambda: _ready(some)), _adapters(some), rounds=rounds)
    catalogue = Catalogue(*map(tool, made))
    shown = catalogue.describe("openai")
    writing, again = once(lambda: json.dumps(shown)), once(lambda: catalogue.describe("openai"))
    described = await ratio(again, writing, rounds=rounds * 3)
    return [
        Row(f"define {count:,} tools / a TypeAdapter for each function", defined, 0.2),
        Row(f"define, check and make ready {len(some):,} tools / the same", started, note="for information"),
        Row(f"describe {count:,} tools a second time / json.dumps of that", described, 1),
    ]


def _adapters(made: list[Callable[..., Any]]) -> Timed:
    return once(lambda: [TypeAdapter[Any](cast(Any, function)) for function in made])


def _ready(made: list[Callable[..., Any]]) -> Runtime:
    """As far as a runtime goes when it starts."""
    runtime = Runtime(*map(tool, made))
    for listing in runtime.catalogue:
        listing.tool.compile()
    return runtime
