"""`python -m tests.conformance`: run the official suite with our client, print what it says, and judge it."""

from __future__ import annotations

import asyncio
import logging
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from tests.conformance.client import play
from tests.conformance.explained import EXPLAINED
from tests.conformance.page import PAGE, page, table
from tests.conformance.runs import everything, single
from tests.conformance.suite import Result


def options() -> Namespace:
    parser = ArgumentParser(prog="scripts/conformance", description="Run the official MCP suite with our client.")
    parser.add_argument("--scenario", help="only this one, with everything that is said about it")
    parser.add_argument("--write", action="store_true", help=f"write the results to docs/reference/{PAGE.name}")
    return parser.parse_args()


def show(results: Sequence[Result]) -> None:
    rows = table(results)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.replace("**", "").ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def explain(result: Result) -> None:
    print(f"\n{result.scenario} ({result.version})")
    print(f"  our client: {result.said or 'said nothing'}")
    for check in result.checks:
        if check.status in ("FAILURE", "WARNING"):
            print(f"  {check.status.lower()}: {check.name}: {check.message}")


def judge(results: Sequence[Result], *, whole: bool) -> bool:
    """Say what is wrong; whether anything is that has no reason given."""
    failed = [result for result in results if not result.ok]
    unexplained = [result for result in failed if result.scenario not in EXPLAINED]
    for result in unexplained if whole else failed:
        explain(result)
    if whole and (passing := set(EXPLAINED) - {result.scenario for result in failed}):
        print(f"\nPasses now, and should no longer be explained: {', '.join(sorted(passing))}")
    return bool(unexplained)


def main() -> int:
    given = options()
    # Servers that are not to be trusted are part of it, and there are many of them.
    logging.basicConfig(level=logging.INFO if given.scenario else logging.ERROR)
    results = asyncio.run(single(play, given.scenario) if given.scenario else everything(play))
    show(results)
    wrong = judge(results, whole=not given.scenario)
    if given.write and not given.scenario:
        PAGE.write_text(page(results), encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
