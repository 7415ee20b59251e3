"""`python -m bench`: measure, print the table, and keep it in RESULTS.md."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace

from bench.calls import calls
from bench.define import define
from bench.durable import durable
from bench.files import files
from bench.imports import imports
from bench.mcp_calls import mcp_calls
from bench.mcp_life import mcp_life
from bench.mcp_proxy import mcp_proxy, others
from bench.peers.environments import peers
from bench.queue import queue
from bench.sandbox import sandbox
from bench.search import search
from bench.shared import shared
from bench.spaces import spaces
from bench.table import Row, table, versions, write


async def measured(*, quick: bool) -> list[Row]:
    """Every subject. Definitions come last: a heap of ten thousand tools would slow the others' garbage collection."""
    if quick:
        rows = [*await calls(rounds=60, count=200), *await queue(rounds=1, count=3000), *await imports(rounds=5)]
        rows += await durable(rounds=5, count=1280, waiting=10_000)
        rows += [*await spaces(rounds=3, count=320), *await shared(rounds=3, count=50)]
        rows += [*await files(rounds=3, megabytes=50), *await search(rounds=3, count=10_000), *await sandbox(rounds=3)]
        rows += await mcp_calls(rounds=21, web_rounds=7)
        rows += [*await mcp_life(rounds=3), *await mcp_proxy(rounds=5)]
        return [*rows, *await define(rounds=1, count=1000)]
    rows = [*await calls(), *await queue(), *await imports(), *await durable(), *await spaces(), *await shared()]
    rows += [
        *await files(),
        *await search(),
        *await sandbox(),
        *await mcp_calls(),
        *await mcp_life(),
        *await mcp_proxy(),
    ]
    return [*rows, *await define()]


def options() -> Namespace:
    parser = ArgumentParser(prog="scripts/bench", description="Print how close we are to the practical limit.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and RESULTS.md stays as it is")
    parser.add_argument("--peers", action="store_true", help="install other libraries and measure their own paths too")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    rows = asyncio.run(measured(quick=chosen.quick))
    print(f"{versions()}\n\n{table(rows)}")
    theirs = [*peers(), *asyncio.run(others())] if chosen.peers else []
    if theirs:
        print(table(theirs))
    if not chosen.quick:
        write(rows, theirs)


if __name__ == "__main__":
    main()
