"""Running: a runtime for as long as it is served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surehand.runtime.runtime import Runtime


@asynccontextmanager
async def ensure_running(runtime: Runtime) -> AsyncIterator[Runtime]:
    """Start a runtime that does not run, and close it again; one that runs is left as it is."""
    if runtime.services.is_open:
        yield runtime
        return
    async with runtime:
        yield runtime
