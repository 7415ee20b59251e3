"""Ways to a server: a client takes all of them at once, and what it saw on each is printed as JSON.

python CLIENT.py '{"stdio, legacy": [["command", ...], "legacy"], "http, 2026-07-28": ["http://...", "2026-07-28"]}'
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

Target: TypeAlias = "list[str] | str"
"""A command, or a URL."""
Seen: TypeAlias = dict[str, Any]
Client: TypeAlias = Callable[[Any, str], Awaitable[Seen]]
"""What a client sees of a target, when it speaks a protocol."""


async def seen(client: Client, ways: dict[str, tuple[Any, str]]) -> dict[str, Seen]:
    async with asyncio.TaskGroup() as group:
        taken = {way: group.create_task(client(*ends)) for way, ends in ways.items()}
    return {way: task.result() for way, task in taken.items()}


def tell(client: Client) -> None:
    print(json.dumps(asyncio.run(seen(client, json.loads(sys.argv[1])))))


def answer(message: str) -> str:
    """What the person says who is asked whether something may be deleted."""
    return "accept" if "old.txt" in message else "decline"
