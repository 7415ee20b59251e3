"""Runs the search tools with ripgrep or with the Python search, for the tests of both."""

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
from tests.requirements import needs

ENGINES = [pytest.param("ripgrep", marks=needs("bubblewrap")), "walker"]
with_both_engines = pytest.mark.parametrize("engine", ENGINES)
Call = Callable[..., Awaitable[Outcome]]


@contextmanager
def search_with(engine: str) -> Iterator[None]:
    """Search with this engine. A fallback to Python fails the test, unless the engine is "either"."""
    is_available, fallbacks = ripgrep.is_available, _FallbackRecorder()
    assert engine == "walker" or is_available(), "ripgrep or its sandbox is not available"
    ripgrep.is_available = lambda: engine != "walker"
    ripgrep.log.addHandler(fallbacks)
    try:
        yield
    finally:
        ripgrep.is_available = is_available
        ripgrep.log.removeHandler(fallbacks)
    assert engine == "either" or not fallbacks.lines, fallbacks.lines


class _FallbackRecorder(logging.Handler):
    """Records the log messages about searches without ripgrep."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "without ripgrep" in record.getMessage():
            self.lines.append(record.getMessage())


@asynccontextmanager
async def open_search(where: Path | Workspace, engine: str, **options: Any) -> AsyncIterator[Call]:
    """Open a runtime with the search tools of a workspace; gives a function that calls them."""
    space = where if isinstance(where, Workspace) else Workspace(where)
    with search_with(engine):
        async with Runtime(*search_tools(space, "both"), **options) as runtime:

            async def call(name: str, /, **arguments: Any) -> Outcome:
                return await runtime.call(name, arguments)

            yield call


async def search_done(where: Path | Workspace, engine: str, name: str, /, **arguments: Any) -> Done:
    """The outcome of one call, which must succeed."""
    async with open_search(where, engine) as call:
        outcome = await call(name, **arguments)
    assert isinstance(outcome, Done), outcome
    return outcome


async def search_failed(where: Path | Workspace, engine: str, name: str, /, **arguments: Any) -> Failed:
    """The outcome of one call, which must fail."""
    async with open_search(where, engine) as call:
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


async def approve_everything(wait: Any) -> bool:
    """An approver that approves every call."""
    return True
