"""Process: one life of a program that uses a store, from its start to its end or to its death."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from surehand import Runtime
from tests.crash import broken
from tests.crash.caller import Caller
from tests.crash.load import load
from tests.crash.points import Points
from tests.crash.scenarios import SCENARIOS
from tests.crash.tools import tools
from tests.crash.world import World

LONGEST = 60.0
"""Seconds after which a process that hangs shows where, and ends."""
WORLD = World()
"""The tools are made and compiled once, before the processes part: each then puts its own folder here."""
TOOLS = tools(WORLD)


@dataclass(frozen=True)
class Life:
    """What a process is to do, and when it is to die: at a point, or after so many seconds."""

    part: str
    """make, begin, finish, look, survive or load."""
    scenario: str
    address: str
    folder: str
    point: int | str | None = None
    """By its number among all, or by its name and its number among those of that name."""
    after: float | None = None
    victims: tuple[int, ...] = ()
    """Whom to kill at the point, if not itself; zero is itself."""
    broken: str | None = None
    """What is deliberately wrong with it: the judge has to notice."""


def live(life: Life) -> None:
    """In a process of its own, which says on its error output what went wrong."""
    folder = Path(life.folder)
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(log, 2)
    os.close(log)
    faulthandler.dump_traceback_later(LONGEST, exit=True, file=2)
    WORLD.folder, WORLD.part = folder, life.part
    WORLD.points = Points(life.point, victims=tuple(life.victims), last_words=lambda name: WORLD.note("killed", name))
    WORLD.points.watch()
    if life.broken is not None:
        broken.WAYS[life.broken]()
    asyncio.run(_live(life))
    WORLD.note(f"points-{life.part}", WORLD.points.names)


def warm() -> None:
    """Import and compile what every life needs, without a thread that would be lost in a fork."""

    async def once() -> None:
        async with Runtime(*TOOLS, store=":memory:") as runtime:
            await runtime.call("ask", {}, call_id="warm")
            await runtime.settle("warm", "so")
            await runtime.call("wire", {"to": "nobody"}, call_id="asked")
            await runtime.reject("asked")

    asyncio.run(once())
    import_module("psycopg")
    assert threading.active_count() == 1


async def _live(life: Life) -> None:
    scenario = SCENARIOS[life.scenario]
    async with Runtime(*TOOLS, store=life.address, defaults=scenario.defaults) as runtime:
        caller = Caller(scenario, WORLD, runtime)
        parts: dict[str, Callable[[], Awaitable[Any]]] = {
            "make": _nothing,
            "begin": caller.begin,
            "finish": caller.finish,
            "look": lambda: _look(caller),
            "survive": lambda: _survive(caller),
            "load": lambda: load(caller),
        }
        await parts[life.part]()


async def _nothing() -> None:
    """The tables are made when the store is opened."""


async def _look(caller: Caller) -> None:
    """Only what was there before is there; and nobody has tampered with it."""
    await caller.ask_again()
    assert caller.runtime.store is not None
    await caller.runtime.store.audit.seal()
    verification = await caller.runtime.store.audit.verify()
    caller.world.note("audit", {"problem": verification.problem, "unsealed": verification.unsealed})


async def _survive(caller: Caller) -> None:
    """Work on the same calls while another process does, until that one is dead; then take over."""
    folder = caller.world.folder
    (folder / "ready").touch()
    while not (folder / "dead").exists():
        await caller.ask_again()
        for wait in await caller.door.pending():
            await caller.answer(wait)
        await asyncio.sleep(0.001)
    await caller.finish()
