"""`python -m tests.conformance`: runs the official MCP suite and prints unexpected failures."""

from __future__ import annotations

import asyncio
import logging
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

from tests.conformance.client import play_scenario
from tests.conformance.evaluation import failed_checks, find_outdated, find_unexplained
from tests.conformance.expected_failures import CLIENT, ExpectedFailure
from tests.conformance.results_page import PAGE, Report, make_sections, render_page
from tests.conformance.suite import Result
from tests.conformance.suite_runs import run_client_scenario, run_client_suite, run_server_scenario
from tests.conformance.targets import TARGETS, Target, run_targets


def parse_options() -> Namespace:
    parser = ArgumentParser(
        prog="scripts/conformance", description="Run the official MCP conformance suite with our client and servers."
    )
    parser.add_argument("--client", action="store_true", help="test only our client")
    parser.add_argument("--server", action="store_true", help="test only our servers")
    parser.add_argument("--target", choices=("own", "sdk", "proxy"), help="test only this kind of server")
    parser.add_argument("--scenario", help="run only this one, and print all failed checks")
    parser.add_argument(
        "--write", action="store_true", help=f"write docs/reference/{PAGE.name}, if nothing failed unexpectedly"
    )
    options = parser.parse_args()
    if options.client and (options.server or options.target):
        parser.error("--client cannot be combined with --server or --target")
    if options.write and (options.client or options.server or options.target or options.scenario):
        parser.error("--write needs all results: leave out --client, --server, --target and --scenario")
    return options


async def run_suite(options: Namespace) -> Report:
    """Run the selected parts; the results by the name of the tested part."""
    targets = [name for name in TARGETS if not options.client and name.startswith(options.target or "")]
    results: dict[str, list[Result]] = {}
    if not options.server and not options.target:
        if options.scenario:
            results["client"] = await run_client_scenario(play_scenario, options.scenario)
        else:
            results["client"] = await run_client_suite(play_scenario)
    if not options.scenario:
        return results | await run_targets(targets)
    return results | {name: await _run_scenario(TARGETS[name], options.scenario) for name in targets}


async def _run_scenario(target: Target, scenario: str) -> list[Result]:
    return [result for part in target.parts for result in await run_server_scenario(target.serve, scenario, part)]


def print_tables(report: Report) -> None:
    for title, rows in make_sections(report):
        print(f"\n{title}\n")
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.replace("**", "").ljust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())


def print_failed_checks(name: str, result: Result) -> None:
    print(f"\n{name}: {result.scenario} ({result.version}) {result.message}".rstrip())
    for check in failed_checks(result):
        print(f"  {check.status.lower()}: {check.name}: {check.message}")


def print_unexpected(name: str, results: Sequence[Result], expected: Mapping[str, ExpectedFailure]) -> bool:
    """Print unexplained failures and outdated explanations; returns whether there are any."""
    unexplained, outdated = find_unexplained(results, expected), find_outdated(results, expected)
    for title, lines in (("Fails without an explanation", unexplained), ("Passes despite its explanation", outdated)):
        for line in lines:
            print(f"\n{name}: {title}: {line}")
    return bool(unexplained or outdated)


def main() -> int:
    options = parse_options()
    # Many scenarios use untrusted peers on purpose, which would fill the log.
    logging.basicConfig(level=logging.INFO if options.scenario else logging.CRITICAL)
    report = asyncio.run(run_suite(options))
    print_tables(report)
    if options.scenario:
        for name, results in report.items():
            for result in results:
                print_failed_checks(name, result)
        return 0
    expected = {"client": CLIENT, **{name: target.expected_failures for name, target in TARGETS.items()}}
    unexpected = [name for name, results in report.items() if print_unexpected(name, results, expected[name])]
    if options.write and not unexpected:
        PAGE.write_text(render_page(report), encoding="utf-8")
    return int(bool(unexpected))


if __name__ == "__main__":
    sys.exit(main())
