"""Fixtures for tests of agents."""

from pathlib import Path

import pytest

from surehand import tool


@tool(effects={"read"})
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture(params=["without a store", "on a file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """What a runtime is opened with: agents behave the same on both."""
    return str(tmp_path / "agent.db") if request.param == "on a file" else None
