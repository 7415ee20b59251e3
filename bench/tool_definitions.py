"""Benchmark of defining, preparing and describing thousands of tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from pydantic import TypeAdapter

from bench.measure import TimedRound, measure_ratio, time_function
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


def make_functions(count: int) -> list[Callable[..., Any]]:
    """Make that many distinct functions with the same signature."""
    namespace: dict[str, Any] = {}
    for number in range(count):
        exec(_SOURCE.format(number=number), namespace)
    return [namespace[f"tool_{number}"] for number in range(count)]


async def measure_definitions(*, rounds: int = 3, count: int = 10_000) -> list[Row]:
    """Compare definitions with pydantic's type adapters, and descriptions with serializing them."""
    functions = make_functions(count)
    sample = functions[: max(count // 10, 1)]
    defined = await measure_ratio(
        time_function(lambda: [tool(function) for function in functions]), _time_type_adapters(functions), rounds=rounds
    )
    started = await measure_ratio(
        time_function(lambda: _prepare_runtime(sample)), _time_type_adapters(sample), rounds=rounds
    )
    catalogue = Catalogue(*map(tool, functions))
    descriptions = catalogue.describe("openai")
    serialize = time_function(lambda: json.dumps(descriptions))
    describe_again = time_function(lambda: catalogue.describe("openai"))
    described = await measure_ratio(describe_again, serialize, rounds=rounds * 3)
    return [
        Row(f"define {count:,} tools / a TypeAdapter for each function", defined, 0.2),
        Row(f"define, check and make ready {len(sample):,} tools / the same", started, note="for information"),
        Row(f"describe {count:,} tools a second time / json.dumps of that", described, 1),
    ]


def _time_type_adapters(functions: list[Callable[..., Any]]) -> TimedRound:
    return time_function(lambda: [TypeAdapter[Any](cast(Any, function)) for function in functions])


def _prepare_runtime(functions: list[Callable[..., Any]]) -> Runtime:
    """Do what a runtime does with its tools when it starts."""
    runtime = Runtime(*map(tool, functions))
    for listing in runtime.catalogue:
        listing.tool.compile()
    return runtime
