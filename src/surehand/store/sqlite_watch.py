"""Watch: whether anybody has written to a SQLite file, in this process or in another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from surehand.store.database import StoreError

log = logging.getLogger("surehand")
POLL_SECONDS = 0.02
"""Seconds between two looks; each takes a few microseconds."""


class ChangePoller:
    """Looks from time to time while somebody wants to know."""

    def __init__(self, read_version: Callable[[], Awaitable[int]]) -> None:
        self._read_version = read_version
        self._callbacks: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    def add_callback(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after every write; gives what ends it."""
        self._callbacks.append(callback)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._poll(), name="surehand watch")

        def stop() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
            if not self._callbacks and self._task is not None:
                self._task.cancel()
                self._task = None

        return stop

    async def _poll(self) -> None:
        seen = -1
        while True:
            try:
                version = await self._read_version()
            except StoreError as error:
                log.warning("Nobody can tell whether the store has changed: %s", error)
                version = seen
            if version != seen:
                seen = version
                for callback in list(self._callbacks):
                    callback()
            await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """Stop looking."""
        self._callbacks.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
