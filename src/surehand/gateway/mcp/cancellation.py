"""Ended: tasks of ours that nobody needs any more, and that have let go."""

from __future__ import annotations

import asyncio
from typing import Any


async def cancel_and_wait(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, and wait until they have let go, however often that is cancelled itself."""
    again: asyncio.CancelledError | None = None
    left = [task for task in tasks if task is not None and not task.done()]
    for task in left:
        task.cancel()
    while left := [task for task in left if not task.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            again = error
    if again is not None:
        raise again
