"""The practical limit of one call: parse the JSON with pydantic-core and await the function. The baseline of calls."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from bench.measure import TimedRound

ADD_ARGUMENTS = '{"a": 1, "b": 2}'


class Addends(TypedDict):
    """The arguments of `add`."""

    a: int
    b: int


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def call_limit(arguments_type: Any, function: Callable[..., Any], text: str, *, count: int) -> TimedRound:
    """Time `count` calls of a function whose arguments are parsed from JSON text."""
    parse = TypeAdapter(arguments_type).validator.validate_json

    async def run_round() -> float:
        started_at = perf_counter()
        for _ in range(count):
            await function(**parse(text))
        return perf_counter() - started_at

    return run_round


def add_limit(*, count: int) -> TimedRound:
    """Time `count` calls of `add` at the practical limit."""
    return call_limit(Addends, add, ADD_ARGUMENTS, count=count)
