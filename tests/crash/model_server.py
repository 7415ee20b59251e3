"""A scripted model in a process of its own: it survives the processes that ask it, and records every request.

`python -m tests.crash.model_server` prints its port and serves until its stdin is closed. A request is one line of JSON
with the folder of the run log and the messages; the answer is one line with a text and calls.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.crash.run_log_file import append_line, read_lines

MAX_REQUEST_BYTES = 1 << 20
ANSWERS: tuple[Any, ...] = (
    [("pay", {"to": "ann"}), ("wire", {"to": "bob"})],  # one ends at once, one waits: the model goes on
    [("wire", {"to": "bob"}), ("look_up", {"what": "tea"})],  # it repeats the call that waits
    [("stamp", {"to": "carl"})],  # a tool of the agent alone; all wait: the run waits
    [("pay", {"to": "dora"}), ("post", {"to": "eve"})],
    "All is done.",
)
DELEGATING_ANSWERS: tuple[Any, ...] = (
    [("agent__scout", {"prompt": "Scout rome"}), ("pay", {"to": "ann"})],  # the first waits for the run of the scout
    [("agent__scout", {"prompt": "Scout rome"}), ("look_up", {"what": "tea"})],  # it repeats the call that waits
    [("agent__scout", {"prompt": "Scout oslo"}), ("agent__scout", {"prompt": "Scout kiev"})],  # two runs at once
    "All is done.",
)


def _scout_answers(place: str) -> tuple[Any, ...]:
    return (
        [("pay", {"to": place}), ("wire", {"to": place})],
        [("wire", {"to": place}), ("post", {"to": place})],
        [("seal", {"to": place})],  # a tool of the scout alone
        f"Scouted {place}.",
    )


def _script(prompt: str) -> tuple[Any, ...]:
    """What the model answers, by the number of its answers so far; late results do not change it."""
    verb, _, rest = prompt.partition(" ")
    return {"Do": ANSWERS, "Delegate": DELEGATING_ANSWERS, "Scout": _scout_answers(rest)}[verb]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Record a request, and give the next answer of the conversation."""
    messages = request["messages"]
    step = sum(message["role"] == "assistant" for message in messages)
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    folder = Path(request["folder"])
    line = {"run_id": request["run_id"], "step": step, "kills": len(read_lines(folder / "kills"))}
    append_line(folder / "requests", line)
    script = _script(prompt)
    given = script[min(step, len(script) - 1)]
    return {"text": given, "calls": []} if isinstance(given, str) else {"text": "", "calls": given}


async def _serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    line = await reader.readline()
    if line.endswith(b"\n"):  # a process that was killed while it wrote has not asked
        writer.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
    writer.close()


async def serve() -> None:
    """Serve on a free port of the loopback address until stdin is closed."""
    server = await asyncio.start_server(_serve_client, "127.0.0.1", 0, limit=MAX_REQUEST_BYTES)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
