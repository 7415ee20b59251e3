"""`python -m tests.conformance`: run the official suite with our client and our servers, and judge what it says."""

from __future__ import annotations

import asyncio
import logging
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

from tests.conformance.client import play
from tests.conformance.explained import CLIENT, Reason
from tests.conformance.judgement import outdated, trouble, unexplained
from tests.conformance.page import PAGE, Report, page, sections
from tests.conformance.runs import everything, single, single_served
from tests.conformance.suite import Result
from tests.conformance.targets import TARGETS, Target, examined


def options() -> Namespace:
    parser = ArgumentParser(prog="scripts/conformance", description="Run the official MCP suite with what is ours.")
    parser.add_argument("--client", action="store_true", help="only our client")
    parser.add_argument("--server", action="store_true", help="only our servers")
    parser.add_argument("--target", choices=("own", "library", "proxy"), help="only this kind of server")
    parser.add_argument("--scenario", help="only this one, with everything that is said about it")
    parser.add_argument("--write", action="store_true", help=f"write docs/reference/{PAGE.name}, if nothing is wrong")
    given = parser.parse_args()
    if given.client and (given.server or given.target):
        parser.error("either the client or servers")
    if given.write and (given.client or given.server or given.target or given.scenario):
        parser.error("only all results together are written")
    return given


async def results(given: Namespace) -> Report:
    """By the name of what was run."""
    chosen = [name for name in TARGETS if not given.client and name.startswith(given.target or "")]
    found: dict[str, list[Result]] = {}
    if not given.server and not given.target:
        found["client"] = await (single(play, given.scenario) if given.scenario else everything(play))
    if not given.scenario:
        return found | await examined(chosen)
    return found | {name: await _single(TARGETS[name], given.scenario) for name in chosen}


async def _single(target: Target, scenario: str) -> list[Result]:
    return [result for part in target.parts for result in await single_served(target.serve, scenario, part)]


def show(report: Report) -> None:
    for title, rows in sections(report):
        print(f"\n{title}\n")
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.replace("**", "").ljust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())


def explain(name: str, result: Result) -> None:
    print(f"\n{name}: {result.scenario} ({result.version}) {result.said}".rstrip())
    for check in trouble(result):
        print(f"  {check.status.lower()}: {check.name}: {check.message}")


def judge(name: str, found: Sequence[Result], explained: Mapping[str, Reason]) -> bool:
    """Say what is wrong; whether anything is."""
    wrong, old = unexplained(found, explained), outdated(found, explained)
    for title, lines in (("Fails without a reason", wrong), ("Should no longer be explained", old)):
        for line in lines:
            print(f"\n{name}: {title}: {line}")
    return bool(wrong or old)


def main() -> int:
    given = options()
    # Peers that are not to be trusted are part of it, and there are many of them.
    logging.basicConfig(level=logging.INFO if given.scenario else logging.CRITICAL)
    report = asyncio.run(results(given))
    show(report)
    if given.scenario:
        for name, found in report.items():
            for result in found:
                explain(name, result)
        return 0
    explained = {"client": CLIENT, **{name: target.explained for name, target in TARGETS.items()}}
    wrong = [name for name, found in report.items() if judge(name, found, explained[name])]
    if given.write and not wrong:
        PAGE.write_text(page(report), encoding="utf-8")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
