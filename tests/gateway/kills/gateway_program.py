"""`python gateway_program.py FOLDER PORT`: a gateway whose tools note each of their effects in a file of the folder."""

import asyncio
import os
import sys
from pathlib import Path

from surehand import Runtime, tool
from surehand.gateway.http_app import app
from surehand.gateway.mcp.http.server import bind_sockets, listen

FOLDER = Path(sys.argv[1])
EFFECTS = FOLDER / "effects.txt"


def note(effect: str) -> None:
    # One write of one line: it is there completely or not at all.
    file = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{effect}\n".encode())
    os.close(file)


@tool(effects={"write"})
async def work(number: int) -> int:
    """Work for a moment."""
    note(f"work {number}")
    await asyncio.sleep(0.01)
    return number


@tool(effects={"write"}, confirm=True)
async def pay(number: int) -> int:
    """Pay."""
    note(f"pay {number}")
    return number


async def main() -> None:
    api = app(Runtime(work, pay, store=FOLDER / "calls.db"))
    sockets = bind_sockets("127.0.0.1", int(sys.argv[2]))
    await listen(api, sockets, ready=lambda: print("ready", flush=True), on_stop=api.begin_shutdown)


asyncio.run(main())
