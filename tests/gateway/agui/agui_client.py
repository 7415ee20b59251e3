"""The AG-UI client of other people, `@ag-ui/client`, in a process of Node."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tests import node_packages

PROGRAM = Path(__file__).parent / "client.mjs"
MAX_LINE_BYTES = 8 << 20
RUN_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class ClientRun:
    """What the client knows after a run: its verified events, and the thread as it has put it together."""

    events: list[dict[str, Any]]
    error: str | None
    result: Any
    messages: list[dict[str, Any]]
    state: Any
    interrupts: list[dict[str, Any]]

    @property
    def types(self) -> list[str]:
        """The types of the events, repeated ones once."""
        names = [each["type"] for each in self.events]
        return [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]

    def of_type(self, name: str) -> list[dict[str, Any]]:
        """The events of a type."""
        return [each for each in self.events if each["type"] == name]


class AguiClient:
    """One thread in the hands of the client."""

    def __init__(self, process: Process, url: str) -> None:
        self._process = process
        self._ids = count(1)
        self.url = url

    async def run(self, text: str | None = None, *, url: str | None = None, **command: Any) -> ClientRun:
        """Run the agent, with a new message of the user if there is a text; `parameters` are those of `runAgent`."""
        if text is not None:
            command["message"] = {"id": f"user-{next(self._ids)}", "role": "user", "content": text}
        return await self._send({"url": url or self.url, **command})

    async def resume(self, *answers: dict[str, Any], **command: Any) -> ClientRun:
        """Answer the open interrupts."""
        return await self.run(parameters={"resume": list(answers)}, **command)

    async def _send(self, command: dict[str, Any]) -> ClientRun:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{json.dumps(command)}\n".encode())
        async with asyncio.timeout(RUN_TIMEOUT_SECONDS):
            return ClientRun(**json.loads(await stdout.readline()))


def resolved(interrupt: dict[str, Any], payload: Any) -> dict[str, Any]:
    """An answer to an interrupt."""
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def cancelled(interrupt: dict[str, Any]) -> dict[str, Any]:
    """An interrupt that the person cancels."""
    return {"interruptId": interrupt["id"], "status": "cancelled"}


@asynccontextmanager
async def agui_client(url: str, thread: str = "thread-1") -> AsyncIterator[AguiClient]:
    """A client of an agent's AG-UI endpoint. It warns on stderr of everything that AG-UI 1.0 does not know."""
    command = (node_packages.node_path(), str(PROGRAM), str(node_packages.FOLDER), thread)
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=MAX_LINE_BYTES)
    try:
        yield AguiClient(process, url)
        _, warnings = await process.communicate(b"")  # an empty input closes stdin, and the program ends
        assert warnings.decode() == ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
