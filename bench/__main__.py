"""`python -m bench`: run the benchmarks, print the table, and write it to RESULTS.md after a full run."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.agent_runs import measure_agents
from bench.calls import measure_calls
from bench.durable_calls import measure_durable_calls
from bench.file_tools import measure_files
from bench.gateway_calls import measure_gateway_calls
from bench.gateway_events import measure_event_streams
from bench.imports import measure_imports
from bench.mcp_calls import measure_mcp_calls
from bench.mcp_connections import measure_mcp_connections
from bench.mcp_proxy import measure_other_proxies, measure_own_proxy
from bench.openapi_import import measure_openapi_import
from bench.peers.environments import measure_peer_agents, measure_peer_imports, measure_peers
from bench.queued_calls import measure_queue
from bench.rest_calls import measure_rest_calls
from bench.sandbox import measure_sandbox
from bench.search_tools import measure_search
from bench.shared_slots import measure_shared_slots
from bench.spaces import measure_spaces
from bench.table import Row, describe_versions, format_table, write_results
from bench.tool_definitions import measure_definitions


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One group of measurements."""

    name: str
    measure: Callable[..., Awaitable[list[Row]]]
    quick: Mapping[str, int]
    """Arguments of `measure` for a quick run; without them, it measures with its own."""


BENCHMARKS = (
    Benchmark("calls", measure_calls, {"rounds": 60, "count": 200}),
    Benchmark("queue", measure_queue, {"rounds": 1, "count": 3000}),
    Benchmark("imports", measure_imports, {"rounds": 5}),
    Benchmark("durable calls", measure_durable_calls, {"rounds": 5, "count": 1280, "waiting": 10_000}),
    Benchmark("agents", measure_agents, {"rounds": 5, "count": 128}),
    Benchmark("spaces", measure_spaces, {"rounds": 3, "count": 320}),
    Benchmark("shared slots", measure_shared_slots, {"rounds": 3, "count": 50}),
    Benchmark("files", measure_files, {"rounds": 3, "megabytes": 50}),
    Benchmark("search", measure_search, {"rounds": 3, "count": 10_000}),
    Benchmark("sandbox", measure_sandbox, {"rounds": 3}),
    Benchmark("mcp calls", measure_mcp_calls, {"rounds": 21, "http_rounds": 7}),
    Benchmark("rest calls", measure_rest_calls, {"rounds": 15}),
    Benchmark("openapi import", measure_openapi_import, {"rounds": 3}),
    Benchmark("gateway calls", measure_gateway_calls, {"rounds": 11, "count": 400}),
    Benchmark("gateway events", measure_event_streams, {"rounds": 7}),
    Benchmark("mcp connections", measure_mcp_connections, {"rounds": 3}),
    Benchmark("mcp proxy", measure_own_proxy, {"rounds": 5}),
    # Definitions come last: ten thousand tools would slow garbage collection in the others.
    Benchmark("definitions", measure_definitions, {"rounds": 1, "count": 1000}),
)


async def measure_all(benchmarks: Sequence[Benchmark], *, quick: bool) -> list[Row]:
    """Run benchmarks one after the other."""
    rows: list[Row] = []
    for benchmark in benchmarks:
        rows += await benchmark.measure(**benchmark.quick if quick else {})
    return rows


def parse_options() -> Namespace:
    parser = ArgumentParser(prog="scripts/bench", description="Print how close surehand is to the practical limit.")
    parser.add_argument("--quick", action="store_true", help="run fewer rounds and do not write RESULTS.md")
    parser.add_argument("--peers", action="store_true", help="also install and measure other libraries")
    names = ", ".join(benchmark.name for benchmark in BENCHMARKS)
    parser.add_argument(
        "--only",
        default="",
        metavar="WORDS",
        help=f"run only the benchmarks whose name has these words, and do not write RESULTS.md; names: {names}",
    )
    options = parser.parse_args()
    if not select_benchmarks(options.only):
        parser.error(f"no benchmark has {options.only!r} in its name; names: {names}")
    return options


def select_benchmarks(words: str) -> list[Benchmark]:
    """The benchmarks whose name has the words; all of them for an empty text."""
    return [benchmark for benchmark in BENCHMARKS if words in benchmark.name]


def main() -> None:
    options = parse_options()
    rows = asyncio.run(measure_all(select_benchmarks(options.only), quick=options.quick))
    print(f"{describe_versions()}\n\n{format_table(rows)}")
    peer_rows: list[Row] = []
    if options.peers:
        peer_rows = [*measure_peers(), *measure_peer_agents(), *measure_peer_imports()]
        peer_rows += asyncio.run(measure_other_proxies())
        print(format_table(peer_rows))
    if not options.quick and not options.only:
        write_results(rows, peer_rows)


if __name__ == "__main__":
    main()
