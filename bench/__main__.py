"""`python -m bench`: run every benchmark, print the table, and write it to RESULTS.md unless --quick is given."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace

from bench.agent_runs import measure_agents
from bench.calls import measure_calls
from bench.durable_calls import measure_durable_calls
from bench.file_tools import measure_files
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


async def measure_everything(*, quick: bool) -> list[Row]:
    """Run every benchmark. Definitions come last: ten thousand tools would slow garbage collection in the others."""
    if quick:
        return [
            *await measure_calls(rounds=60, count=200),
            *await measure_queue(rounds=1, count=3000),
            *await measure_imports(rounds=5),
            *await measure_durable_calls(rounds=5, count=1280, waiting=10_000),
            *await measure_agents(rounds=5, count=128),
            *await measure_spaces(rounds=3, count=320),
            *await measure_shared_slots(rounds=3, count=50),
            *await measure_files(rounds=3, megabytes=50),
            *await measure_search(rounds=3, count=10_000),
            *await measure_sandbox(rounds=3),
            *await measure_mcp_calls(rounds=21, http_rounds=7),
            *await measure_rest_calls(rounds=15),
            *await measure_openapi_import(rounds=3),
            *await measure_mcp_connections(rounds=3),
            *await measure_own_proxy(rounds=5),
            *await measure_definitions(rounds=1, count=1000),
        ]
    return [
        *await measure_calls(),
        *await measure_queue(),
        *await measure_imports(),
        *await measure_durable_calls(),
        *await measure_agents(),
        *await measure_spaces(),
        *await measure_shared_slots(),
        *await measure_files(),
        *await measure_search(),
        *await measure_sandbox(),
        *await measure_mcp_calls(),
        *await measure_rest_calls(),
        *await measure_openapi_import(),
        *await measure_mcp_connections(),
        *await measure_own_proxy(),
        *await measure_definitions(),
    ]


def parse_options() -> Namespace:
    parser = ArgumentParser(prog="scripts/bench", description="Print how close surehand is to the practical limit.")
    parser.add_argument("--quick", action="store_true", help="run fewer rounds and do not write RESULTS.md")
    parser.add_argument("--peers", action="store_true", help="also install and measure other libraries")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    rows = asyncio.run(measure_everything(quick=options.quick))
    print(f"{describe_versions()}\n\n{format_table(rows)}")
    peer_rows: list[Row] = []
    if options.peers:
        peer_rows = [*measure_peers(), *measure_peer_agents(), *measure_peer_imports()]
        peer_rows += asyncio.run(measure_other_proxies())
        print(format_table(peer_rows))
    if not options.quick:
        write_results(rows, peer_rows)


if __name__ == "__main__":
    main()
