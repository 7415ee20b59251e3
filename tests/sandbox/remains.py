"""Finds processes and descriptors that commands left, on the whole machine."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
from time import monotonic

_left_by_others: set[int] = set()


def marker() -> str:
    """A word that no other process has in its command line or environment."""
    _left_by_others.clear()
    _left_by_others.update(number for number in _pids() if _is_our_zombie(number))
    return f"mark-{secrets.token_hex(8)}"


def processes_with(word: str) -> list[str]:
    """Other processes with a word in their command line or environment, and zombies among our own children."""
    numbers = _pids() - _left_by_others - {os.getpid()}
    found = (_find_word(number, word.encode()) for number in numbers)
    return [process for process in found if process is not None]


def _pids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _find_word(number: int, word: bytes) -> str | None:
    """Describe a process that has the word or is our zombie; None for others."""
    command = _read_proc_file(number, "cmdline")
    if word in command or word in _read_proc_file(number, "environ"):
        return f"{number} {command[:100].replace(bytes(1), b' ').decode(errors='replace')}"
    # Only zombies and kernel threads have an empty command line.
    return f"{number} is a zombie" if not command and _is_our_zombie(number) else None


def _is_our_zombie(number: int) -> bool:
    """Whether a process is a zombie and our child: after its name, `stat` has the state and the parent."""
    state = _read_proc_file(number, "stat").rpartition(b")")[2].split()
    return state[:2] == [b"Z", str(os.getpid()).encode()]


def _read_proc_file(number: int, name: str) -> bytes:
    try:
        with open(f"/proc/{number}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:  # the process has ended, or belongs to another user
        return b""


def descriptors() -> list[str]:
    """The open descriptors of this process, after garbage collection."""
    gc.collect()
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return sorted(found)


async def gone(word: str, seconds: float = 20.0) -> list[str]:
    """Wait until no process has a word; return the processes that still have it after the timeout."""
    until = monotonic() + seconds
    while (left := processes_with(word)) and monotonic() < until:  # noqa: ASYNC110 - the kernel sends no event
        await asyncio.sleep(0.02)
    return left


async def wait_until_closed(before: list[str], seconds: float = 20.0) -> list[str]:
    """Wait until no new descriptor is open; return those that still are after the timeout."""
    until = monotonic() + seconds
    while (left := [entry for entry in descriptors() if entry not in before]) and monotonic() < until:  # noqa: ASYNC110 - no event either
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
"""A command with own sessions, orphans, ignored signals, and closed output streams."""
