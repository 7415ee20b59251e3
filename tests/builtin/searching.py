"""Searching: the tools under test, made to work by ripgrep or by our own walker."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from surehand import Done, Failed, Outcome, Runtime, Workspace
from surehand.builtin.search import ripgrep
from surehand.builtin.search.tools import search_tools
from tests.needs import needs

WAYS = [pytest.param("ripgrep", marks=needs("bubblewrap")), "walker"]
both_ways = pytest.mark.parametrize("way", WAYS)
Call = Callable[..., Awaitable[Outcome]]


@contextmanager
def by(way: str) -> Iterator[None]:
    """Have searches made so; one that could not be is a failure, unless the way is "either"."""
    before, told = ripgrep.is_available, _Told()
    assert way == "walker" or before(), "there is no ripgrep, or no sandbox for it"
    ripgrep.is_available = lambda: way != "walker"
    ripgrep.log.addHandler(told)
    try:
        yield
    finally:
        ripgrep.is_available = before
        ripgrep.log.removeHandler(told)
    assert way == "either" or not told.lines, told.lines


class _Told(logging.Handler):
    """Keeps what is said about searches made without ripgrep."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "without ripgrep" in record.getMessage():
            self.lines.append(record.getMessage())


@asynccontextmanager
async def searching(where: Path | Workspace, way: str, **options: Any) -> AsyncIterator[Call]:
    """Calls the search tools of a workspace."""
    space = where if isinstance(where, Workspace) else Workspace(where)
    with by(way):
        async with Runtime(*search_tools(space), **options) as runtime:

            async def call(name: str, /, **arguments: Any) -> Outcome:
                return await runtime.call(name, arguments)

            yield call


async def found(where: Path | Workspace, way: str, name: str, /, **arguments: Any) -> Done:
    """The outcome of one call that ends well."""
    async with searching(where, way) as call:
        outcome = await call(name, **arguments)
    assert isinstance(outcome, Done), outcome
    return outcome


async def refused(where: Path | Workspace, way: str, name: str, /, **arguments: Any) -> Failed:
    """The outcome of one call that does not."""
    async with searching(where, way) as call:
        outcome = await call(name, **arguments)
    assert isinstance(outcome, Failed), outcome
    return outcome


def grow(root: Path, files: dict[str, str | bytes]) -> Path:
    """Make files, and the folders that they lie in."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


async def yes(wait: Any) -> bool:
    """An approver who agrees to everything."""
    return True
