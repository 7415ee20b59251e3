"""Benchmark of importing surehand, and the number of distributions that it installs."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.measure import TimedRound, measure_ratio
from bench.peers.environments import FOLDER
from bench.table import Row

_TIMING_PROGRAM = """
from time import perf_counter
started_at = perf_counter()
{code}
print(perf_counter() - started_at)
"""
_IMPORT_SUREHAND = """
from surehand import tool, Runtime
@tool
async def add(a: int, b: int) -> int:
    return a + b
"""


async def measure_imports(*, rounds: int = 21) -> list[Row]:
    """Measure the import time and count the distributions."""
    measured = await measure_ratio(
        _time_in_new_process(_IMPORT_SUREHAND), _time_in_new_process("from pydantic import TypeAdapter"), rounds=rounds
    )
    additional = required_distributions("surehand") - required_distributions("pydantic") - {"pydantic"}
    return [
        Row("import surehand and define a tool / from pydantic import TypeAdapter", measured, 1.3),
        Row("distributions that installing surehand brings beyond pydantic's", len(additional), 4, unit=""),
    ]


def _time_in_new_process(code: str) -> TimedRound:
    """Time code in a new process, without the start of the interpreter."""
    # An installed package has its bytecode on disk: make sure of that here too, whatever the environment says.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(FOLDER / "bytecode")

    async def run_round() -> float:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _TIMING_PROGRAM.format(code=code), env=environment, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        return float(output)

    return run_round


def required_distributions(name: str) -> frozenset[str]:
    """The distributions that one requires without its extras, directly or indirectly."""
    found: set[str] = set()
    unread = [name]
    while unread:
        for requirement in map(Requirement, requires(unread.pop()) or ()):
            required = canonicalize_name(requirement.name)
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if applies and required not in found:
                found.add(required)
                unread.append(required)
    return frozenset(found - {canonicalize_name(name)})
