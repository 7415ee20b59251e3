"""Readers that follow a space while several processes post to it; a long run with `scripts/readers`."""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import aclosing
from dataclasses import dataclass
from time import perf_counter

from surehand import Store
from surehand.store.postgres import pool
from surehand.store.tables.streams import space_stream


class Reader:
    """Reads a while, leaves, and comes back to where it stopped."""

    def __init__(self, store: Store, seed: int) -> None:
        self._store, self._random = store, random.Random(seed)
        self.seen: list[int] = []
        self.contents: list[tuple[str, int]] = []
        self.visits = 0

    async def read(self, count: int) -> None:
        while len(self.seen) < count:
            await self._visit(min(count, len(self.seen) + self._random.randint(1, count // 3)))

    async def _visit(self, until: int) -> None:
        self.visits += 1
        last = self.seen[-1] if self.seen else 0
        async with aclosing(self._store.streams.follow(space_stream("team"), last)) as stream:
            async for event in stream:
                self.seen.append(event.number)
                self.contents.append((event.data["senderId"], event.data["content"]))
                if len(self.seen) >= until:
                    return


@dataclass(frozen=True)
class Read:
    """What came of it."""

    posted: int
    readers: list[Reader]
    seconds: float

    @property
    def problems(self) -> list[str]:
        """Readers who missed something, saw it twice or in another order than the others."""
        everything, first = list(range(1, self.posted + 1)), self.readers[0].contents
        wrong = [n for n, each in enumerate(self.readers) if each.seen != everything or each.contents != first]
        missing = [] if len(set(first)) == self.posted else [f"{self.posted - len(set(first))} messages are not there"]
        return [*(f"reader {number}" for number in wrong), *missing]


async def read_while_posted(address: str, *, readers: int, writers: int, messages: int) -> Read:
    """Let readers follow a space through two stores on one database, while each writer is a process of its own."""
    each, senders = messages // writers, [f"writer {number}" for number in range(writers)]
    async with Store.open(address) as store, Store.open(address) as other:
        await store.spaces.create("team")
        for sender in senders:
            await store.spaces.join("team", sender)
        processes = [await _started(address, sender, each) for sender in senders]
        found = [Reader((store, other)[number % 2], number) for number in range(readers)]
        began = perf_counter()
        try:
            for process in processes:
                process.stdin.write(b"go\n")  # type: ignore[union-attr]
            await asyncio.gather(*(reader.read(each * writers) for reader in found))
        finally:
            for process in processes:
                if process.returncode is None and not any(len(reader.seen) == each * writers for reader in found):
                    process.kill()
                await process.wait()
        return Read(each * writers, found, perf_counter() - began)


async def _started(address: str, sender: str, count: int) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "tests.store.readers", address, sender, str(count)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def post(address: str, sender: str, count: int) -> None:
    """The story of a writer."""
    pool.CONNECTION_TIMEOUT_SECONDS = 60.0
    async with Store.open(address) as store:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        for start in range(0, count, 50):
            numbers = range(start, min(start + 50, count))
            await asyncio.gather(*(store.spaces.post("team", number, sender=sender) for number in numbers))


if __name__ == "__main__":
    asyncio.run(post(sys.argv[1], sys.argv[2], int(sys.argv[3])))
