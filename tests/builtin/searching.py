"""Helpers for tests of the search tools, which run them with ripgrep or with the Python search."""

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
def search_with(way: str) -> Iterator[None]:
    """Search with ripgrep or with the Python search; a fallback is a failure, unless the way is "either"."""
    original = ripgrep.is_available
    fallbacks = _FallbackLog()
    assert way == "walker" or original(), "there is no ripgrep, or no sandbox for it"
    ripgrep.is_available = lambda: way != "walker"
    ripgrep.log.addHandler(fallbacks)
    try:
        yield
    finally:
        ripgrep.is_available = original
        ripgrep.log.removeHandler(fallbacks)
    assert way == "either" or not fallbacks.lines, fallbacks.lines


class _FallbackLog(logging.Handler):
    """Collects the warnings about searches without ripgrep."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "without ripgrep" in record.getMessage():
            self.lines.append(record.getMessage())


@asynccontextmanager
async def searching(where: Path | Workspace, way: str, **options: Any) -> AsyncIterator[Call]:
    """A function that calls the search tools of a workspace."""
    space = where if isinstance(where, Workspace) else Workspace(where)
    with search_with(way):
        async with Runtime(*search_tools(space), **options) as runtime:

            async def call(name: str, /, **arguments: Any) -> Outcome:
                return await runtime.call(name, arguments)

            yield call


async def found(where: Path | Workspace, way: str, name: str, /, **arguments: Any) -> Done:
    """The outcome of a call that succeeds."""
    async with searching(where, way) as call:
        outcome = await call(name, **arguments)
    assert isinstance(outcome, Done), outcome
    return outcome


async def refused(where: Path | Workspace, way: str, name: str, /, **arguments: Any) -> Failed:
    """The outcome of a call that fails."""
    async with searching(where, way) as call:
        outcome = await call(name, **arguments)
    assert isinstance(outcome, Failed), outcome
    return outcome


def write_tree(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write files, and create their folders."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


async def yes(wait: Any) -> bool:
    """An approver that approves everything."""
    return True
