"""Imports: what the first line of a program costs, and what installing brings along."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.measure import Timed, ratio
from bench.peers.environments import FOLDER
from bench.table import Row

_TIMED = """
from time import perf_counter
began = perf_counter()
{code}
print(perf_counter() - began)
"""
_OURS = """
from surehand import tool, Runtime
@tool
async def add(a: int, b: int) -> int:
    return a + b
"""


async def imports(*, rounds: int = 21) -> list[Row]:
    """Time and number."""
    measured = await ratio(_fresh(_OURS), _fresh("from pydantic import TypeAdapter"), rounds=rounds)
    beyond = distributions("surehand") - distributions("pydantic") - {"pydantic"}
    return [
        Row("import surehand and define a tool / from pydantic import TypeAdapter", measured, 1.3),
        Row("distributions that installing surehand brings beyond pydantic's", len(beyond), 4, unit=""),
    ]


def _fresh(code: str) -> Timed:
    """Seconds that code takes in a process of its own, without the start of the interpreter."""
    # An installed package has its bytecode on disk: so has everything here, whatever the surroundings say.
    surroundings = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    surroundings["PYTHONPYCACHEPREFIX"] = str(FOLDER / "bytecode")

    async def timed() -> float:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _TIMED.format(code=code), env=surroundings, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
        return float(printed)

    return timed


def distributions(name: str) -> frozenset[str]:
    """All that a distribution needs without its extras, directly or not."""
    found: set[str] = set()
    unread = [name]
    while unread:
        for needed in map(Requirement, requires(unread.pop()) or ()):
            named = canonicalize_name(needed.name)
            if named not in found and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
                found.add(named)
                unread.append(named)
    return frozenset(found - {canonicalize_name(name)})
