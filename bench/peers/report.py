"""What every peer's script does: check the answer, measure, and print one line of JSON."""

from __future__ import annotations

import asyncio
import json
import platform
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any, TypeAlias

from bench.limit import add_limit
from bench.measure import ratio, repeated

Add: TypeAlias = Callable[[], Awaitable[Any]]
"""One call of `add` with 1 and 2 through a library's managed path; what it gives holds a 3."""

MORE = 20


def report(distribution: str, path: str, open_path: Callable[[], AbstractAsyncContextManager[Add]]) -> None:
    """Print the ratio of a path to the limit, measured in this process."""
    measured = asyncio.run(_measured(open_path))
    used = {"version": version(distribution), "python": platform.python_version(), "pydantic": version("pydantic")}
    print(json.dumps({"path": path, "ratio": measured, **used}))


async def _measured(open_path: Callable[[], AbstractAsyncContextManager[Add]]) -> float:
    async with open_path() as add:
        if "3" not in str(answer := await add()):
            raise AssertionError(f"1 + 2 came out as {answer!r}.")
        # Thirty calls of the limit would be over before the caches are warm: give it more, and divide.
        return await ratio(repeated(add, count=30), add_limit(count=30 * MORE), rounds=40) * MORE
