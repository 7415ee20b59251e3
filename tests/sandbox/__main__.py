"""Runs a thousand hostile commands each way, and prints how quickly they ended and which processes were left."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from surehand.sandbox.sandbox import UNPROTECTED, Sandbox
from tests.sandbox.runaways import Ended, cancelled, timed_out


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/runaways", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="commands in each row")
    parser.add_argument("--parallel", type=int, default=8, help="commands at once")
    given = parser.parse_args()
    columns = f"{'count':>6} {'left':>5} {'open':>5} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}"
    print(f"{'commands':12} {'ended by':10} {columns}")
    bad = 0
    for name, sandbox in (("sandboxed", Sandbox()), ("unprotected", UNPROTECTED)):
        for way, run in (("timeout", timed_out), ("cancelling", cancelled)):
            with tempfile.TemporaryDirectory(prefix="surehand-runaways-") as folder:
                ended = asyncio.run(run(Path(folder), sandbox, count=given.count, parallel=given.parallel))
            bad += show(name, way, ended)
    return 1 if bad else 0


def show(name: str, way: str, ended: Ended) -> bool:
    """Whether anything was left, or not all ended as they should."""
    p50, p99, most = ended.at(0.5), ended.at(0.99), ended.at(1)
    counted = f"{len(ended.latencies):6} {len(ended.left):5} {ended.opened:5}"
    print(f"{name:12} {way:10} {counted} {p50:8.1f} {p99:8.1f} {most:8.1f}", flush=True)
    for left in ended.left[:10]:
        print("  ", left)
    return bool(ended.left or ended.opened or len(ended.answers) != 1)


if __name__ == "__main__":
    raise SystemExit(main())
