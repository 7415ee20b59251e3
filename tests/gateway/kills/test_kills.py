"""A gateway that is killed under load loses and doubles nothing that it has acknowledged."""

import asyncio
import signal
from pathlib import Path

import httpx2
import pytest

from tests.gateway.kills.__main__ import is_clean
from tests.gateway.kills.gateway_process import GatewayProcess
from tests.gateway.kills.run_kills import run_kills


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.long)])
async def test_nothing_is_lost_or_doubled_when_the_gateway_is_killed(tmp_path: Path, kills: int) -> None:
    report = await run_kills(tmp_path, kills)

    assert is_clean(report), report
    assert report.acknowledged_calls > 0
    assert report.events > 0
    assert report.answered_after_kill > 0


@pytest.mark.timeout(120)
async def test_a_stopped_gateway_ends_its_streams_and_lets_running_calls_finish(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path)
    async with gateway, httpx2.AsyncClient(base_url=gateway.url, timeout=20, trust_env=False) as client:
        async with client.stream("GET", "/api/events") as events:
            lines = events.aiter_lines()
            await anext(lines)
            calls = [
                asyncio.create_task(client.post("/api/tools/work/call", json={"arguments": {"number": number}}))
                for number in range(20)
            ]
            started = 0
            while started < 20:
                started += (await anext(lines)) == "event: CallStarted"
            code = await gateway.end(signal.SIGTERM)
            rest = [line async for line in lines]  # the stream ends, and is not cut off
        answers = [(await each).json() for each in calls]

    assert code == 0
    assert [each["data"] for each in answers] == list(range(20))
    assert rest.count("event: CallEnded") <= 20
    assert len((tmp_path / "effects.txt").read_text().splitlines()) == 20
