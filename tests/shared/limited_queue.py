"""A shared queue with few slots, a tool that occupies them, and a store that fails for a while."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from surehand import Queue, Runtime, Tool, tool
from surehand.store.database import StoreUnavailable
from tests.durable.bank_tools import read_rows


class Gate:
    """A tool that counts its concurrent calls and holds them until the gate opens."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside = self.peak = 0
        self.order: list[int] = []

    @property
    def tool(self) -> Tool[..., Any]:
        @tool(queue="narrow", effects={"read"})
        async def work(number: int = 0) -> int:
            """Work."""
            self.order.append(number)
            self.inside += 1
            self.peak = max(self.peak, self.inside)
            try:
                await self.open.wait()
            finally:
                self.inside -= 1
            return number

        return work


def limited_queue_options(address: str, concurrent: int | None = 1, rate: str | None = None) -> dict[str, Any]:
    return {"store": address, "queues": {"narrow": Queue(concurrent, rate, shared=True)}}


async def count_slots(runtime: Runtime) -> int:
    return len(await read_rows(runtime, "SELECT * FROM slots"))


async def is_queue_free(runtime: Runtime) -> bool:
    return await count_slots(runtime) == 0


class FailingStore:
    """Makes the writes of a store fail inside a `with` block."""

    def __init__(self, runtime: Runtime, *, after: bool = False) -> None:
        assert runtime.store is not None
        self._database: Any = runtime.store.database
        self._write = self._database.write
        self._after = after
        """Whether a write fails only after it was stored."""
        self._running_writes = 0

    def __enter__(self) -> Self:
        async def write(statements: Any) -> Any:
            self._running_writes += 1
            try:
                if self._after:
                    await self._write(statements)
                raise StoreUnavailable("the server is gone.")
            finally:
                self._running_writes -= 1

        self._database.write = write
        return self

    async def has_no_running_writes(self) -> bool:
        """Whether every write that started inside the block has failed."""
        return self._running_writes == 0

    def __exit__(self, *_: object) -> None:
        self._database.write = self._write
