"""Fifty people answer each of many calls at once, through two runtimes on one store. To run it for longer:

python -m tests.durable.concurrent_answers [--calls 10000] [ADDRESS OF A STORE]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from pathlib import Path
from time import perf_counter

from surehand import Done, Runtime
from surehand.store.database import Row
from tests.durable.bank_tools import assert_failed, make_ask_tool, pending_call_id, read_rows

ANSWERS_PER_CALL = 50
_COUNTS = """SELECT (SELECT count(*) FROM ledger WHERE state = 'ended') AS ended,
    (SELECT count(*) FROM inbox) AS inbox_items, (SELECT count(*) FROM audit WHERE kind = 'answer') AS answers,
    (SELECT count(*) FROM audit WHERE kind = 'outcome') AS outcomes,
    (SELECT count(*) FROM audit WHERE kind = 'refused') AS refused"""


async def answer_concurrently(address: str, calls: int, *, seed: int = 0) -> Row:
    """Answer every call concurrently; returns the row counts of the store afterwards."""
    generator = random.Random(seed)
    async with Runtime(make_ask_tool(), store=address) as one, Runtime(make_ask_tool(), store=address) as other:
        ids = [pending_call_id(each) for each in await asyncio.gather(*(one.call("ask") for _ in range(calls)))]
        for start in range(0, calls, 20):
            await asyncio.gather(*(_answer_call([one, other], each, generator) for each in ids[start : start + 20]))
        [counts] = await read_rows(one, _COUNTS)
    return counts


async def _answer_call(runtimes: list[Runtime], call_id: str, generator: random.Random) -> None:
    """Send fifty answers at once: exactly one value becomes the outcome, and every other value is a conflict."""
    people = list(range(ANSWERS_PER_CALL))
    generator.shuffle(people)
    answers = (runtimes[number % 2].settle(call_id, _answer_value(number), by=str(number)) for number in people)
    outcomes = await asyncio.gather(*answers)

    (winner,) = {outcome.data for outcome in outcomes if isinstance(outcome, Done)}
    for number, outcome in zip(people, outcomes, strict=True):
        if _answer_value(number) == winner:
            assert outcome == Done(winner)
        else:
            assert_failed(outcome, "conflict")


def _answer_value(person: int) -> str:
    """Half of the answers have the same value."""
    return "the same" if person % 2 else f"another {person}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.durable.concurrent_answers",
        description="Check that concurrent answers have one winner per call.",
    )
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("address", nargs="?", help="address of an empty store (default: a temporary file)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="surehand-answers-") as folder:
        started_at = perf_counter()
        counts = asyncio.run(answer_concurrently(options.address or str(Path(folder) / "store.db"), options.calls))
    for name, number in {**counts, "seconds": round(perf_counter() - started_at, 1)}.items():
        print(f"{name:12} {number:>12,}")


if __name__ == "__main__":
    main()
