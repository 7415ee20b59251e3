"""Cancelling asyncio tasks and waiting for their end, for the parts of the gateway that own tasks."""

from __future__ import annotations

import asyncio
from typing import Any


async def cancel_and_wait(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks and wait until all have ended, even if the waiting task is itself cancelled meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    remaining = [task for task in tasks if task is not None and not task.done()]
    for task in remaining:
        task.cancel()
    while remaining := [task for task in remaining if not task.done()]:
        try:
            await asyncio.wait(remaining)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
