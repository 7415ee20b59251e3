"""A folder with a scripted server: what tests tell it to do, and a record of what it did."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from surehand import mcp
from surehand.providers.mcp import Server

PEER = Path(__file__).parent / "peers" / "steady.py"
ERAS = ("modern", "legacy")


class Steady:
    """The server's folder."""

    def __init__(self, folder: Path, era: str = "both") -> None:
        self.folder, self.era = folder, era
        folder.mkdir(exist_ok=True)

    def provider(self, **options: Any) -> Server:
        """The server as a provider, named `steady`."""
        given = {"namespace": "steady", "manifest": False, **options}
        return mcp.stdio(sys.executable, "-I", "-S", str(PEER), str(self.folder), self.era, **given)

    def lines(self, name: str) -> list[str]:
        return whole_lines(self.folder / name)

    @property
    def starts(self) -> int:
        return len(self.lines("starts"))

    @property
    def effects(self) -> list[str]:
        return self.lines("effects")

    def say(self, name: str, *, off: bool = False) -> None:
        """`down` or `deaf`."""
        (self.folder / name).unlink() if off else (self.folder / name).touch()

    def offer(self, *tools: dict[str, Any]) -> str:
        text = json.dumps(tools)
        replace(self.folder / "tools.json", text)
        return text


def whole_lines(file: Path) -> list[str]:
    """What a process has written down; not the line that it may be writing at this moment."""
    return file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []


def replace(file: Path, text: str) -> None:
    """Write a file at once: a server may be reading it."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    new.replace(file)


def described(name: str, description: str = "Do it.", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


async def until(true: Callable[[], bool], seconds: float = 25.0) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - nothing here is told when it does
            await asyncio.sleep(0.005)
