"""A narrow shared queue, a tool that records its concurrency, and a store that becomes unavailable."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from surehand import Queue, Runtime, Tool, tool
from surehand.store.database import StoreUnavailable
from tests.durable.bank import read


class Gate:
    """A tool's inside: counts who is in, and lets them out when told."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside = self.most = 0
        self.order: list[int] = []

    @property
    def tool(self) -> Tool[..., Any]:
        @tool(queue="narrow", effects={"read"})
        async def work(number: int = 0) -> int:
            """Work."""
            self.order.append(number)
            self.inside += 1
            self.most = max(self.most, self.inside)
            try:
                await self.open.wait()
            finally:
                self.inside -= 1
            return number

        return work


def narrow(address: str, concurrent: int | None = 1, rate: str | None = None) -> dict[str, Any]:
    return {"store": address, "queues": {"narrow": Queue(concurrent, rate, shared=True)}}


async def slots(runtime: Runtime) -> int:
    return len(await read(runtime, "SELECT * FROM slots"))


async def free(runtime: Runtime) -> bool:
    return await slots(runtime) == 0


class Broken:
    """A store whose writes fail for a while."""

    def __init__(self, runtime: Runtime, *, after: bool = False) -> None:
        assert runtime.store is not None
        self._database: Any = runtime.store.database
        self._write = self._database.write
        self._after = after
        """Whether it fails only after it has written."""
        self._under_way = 0

    def __enter__(self) -> Self:
        async def write(statements: Any) -> Any:
            self._under_way += 1
            try:
                if self._after:
                    await self._write(statements)
                raise StoreUnavailable("the server is gone.")
            finally:
                self._under_way -= 1

        self._database.write = write
        return self

    async def over(self) -> bool:
        """Whether no write is left that began while it was broken, and has yet to fail."""
        return self._under_way == 0

    def __exit__(self, *_: object) -> None:
        self._database.write = self._write
