"""Finds processes and descriptors that commands left, on the whole machine."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
from time import monotonic

_left_by_others: set[int] = set()


def marker() -> str:
    """A word that no other process has in its arguments or environment."""
    _left_by_others.clear()
    _left_by_others.update(number for number in _numbers() if _is_our_zombie(number))
    return f"mark-{secrets.token_hex(8)}"


def processes_with(word: str) -> list[str]:
    """Every process of the machine, but this one, that carries a word; and every zombie among our own children."""
    numbers = _numbers() - _left_by_others - {os.getpid()}
    return [told for number in numbers if (told := _look(number, word.encode())) is not None]


def _numbers() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _look(number: int, word: bytes) -> str | None:
    """What a process is that carries the word, or that we should have waited for."""
    command = _told(number, "cmdline")
    if word in command or word in _told(number, "environ"):
        return f"{number} {command[:100].replace(bytes(1), b' ').decode(errors='replace')}"
    # Only the dead and the kernel's own have no command.
    return f"{number} is a zombie" if not command and _is_our_zombie(number) else None


def _is_our_zombie(number: int) -> bool:
    """After its name a process has its state, and whose child it is."""
    state = _told(number, "stat").rpartition(b")")[2].split()
    return state[:2] == [b"Z", str(os.getpid()).encode()]


def _told(number: int, name: str) -> bytes:
    try:
        with open(f"/proc/{number}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:  # it has ended meanwhile, or is somebody else's
        return b""


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


async def gone(word: str, seconds: float = 20.0) -> list[str]:
    """Wait until nothing carries a word any more; what still does after so long."""
    until = monotonic() + seconds
    while (left := processes_with(word)) and monotonic() < until:  # noqa: ASYNC110 - the kernel tells nobody
        await asyncio.sleep(0.02)
    return left


async def still_open(before: list[str], seconds: float = 20.0) -> list[str]:
    """Wait until nothing is open that was not; what still is after so long."""
    until = monotonic() + seconds
    while (left := [each for each in descriptors() if each not in before]) and monotonic() < until:  # noqa: ASYNC110 - likewise
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
