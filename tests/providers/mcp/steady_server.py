"""The steady server as a test sees it: its folder, where the test sets what it does and reads what it did."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from surehand import mcp
from surehand.providers.mcp import Server

PEER = Path(__file__).parent / "peers" / "steady_server.py"
ERAS = ("modern", "legacy")


class SteadyServer:
    """A steady server (`peers/steady_server.py`) and its folder."""

    def __init__(self, folder: Path, era: str = "both") -> None:
        self.folder = folder
        self.era = era
        folder.mkdir(exist_ok=True)

    def provider(self, **options: Any) -> Server:
        """The server as a provider, named `steady`."""
        settings = {"namespace": "steady", "manifest": False, **options}
        return mcp.stdio(sys.executable, "-I", "-S", str(PEER), str(self.folder), self.era, **settings)

    def lines(self, name: str) -> list[str]:
        return read_whole_lines(self.folder / name)

    @property
    def starts(self) -> int:
        return len(self.lines("starts"))

    @property
    def effects(self) -> list[str]:
        return self.lines("effects")

    def set_flag(self, name: str, *, off: bool = False) -> None:
        """Set or clear a flag: `down` keeps the server from starting, `deaf` from answering."""
        (self.folder / name).unlink() if off else (self.folder / name).touch()

    def set_tools(self, *tools: dict[str, Any]) -> str:
        text = json.dumps(tools)
        replace_file(self.folder / "tools.json", text)
        return text


def read_whole_lines(file: Path) -> list[str]:
    """The complete lines of a file, without a line that a process is still writing."""
    return file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []


def replace_file(file: Path, text: str) -> None:
    """Replace a file atomically, because a server may be reading it."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    new.replace(file)


def tool_definition(name: str, description: str = "Do it.", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


async def wait_until(condition: Callable[[], bool], seconds: float = 25.0) -> None:
    """Wait until the condition is true, because of another process."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the other process sends no event
            await asyncio.sleep(0.005)
