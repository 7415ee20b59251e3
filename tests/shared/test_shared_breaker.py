"""The state of a shared breaker is known to all runtimes on a store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Done, Provider, Runtime, ToolError, tool
from surehand.runtime.maintenance import store_maintenance
from tests.durable.bank_tools import assert_failed, execute, read_rows, wait_until
from tests.shared.limited_queue import FailingStore

pytestmark = pytest.mark.timeout(60)  # the first test on PostgreSQL starts the server


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_maintenance, "SEAL_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(store_maintenance, "MAINTENANCE_INTERVAL_SECONDS", 0.02)


class Server(Provider):
    """A provider that works or fails as it is told, and may take its time."""

    def __init__(self, namespace: str = "server") -> None:
        self.namespace, self.up, self.calls = namespace, True, 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def tools(self) -> Any:
        return [tool.external("ask", "Ask.", effects={"read"}).evolve(kind="rest", handler=None)]

    async def invoke(self, call: Any, context: Any) -> str:
        self.calls += 1
        await self.gate.wait()
        if not self.up:
            raise ToolError("no answer", code="unavailable")
        return "answer"


def on(address: str, pause: float = 60.0) -> dict[str, Any]:
    return {"store": address, "defaults": {"breaker_failures": 3, "breaker_pause": pause}}


async def rows(runtime: Runtime) -> list[dict[str, Any]]:
    return await read_rows(runtime, "SELECT provider, failures, probed_by FROM breakers")


def is_open(runtime: Runtime) -> bool:
    return runtime._runtime_parts.breakers.shared["server"].is_open


async def opened(server: Server, *runtimes: Runtime) -> None:
    """Let the first fail until all of them know."""
    server.up = False
    for _ in range(3):
        assert_failed(await runtimes[0].call("server__ask"), "unavailable")
    await wait_until(lambda: all(is_open(runtime) for runtime in runtimes))
    server.calls = 0


async def has_no_running_writes(*runtimes: Runtime) -> None:
    """Let the pause be over, for all of them."""
    await execute(runtimes[0], "UPDATE breakers SET open_until = {now} - 1")
    await wait_until(
        lambda: all(runtime._runtime_parts.breakers.shared["server"].is_probe_due() for runtime in runtimes)
    )


async def test_a_provider_that_is_down_for_one_runtime_is_down_for_all(address: str) -> None:
    server, same = Server(), Server()
    async with Runtime(server, **on(address)) as here, Runtime(same, **on(address)) as other:
        await other.call("server__ask")
        await opened(server, here, other)
        refused = assert_failed(await other.call("server__ask"), "unavailable")

    assert refused.message.startswith("server is down. It is tried again in ")
    assert refused.retry_after is not None
    assert 50 < refused.retry_after <= 60
    assert same.calls == 1


async def test_failures_in_a_row_are_counted_over_all_runtimes(address: str) -> None:
    server = Server()
    server.up = False
    async with Runtime(server, **on(address)) as here, Runtime(server, **on(address)) as other:
        for runtime in (here, other, here):
            await runtime.call("server__ask")
        await wait_until(lambda: is_open(here) and is_open(other))
        [row] = await rows(here)
        assert_failed(await other.call("server__ask"), "unavailable")

    assert row["failures"] == 3
    assert server.calls == 3


async def test_an_answer_in_one_runtime_starts_the_count_again_in_all(address: str) -> None:
    server = Server()
    async with Runtime(server, **on(address)) as here, Runtime(server, **on(address)) as other:
        server.up = False
        await here.call("server__ask")
        await here.call("server__ask")
        await wait_until(lambda: other._runtime_parts.breakers.shared["server"]._failure_count == 2)
        server.up = True
        assert await other.call("server__ask") == Done("answer")
        await wait_until(lambda: _forgotten(here))
        await wait_until(lambda: here._runtime_parts.breakers.shared["server"]._failure_count == 0)
        server.up = False
        await here.call("server__ask")

        assert not is_open(here)


async def _forgotten(runtime: Runtime) -> bool:
    return await rows(runtime) == []


async def test_one_call_tries_in_all_runtimes_and_its_answer_closes_the_breaker_for_all(address: str) -> None:
    server = Server()
    async with Runtime(server, **on(address)) as here, Runtime(server, **on(address)) as other:
        await opened(server, here, other)
        server.up = True
        server.gate.clear()
        await has_no_running_writes(here, other)
        calls = [asyncio.create_task(runtime.call("server__ask")) for _ in range(5) for runtime in (here, other)]
        await wait_until(lambda: server.calls and sum(call.done() for call in calls) == 9)
        tried = server.calls
        server.gate.set()
        outcomes = await asyncio.gather(*calls)
        await wait_until(lambda: not is_open(here) and not is_open(other))
        after = [await here.call("server__ask"), await other.call("server__ask")]

    assert tried == 1
    assert [outcome.ok for outcome in outcomes].count(True) == 1
    assert after == [Done("answer")] * 2


async def test_the_pause_ends_by_itself(address: str) -> None:
    server = Server()
    async with Runtime(server, **on(address, 0.2)) as here, Runtime(server, **on(address, 0.2)) as other:
        await opened(server, here, other)
        server.up = True
        await wait_until(lambda: _answers(other))
        await wait_until(lambda: not is_open(here))

    assert server.calls == 1


async def test_a_try_that_fails_keeps_the_provider_down_for_all(address: str) -> None:
    server = Server()
    async with Runtime(server, **on(address)) as here, Runtime(server, **on(address)) as other:
        await opened(server, here, other)
        await has_no_running_writes(here, other)
        assert_failed(await other.call("server__ask"), "unavailable")
        await wait_until(lambda: here._runtime_parts.breakers.shared["server"]._failure_count == 4)
        [row] = await rows(here)
        assert_failed(await here.call("server__ask"), "unavailable")

    assert (row["failures"], row["probed_by"]) == (4, None)
    assert server.calls == 1


async def test_a_try_that_is_cancelled_lets_another_runtime_try(address: str) -> None:
    server = Server()
    async with Runtime(server, **on(address)) as here, Runtime(server, **on(address)) as other:
        await opened(server, here, other)
        server.up = True
        server.gate.clear()
        await has_no_running_writes(here, other)
        trying = asyncio.create_task(here.call("server__ask"))
        await wait_until(lambda: server.calls)
        [row] = await rows(other)
        trying.cancel()
        await asyncio.wait([trying])
        server.gate.set()
        await wait_until(lambda: _answers(other))

    assert row["probed_by"] == here.runtime_id


async def _answers(runtime: Runtime) -> bool:
    return (await runtime.call("server__ask")).ok


@pytest.mark.parametrize("lease", [30, -1], ids=["seen as dead", "its lease has ended"])
async def test_the_probe_of_a_dead_process_is_released(address: str, lease: int) -> None:
    server = Server()
    async with Runtime(server, **on(address)) as runtime:
        await execute(
            runtime,
            """INSERT INTO breakers (provider, failures, open_until, probed_by, probe_until)
            VALUES ('server', 9, {now} - 1, 'deadbeef', {now} + :lease)""",
            lease=lease,
        )
        await wait_until(lambda: is_open(runtime))
        if lease > 0:
            started = "INSERT INTO owners (owner, lease_until, started_at) VALUES ('deadbeef', {now} + 30, {now})"
            assert_failed(await runtime.call("server__ask"), "unavailable")
            await execute(runtime, started)
        await wait_until(lambda: _answers(runtime))
        await wait_until(lambda: _forgotten(runtime))

    assert server.calls == 1


async def test_a_provider_that_is_well_costs_the_store_nothing_per_call(address: str) -> None:
    server = Server()
    async with Runtime(server, **on(address)) as runtime:
        assert runtime.store is not None
        breakers: Any = runtime.store.breakers
        asked: list[str] = []
        for name in ("failed", "recovered", "probe", "probe_lost"):
            setattr(breakers, name, lambda *_, name=name: asked.append(name))
        for _ in range(20):
            assert (await runtime.call("server__ask")).ok

    assert asked == []


async def test_a_provider_without_a_namespace_stays_local(address: str) -> None:
    server = Server("")
    server.up = False
    async with Runtime(server, **on(address)) as runtime:
        for _ in range(4):
            assert_failed(await runtime.call("ask"), "unavailable")

        assert server.calls == 3
        assert await rows(runtime) == []


async def test_while_the_store_is_unavailable_each_runtime_uses_its_own_breaker_state(address: str) -> None:
    server = Server()
    async with Runtime(server, **on(address)) as here, Runtime(server, **on(address)) as other:
        server.up = False
        with FailingStore(here):
            for _ in range(4):
                assert_failed(await here.call("server__ask"), "unavailable")
            assert is_open(here)
        await wait_until(lambda: is_open(other))

    assert server.calls == 3
