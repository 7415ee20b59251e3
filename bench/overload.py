"""What the gateway does under ten times the load that it can serve: `scripts/overload` prints a table.

A server of its own process makes durable calls on a SQLite store. First its capacity is measured: requests per second
with a fixed number in flight. Then requests arrive at a fixed rate, ten times that, whether or not earlier ones were
answered (an open loop). In the end the store is read: every call that was acknowledged has to be in it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import sys
import tempfile
from argparse import ArgumentParser
from collections import Counter, deque
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from bench.gateway_calls import start_server
from bench.http_load import LoadConnection, open_connections, post_request
from surehand.cli.lifecycle import fastest_loop_factory

KEY_DIGITS = 12
_KEY = b"k" + b"0" * KEY_DIGITS
CAPACITY_CONNECTIONS = 64
CONNECTIONS = 2_000
FACTOR = 10
TICK_SECONDS = 0.001
DRAIN_SECONDS = 30.0
REFUSAL_GOAL_MS = 50.0
GOODPUT_GOAL = 0.8
SENT_GOAL = 0.95
"""Of the requests that were due. With fewer, this was not the load that it is said to be."""
BODY = b'{"arguments":{"amount":1}}'


@dataclass
class Results:
    """What came of the requests of one phase."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    seconds_by_status: dict[int, list[float]] = field(default_factory=dict)
    """From the moment when each was due to its response."""
    acknowledged: set[str] = field(default_factory=set)
    without_retry_after: int = 0
    lateness_seconds: list[float] = field(default_factory=list)
    """How late the load itself was: it shares the machine with the server."""
    unsent: int = 0
    """Requests that were due while all connections were busy."""

    def add(self, key: str, seconds: float, connection: LoadConnection, status: int) -> None:
        """Count a response."""
        self.statuses[status] += 1
        self.seconds_by_status.setdefault(status, []).append(seconds)
        if status == 200:
            self.acknowledged.add(key)
        elif b"retry-after" not in connection.headers:
            self.without_retry_after += 1

    def milliseconds(self, status: int, fraction: float) -> float:
        """A percentile of the latency of one status."""
        return _percentile(self.seconds_by_status.get(status, []), fraction) * 1000


def _percentile(values: list[float], fraction: float) -> float:
    ordered = sorted(values) or [0.0]
    return ordered[min(int(fraction * len(ordered)), len(ordered) - 1)]


class Requests:
    """Requests with keys of their own, made from one text."""

    def __init__(self, url: str) -> None:
        template = post_request(url, "/api/tools/pay/call", BODY, f"Idempotency-Key: {_KEY.decode()}\r\n")
        self._before, self._after = template.split(_KEY)
        self._number = 0

    def next(self) -> tuple[str, bytes]:
        """A new key, and the request with it."""
        self._number += 1
        key = f"k{self._number:0{KEY_DIGITS}}"
        return key, self._before + key.encode() + self._after


async def measure_capacity(connections: list[LoadConnection], requests: Requests, seconds: float) -> Results:
    """Keep a fixed number of requests in flight."""
    results = Results()
    started_at = perf_counter()
    end_at = started_at + seconds

    async def send_again(connection: LoadConnection) -> None:
        while (sent_at := perf_counter()) < end_at:
            key, request = requests.next()
            status = await connection.send(request)
            results.add(key, perf_counter() - sent_at, connection, status)

    async with asyncio.TaskGroup() as group:
        for each in connections:
            group.create_task(send_again(each))
    results.seconds = perf_counter() - started_at
    return results


async def offer(connections: list[LoadConnection], requests: Requests, rate: float, seconds: float) -> Results:
    """Send requests at a fixed rate, each on a connection that is idle then."""
    results = Results()
    idle = deque(connections)
    in_flight = 0
    started_at = perf_counter()

    def send(due_at: float) -> None:
        nonlocal in_flight
        while idle and idle[-1].is_closed:  # the server closes connections that are idle for long
            idle.pop()
        if not idle:
            results.unsent += 1
            return
        connection = idle.pop()
        key, request = requests.next()
        in_flight += 1
        results.lateness_seconds.append(perf_counter() - due_at)

        def on_response(response: asyncio.Future[int]) -> None:
            nonlocal in_flight
            in_flight -= 1
            if response.exception() is None:
                results.add(key, perf_counter() - due_at, connection, response.result())
                idle.append(connection)
            else:
                results.statuses[0] += 1

        connection.send(request).add_done_callback(on_response)

    due = 0
    total = int(rate * seconds)
    while due < total:
        now = perf_counter() - started_at
        while due < total and due / rate <= now:
            send(started_at + due / rate)
            due += 1
        await asyncio.sleep(TICK_SECONDS)
    results.seconds = perf_counter() - started_at
    give_up_at = perf_counter() + DRAIN_SECONDS
    while in_flight and perf_counter() < give_up_at:  # noqa: ASYNC110 - the load is a loop of ticks
        await asyncio.sleep(TICK_SECONDS)
    return results


def count_lost(store: Path, acknowledged: set[str]) -> int:
    """How many acknowledged calls are not in the store with their outcome."""
    with closing(sqlite3.connect(store)) as database:
        rows = database.execute("SELECT call_id FROM ledger WHERE state = 'ended' AND outcome IS NOT NULL")
        ended = {call_id for (call_id,) in rows}
    return len(acknowledged - ended)


async def run(seconds: float, factor: float = FACTOR, connections: int = CONNECTIONS) -> dict[str, float]:
    """Measure capacity and overload; the results by what they say."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = folder / "calls.db"
        url = await stack.enter_async_context(start_server("durable", str(store)))
        requests = Requests(url)
        few = await stack.enter_async_context(open_connections(url, CAPACITY_CONNECTIONS))
        await measure_capacity(few, requests, min(seconds, 1.0))  # to warm up
        alone = await measure_capacity(few, requests, seconds)
        capacity = alone.statuses[200] / alone.seconds
        many = await stack.enter_async_context(open_connections(url, connections))
        gc.freeze()
        overload = await offer(many, requests, factor * capacity, seconds)
        lost = await asyncio.to_thread(count_lost, store, alone.acknowledged | overload.acknowledged)
    sent = sum(overload.statuses.values())
    return {
        "capacity, calls/s": capacity,
        "offered, calls/s": factor * capacity,
        "sent, calls/s": sent / overload.seconds,
        "goodput, calls/s": overload.statuses[200] / overload.seconds,
        "goodput / capacity": overload.statuses[200] / overload.seconds / capacity,
        "refused with 429": overload.statuses[429],
        "other answers": sent - overload.statuses[200] - overload.statuses[429],
        "due, but no connection was idle": overload.unsent,
        "refusals without Retry-After": overload.without_retry_after,
        "refusal p50, ms": overload.milliseconds(429, 0.5),
        "refusal p99, ms": overload.milliseconds(429, 0.99),
        "of it, the load was late p50, ms": _percentile(overload.lateness_seconds, 0.5) * 1000,
        "of it, the load was late p99, ms": _percentile(overload.lateness_seconds, 0.99) * 1000,
        "call p50, ms": overload.milliseconds(200, 0.5),
        "call p99, ms": overload.milliseconds(200, 0.99),
        "acknowledged and lost": lost,
    }


def main() -> None:
    parser = ArgumentParser(prog="scripts/overload", description="Print what the gateway does under too much load.")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each phase takes")
    parser.add_argument("--factor", type=float, default=FACTOR, help="the offered load, in capacities")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=fastest_loop_factory()) as runner:
        results = runner.run(run(options.seconds, options.factor))
    for what, value in results.items():
        print(f"{what:<34}{value:>12,.2f}")
    print(f"\nThe load and the server shared {os.cpu_count()} cores, with a load average of {os.getloadavg()[0]:.1f}.")
    is_met = (
        results["sent, calls/s"] >= SENT_GOAL * results["offered, calls/s"]
        and results["goodput / capacity"] >= GOODPUT_GOAL
        and results["refusal p99, ms"] <= REFUSAL_GOAL_MS
        and not results["acknowledged and lost"]
        and not results["refusals without Retry-After"]
        and not results["other answers"]
    )
    goals = f">= {SENT_GOAL:g} sent, goodput >= {GOODPUT_GOAL:g}, refusals within {REFUSAL_GOAL_MS:g} ms, nothing lost"
    print(f"Goals: {goals}: {'met' if is_met else 'NOT MET'}")
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
