"""Tools that report the state of the process that serves them."""

import asyncio
import gc
import os
import sys
import time
from pathlib import Path

from surehand import tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def state() -> dict[str, int]:
    """The tasks, descriptors, children and memory of the process."""
    gc.collect()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "pid": os.getpid(),
        "tasks": len(asyncio.all_tasks()),
        "descriptors": len(os.listdir("/proc/self/fd")) - 1,
        "children": len(children),
        "memory": _memory(),
    }


def _memory() -> int:
    """Bytes that have been in use at most."""
    told = Path("/proc/self/status").read_text()
    return int(told.partition("VmHWM:")[2].split()[0]) * 1024


@tool
async def wait(seconds: float = 60) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


@tool
def block(seconds: float = 60) -> str:
    """Wait in a thread, deaf to all."""
    time.sleep(seconds)
    return "waited"


@tool
async def run() -> str:
    """Start a child that prints and reads, and print."""
    print("printed by a handler")
    sys.stdout.flush()
    child = await asyncio.create_subprocess_exec("sh", "-c", "echo printed by a child; cat; echo ended")
    await child.wait()
    return "ran"


@tool(effects={"write"})
async def delete(name: str) -> str:
    """Delete a file."""
    return f"{name} is gone"
