"""`scripts/attack` says of every attack whether its promise held."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.attack.runner import Attack, NotRun, attack, collect_attacks, run_attacks


def test_an_attack_that_raises_broke_its_promise_and_the_others_still_run() -> None:
    def succeed(folder: Path) -> None:
        raise AssertionError("the secret was read")

    def fail(folder: Path) -> str:
        return f"{len(list(folder.iterdir()))} files"

    results = list(run_attacks([Attack("demo", "no secret is read", succeed), Attack("demo", "it is empty", fail)]))

    assert [(result.word, result.note) for result in results] == [
        ("BROKE", "AssertionError: the secret was read"),
        ("held", "0 files"),
    ]


def test_an_attack_that_outlives_its_limit_broke_its_promise() -> None:
    async def hang(folder: Path) -> None:
        await asyncio.Event().wait()

    [result] = run_attacks([Attack("demo", "it returns", hang, limit_seconds=0.01)])

    assert (result.word, result.note.partition(":")[0]) == ("BROKE", "TimeoutError")


def test_an_attack_that_this_machine_cannot_run_is_shown_as_not_run() -> None:
    def need_more(folder: Path) -> None:
        raise NotRun("bubblewrap is missing")

    [result] = run_attacks([Attack("demo", "it stays inside", need_more)])

    assert (result.word, result.note) == ("not run", "bubblewrap is missing")


def test_every_case_has_a_family_and_a_promise() -> None:
    assert all(each.family and each.promise for each in collect_attacks())
    assert callable(attack("demo", "a promise")(lambda folder: None))
