"""A gateway app is replaced by another one while calls and runs go on: they end in the app that they began in."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from surehand import Agent, Provider, Tool
from surehand.gateway.http_app import GatewayApp, app
from surehand.gateway.replaceable_app import ReplaceableApp
from surehand.testing import ScriptedModel
from tests.gateway.api.served_gateway import EventReader, Gate, ServedGateway, build_runtime, serve_app, until

SSE = {"accept": "text/event-stream"}


@asynccontextmanager
async def replaceable(first: GatewayApp) -> AsyncIterator[ServedGateway]:
    async with serve_app(ReplaceableApp(first)) as gateway:
        yield gateway


def build_app(folder: Path, gate: Gate, *replies: Any) -> GatewayApp:
    agent = Agent("waiter", model=ScriptedModel(*replies), tools=[gate.tool])
    return app(build_runtime(gate.tool, store=str(folder / "calls.db")), agents=[agent])


def start_call(gateway: ServedGateway) -> EventReader:
    return gateway.stream_call("wait")


def start_run(gateway: ServedGateway) -> EventReader:
    return EventReader(gateway.client, "/api/agents/waiter/run", SSE, method="POST", json={"prompt": "Go."})


@pytest.mark.parametrize("start", [start_call, start_run])
async def test_a_stream_of_a_call_or_run_goes_on_to_its_end(tmp_path: Path, start: Any) -> None:
    gate = Gate()
    async with (
        replaceable(build_app(tmp_path, gate, [("wait", {})], "It went.")) as gateway,
        start(gateway) as events,
        gateway.events() as following,
    ):
        await gate.started.wait()
        await gateway.api.replace(build_app(tmp_path, Gate()))
        followed = await following.rest()  # the streams that only follow end, and their clients read on
        gate.opened.set()
        seen = await events.rest()

    assert "CallEnded" not in [each["type"] for each in followed]
    last = seen[-1]
    assert last["type"] in ("CallEnded", "RunEnded")
    assert (last.get("text") or last["outcome"]["data"]) in ("It went.", "opened")


async def test_a_call_whose_client_has_left_goes_on_to_its_end(tmp_path: Path) -> None:
    gate = Gate()
    async with replaceable(build_app(tmp_path, gate)) as gateway:
        async with gateway.stream_call("wait"):
            await gate.started.wait()
        await gateway.api.replace(build_app(tmp_path, Gate()))
        async with gateway.events() as events:
            gate.opened.set()
            [ended] = [each for each in await events.until("CallEnded") if each["type"] == "CallEnded"]

    assert ended["outcome"]["data"] == "opened"


async def test_a_run_of_the_worker_finishes_its_step_and_goes_on_in_the_new_app(tmp_path: Path) -> None:
    gate, new_gate = Gate(), Gate()
    async with replaceable(build_app(tmp_path, gate, [("wait", {})])) as gateway:
        triggered = (await gateway.client.post("/api/agents/waiter/trigger", json={"data": "Go."})).json()
        await gate.started.wait()
        await gateway.api.replace(build_app(tmp_path, new_gate, "It went."))
        async with gateway.events(f"/api/runs/{triggered['run_id']}/events") as events:
            gate.opened.set()
            seen = await events.rest()

    assert (seen[-1]["status"], seen[-1]["text"]) == ("done", "It went.")
    assert [each["outcome"]["data"] for each in seen if each["type"] == "CallEnded"] == ["opened"]
    assert not new_gate.started.is_set()


async def test_the_old_app_ends_with_its_last_call(tmp_path: Path) -> None:
    gate = Gate()
    old = build_app(tmp_path, gate)
    async with replaceable(old) as gateway:
        request = asyncio.create_task(gateway.call("wait"))
        await gate.started.wait()
        await gateway.api.replace(build_app(tmp_path, Gate()))
        was_open = old.gateway.runtime.is_open
        gate.opened.set()
        answer = await request
        await until(lambda: not old.gateway.runtime.is_open)

    assert was_open
    assert answer.json()["data"] == "opened"


async def test_an_mcp_client_that_only_listens_does_not_keep_the_old_app(tmp_path: Path) -> None:
    old = build_app(tmp_path, Gate())
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    async with replaceable(old) as gateway:
        began = await gateway.client.post("/mcp", json=initialize, headers=headers)
        session = {**headers, "mcp-session-id": began.headers["mcp-session-id"]}
        async with gateway.client.stream("GET", "/mcp", headers=session) as listening:
            await gateway.api.replace(build_app(tmp_path, Gate()))
            lines = [line async for line in listening.aiter_lines()]
        await until(lambda: not old.gateway.runtime.is_open)

    assert listening.status_code == 200
    assert not [line for line in lines if line.startswith("data: {")]


class SlowProvider(Provider):
    """A provider that does not list its tools before the test ends."""

    namespace = "slow"

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def tools(self) -> Sequence[Tool[..., Any]]:
        self.asked.set()
        await asyncio.Event().wait()
        return ()


async def test_a_replacement_that_is_cancelled_leaves_the_current_app_and_no_task(tmp_path: Path) -> None:
    gate = Gate()
    slow = SlowProvider()
    async with replaceable(build_app(tmp_path, gate)) as gateway:
        replacing = asyncio.create_task(gateway.api.replace(app(build_runtime(slow))))
        await slow.asked.wait()
        replacing.cancel()
        await asyncio.wait({replacing})
        tasks = [each.get_name() for each in asyncio.all_tasks()]
        called = await gateway.call("add", {"a": 1, "b": 2})

    assert replacing.cancelled()
    assert tasks.count("gateway: app") == 1
    assert called.json()["data"] == 3


async def test_a_lifespan_is_served_to_servers_of_other_projects(tmp_path: Path) -> None:
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[str] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await ReplaceableApp(build_app(tmp_path, Gate()))({"type": "lifespan"}, receive, send)

    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
