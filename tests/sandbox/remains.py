"""What is left of commands: looked for on the whole machine."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
from time import monotonic

import psutil


def marker() -> str:
    """A word that no other process has in its arguments or environment."""
    return f"mark-{secrets.token_hex(8)}"


def processes_with(word: str) -> list[str]:
    """Every process of the machine, but this one, that carries a word; and every zombie among our own children."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ", "status", "ppid"]):
        info = process.info
        carried = [*(info["cmdline"] or ()), *(info["environ"] or {}).values()]
        zombie = info["status"] == psutil.STATUS_ZOMBIE and info["ppid"] == os.getpid()
        if process.pid != os.getpid() and (zombie or any(word in text for text in carried)):
            found.append(f"{process.pid} {info['status']} {' '.join(info['cmdline'] or ())[:100]}")
    return found


def descriptors() -> list[str]:
    """What this process has open, without what is only waiting to be collected."""
    gc.collect()
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except FileNotFoundError:  # the folder that is being listed
            continue
    return sorted(found)


async def gone(word: str, seconds: float = 2.0) -> list[str]:
    """Wait until nothing carries a word any more; what still does after so long."""
    until = monotonic() + seconds
    while (left := processes_with(word)) and monotonic() < until:  # noqa: ASYNC110 - the kernel tells nobody
        await asyncio.sleep(0.02)
    return left


HOSTILE = """
: {word}
trap '' TERM INT HUP
setsid bash -c ': {word}; trap "" TERM; while :; do sleep 60; done' &
(setsid bash -c ': {word}; (trap "" TERM; sleep 60) & trap "" TERM; sleep 60' &)
nohup bash -c ': {word}; sleep 60' >/dev/null 2>&1 &
echo ready
exec 1>&- 2>&-
while :; do sleep 60; done
"""
"""Sessions of its own, processes that nobody waits for, no regard for signals, and no output that could end."""
