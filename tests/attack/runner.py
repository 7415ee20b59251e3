"""The runner of `scripts/attack`: collects the attacks of `cases/`, runs each with a time limit, and prints what held.

A new attack is a function in a module of `cases/`, with the decorator `attack`. It gets an empty folder, and raises if
the attack succeeds; what it returns, if anything, is printed as a note (a number that was measured, for example).
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.temp_folders import TEMP_FOLDER_PARENT

DEFAULT_LIMIT_SECONDS = 120.0
AttackFunction: TypeAlias = Callable[[Path], Any]


class NotRun(Exception):
    """This machine lacks something that the attack needs; the message says what."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack, and what must hold."""

    family: str
    promise: str
    function: AttackFunction
    limit_seconds: float = DEFAULT_LIMIT_SECONDS


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What became of one attack."""

    attack: Attack
    word: str
    """`held`, `BROKE` or `not run`."""
    seconds: float
    note: str = ""


_ATTRIBUTE = "surehand_attack"


def attack(
    family: str, promise: str, *, limit_seconds: float = DEFAULT_LIMIT_SECONDS
) -> Callable[[AttackFunction], AttackFunction]:
    """Mark a function, sync or async, as an attack: the family it belongs to, and the sentence that must hold."""

    def mark(function: AttackFunction) -> AttackFunction:
        setattr(function, _ATTRIBUTE, Attack(family, promise, function, limit_seconds))
        return function

    return mark


def collect_attacks(package: str = "tests.attack.cases") -> list[Attack]:
    """Import all modules of a package, and return their attacks by family."""
    found: list[Attack] = []
    for module_info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        module = importlib.import_module(f"{package}.{module_info.name}")
        found += [getattr(value, _ATTRIBUTE) for value in vars(module).values() if hasattr(value, _ATTRIBUTE)]
    return sorted(found, key=lambda each: each.family)


def run_attacks(attacks: Sequence[Attack]) -> Iterator[AttackResult]:
    """Run one attack after the other, each in an empty folder of its own."""
    for each in attacks:
        with tempfile.TemporaryDirectory(prefix="surehand-attack-", dir=TEMP_FOLDER_PARENT) as folder:
            yield _run_attack(each, Path(folder))


def _run_attack(each: Attack, folder: Path) -> AttackResult:
    started_at = time.monotonic()
    try:
        note = _call(each, folder)
        word = "held"
    except NotRun as reason:
        note, word = str(reason), "not run"
    except Exception as error:  # noqa: BLE001 - whatever it raises, the attack succeeded, and the others still run
        note, word = f"{type(error).__name__}: {error}", "BROKE"
    return AttackResult(each, word, time.monotonic() - started_at, "" if note is None else str(note))


def _call(each: Attack, folder: Path) -> Any:
    if not inspect.iscoroutinefunction(each.function):
        return each.function(folder)

    async def run_with_limit() -> Any:
        async with asyncio.timeout(each.limit_seconds):
            return await each.function(folder)

    return asyncio.run(run_with_limit())
