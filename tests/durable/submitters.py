"""Submitters: fifty answer each of many calls at once, in two runtimes on one store. At length:

python -m tests.durable.submitters [--calls 10000] [ADDRESS OF A STORE]
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
from tests.durable.bank import ask, failed, id_of, read

SUBMITTERS = 50
_COUNTS = """SELECT (SELECT count(*) FROM ledger WHERE state = 'ended') AS ended,
    (SELECT count(*) FROM inbox) AS told, (SELECT count(*) FROM audit WHERE kind = 'answer') AS answered,
    (SELECT count(*) FROM audit WHERE kind = 'outcome') AS outcomes,
    (SELECT count(*) FROM audit WHERE kind = 'refused') AS refused"""


async def submitted(address: str, calls: int, *, seed: int = 0) -> Row:
    """What the store holds when all calls have been answered by everybody."""
    order = random.Random(seed)
    async with Runtime(ask(), store=address) as one, Runtime(ask(), store=address) as other:
        ids = [id_of(each) for each in await asyncio.gather(*(one.call("ask") for _ in range(calls)))]
        for start in range(0, calls, 20):
            await asyncio.gather(*(_answered([one, other], each, order) for each in ids[start : start + 20]))
        [counts] = await read(one, _COUNTS)
    return counts


async def _answered(runtimes: list[Runtime], call_id: str, order: random.Random) -> None:
    """Fifty answers at once: exactly one value is the outcome, and everybody is told the truth."""
    submitters = list(range(SUBMITTERS))
    order.shuffle(submitters)
    answers = (runtimes[number % 2].settle(call_id, _value(number), by=str(number)) for number in submitters)
    outcomes = await asyncio.gather(*answers)

    (winner,) = {outcome.data for outcome in outcomes if isinstance(outcome, Done)}
    for number, outcome in zip(submitters, outcomes, strict=True):
        if _value(number) == winner:
            assert outcome == Done(winner)
        else:
            failed(outcome, "conflict")


def _value(submitter: int) -> str:
    """Half of them say the same."""
    return "the same" if submitter % 2 else f"another {submitter}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.durable.submitters", description="One winner per call?")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("address", nargs="?", help="of an empty store; left out, a file that is taken away again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="surehand-submitters-") as folder:
        began = perf_counter()
        counts = asyncio.run(submitted(given.address or str(Path(folder) / "store.db"), given.calls))
    for name, number in {**counts, "seconds": round(perf_counter() - began, 1)}.items():
        print(f"{name:10} {number:>12,}")


if __name__ == "__main__":
    main()
