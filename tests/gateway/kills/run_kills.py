"""The experiment: calls, waits and event streams while the gateway is killed, and what is lost or doubled of them."""

import asyncio
import random
import signal
from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import httpx2

from tests.gateway.kills.clients import (
    CATCH_UP_SECONDS,
    RETRY_SECONDS,
    Acknowledged,
    Follower,
    answer_open_waits,
    keep_calling,
)
from tests.gateway.kills.gateway_process import GatewayProcess

CALLER_COUNT = 4
FOLLOWER_COUNT = 3
MAX_LIFE_SECONDS = 1.5
"""How long the gateway serves at most before it is killed."""


@dataclass(frozen=True)
class KillReport:
    """What was counted; everything that is not a number of the load has to be 0."""

    kills: int
    acknowledged_calls: int
    uncertain_calls: int
    events: int
    connections: int
    """Event streams that were opened, over all restarts."""
    lost_effects: int
    """Acknowledged calls whose effect is not there."""
    doubled_effects: int
    lost_ends: int
    """Acknowledged calls whose end some reader of events did not get."""
    differing_readers: int
    """Readers that got other events, or others twice, than one that reads all of them at the end."""
    missed_events: int
    doubled_ends: int
    """Calls whose end some reader of events got twice."""
    answered_after_kill: int
    """Calls that waited while the gateway was killed, and were answered later."""
    call_streams: int
    """Streams of one such call, read until they ended."""
    lost_call_ends: int
    """Of these, streams that did not end with exactly one end of the call."""


async def run_kills(folder: Path, kills: int, seed: int = 1) -> KillReport:
    """Kill the gateway so many times under load."""
    chance = random.Random(seed)
    gateway = GatewayProcess(folder)
    log = Acknowledged()
    stop = asyncio.Event()
    limits = httpx2.Limits(max_connections=None)
    async with gateway, httpx2.AsyncClient(base_url=gateway.url, timeout=20, limits=limits, trust_env=False) as client:
        followers = [Follower(client, "0") for _ in range(FOLLOWER_COUNT)]
        reading = [asyncio.create_task(each.follow()) for each in followers]
        numbers = count(1)
        calling = [asyncio.create_task(keep_calling(client, numbers, stop, log)) for _ in range(CALLER_COUNT)]
        call_followers: dict[str, Follower] = {}
        reading_calls: list[asyncio.Task[None]] = []
        answering: list[asyncio.Task[None]] = []
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0.2, MAX_LIFE_SECONDS))
            while not log.open_waits:  # noqa: ASYNC110 - each kill has to find a call that waits
                await asyncio.sleep(RETRY_SECONDS)
            for call_id in log.open_waits.values():
                call_followers[call_id] = Follower(client, path=f"/api/calls/{call_id}/events")
                reading_calls.append(asyncio.create_task(call_followers[call_id].follow_to_end()))
            await gateway.end(signal.SIGKILL)
            await gateway.start()
            answering.append(asyncio.create_task(answer_open_waits(client, log)))
        await asyncio.sleep(MAX_LIFE_SECONDS)
        stop.set()
        await asyncio.gather(*calling, *answering)
        await answer_open_waits(client, log)
        await _wait_for_ends(reading_calls)
        done_ids = {log.call_ids[effect] for effect in log.done}
        # A reader that comes last reads everything; the others are compared with it.
        complete = Follower(client, "0")
        reading.append(asyncio.create_task(complete.follow()))
        for each in (*followers, complete):
            await each.wait_for(done_ids)
        await _wait_until_equal(followers, complete)
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
        assert await gateway.end(signal.SIGTERM) == 0
    return _report(folder, kills, log, followers, complete, call_followers)


async def _wait_for_ends(reading: list[asyncio.Task[None]]) -> None:
    """Let the streams of single calls end; one that does not is counted as lost."""
    if not reading:
        return
    _, left = await asyncio.wait(reading, timeout=CATCH_UP_SECONDS)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)


async def _wait_until_equal(followers: list[Follower], complete: Follower) -> None:
    """The last events may be on their way to one reader and not to the other."""
    for _ in range(100):
        if all(each.last_id == complete.last_id for each in followers):
            return
        await asyncio.sleep(0.05)


def _report(
    folder: Path,
    kills: int,
    log: Acknowledged,
    followers: list[Follower],
    complete: Follower,
    call_followers: dict[str, Follower],
) -> KillReport:
    effects = Counter((folder / "effects.txt").read_text().splitlines())
    done_ids = {log.call_ids[effect] for effect in log.done}
    answered_ids = done_ids & call_followers.keys()
    ids = [event_id for event_id, _ in complete.events]
    return KillReport(
        kills=kills,
        acknowledged_calls=len(log.done),
        uncertain_calls=len(log.uncertain),
        events=len(ids),
        connections=sum(each.connections for each in followers),
        lost_effects=len(log.done - set(effects)),
        doubled_effects=sum(number > 1 for number in effects.values()),
        lost_ends=sum(len(done_ids - set(each.ended_calls)) for each in (*followers, complete)),
        differing_readers=sum([event_id for event_id, _ in each.events] != ids for each in followers),
        missed_events=sum(each.missed for each in (*followers, complete)),
        doubled_ends=sum(count > 1 for each in (*followers, complete) for count in each.ended_calls.values()),
        answered_after_kill=len(answered_ids),
        call_streams=sum(each.connections for each in call_followers.values()),
        # A call that ran when the next kill came is uncertain, and does not end as done.
        lost_call_ends=sum(call_followers[call_id].ended_calls != {call_id: 1} for call_id in answered_ids),
    )
