"""The practical limit of one call: pydantic-core reads the JSON, and the function is awaited. Nothing can do less."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from bench.measure import Timed

ADD = '{"a": 1, "b": 2}'


class Addends(TypedDict):
    """What `add` takes."""

    a: int
    b: int


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def limit(kind: Any, function: Callable[..., Any], text: str, *, count: int) -> Timed:
    """So many calls of a function, with arguments of a kind, from JSON text."""
    read = TypeAdapter(kind).validator.validate_json

    async def timed() -> float:
        began = perf_counter()
        for _ in range(count):
            await function(**read(text))
        return perf_counter() - began

    return timed


def add_limit(*, count: int) -> Timed:
    """The limit of `add`, against which calls are measured."""
    return limit(Addends, add, ADD, count=count)
