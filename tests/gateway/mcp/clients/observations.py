"""What a client observes of a server over each connection, printed as JSON: the main program of the client scripts.

python CLIENT.py '{"stdio, legacy": [["command", ...], "legacy"], "http, 2026-07-28": ["http://...", "2026-07-28"]}'
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

Target: TypeAlias = "list[str] | str"
"""The command or the URL of a server."""
Observations: TypeAlias = dict[str, Any]
Client: TypeAlias = Callable[[Any, str], Awaitable[Observations]]
"""Calls the tools of a target in a protocol version, and returns what it observed."""


async def observe(client: Client, connections: dict[str, tuple[Any, str]]) -> dict[str, Observations]:
    async with asyncio.TaskGroup() as group:
        tasks = {connection: group.create_task(client(*target)) for connection, target in connections.items()}
    return {connection: task.result() for connection, task in tasks.items()}


def print_observations(client: Client) -> None:
    print(json.dumps(asyncio.run(observe(client, json.loads(sys.argv[1])))))


def answer(message: str) -> str:
    """The answer of a person who is asked whether to delete a file."""
    return "accept" if "old.txt" in message else "decline"
