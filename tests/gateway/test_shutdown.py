"""The gateway stops: calls and runs end, or are cancelled when their time is over, and their clients are told."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from surehand import Agent, Runtime, tool
from surehand.gateway.access.request_limits import GatewayLimits
from surehand.gateway.http_app import app
from surehand.gateway.mcp.http.connection_table import ConnectionLimits
from surehand.testing import ScriptedModel
from tests.gateway.api.served_gateway import EventReader, Gate, build_runtime, serve
from tests.gateway.api.test_agui import run_input

AT_ONCE: dict[str, Any] = {
    "limits": GatewayLimits(shutdown_seconds=0.0),
    "connections": ConnectionLimits(stop_timeout=0.0),
}
SSE = {"accept": "text/event-stream"}


class Writer:
    """A tool that writes for as long as it may."""

    def __init__(self) -> None:
        self.started = asyncio.Event()

        @tool(effects={"write"}, timeout="off")
        async def write() -> str:
            """Write."""
            self.started.set()
            await asyncio.Event().wait()
            return "written"

        self.tool = write


def waiter(gate: Gate) -> Agent:
    return Agent("waiter", model=ScriptedModel([("wait", {})], "It went."), tools=[gate.tool])


def start_run(gateway: Any) -> EventReader:
    return EventReader(gateway.client, "/api/agents/waiter/run", SSE, method="POST", json={"prompt": "Go."})


async def test_a_call_made_as_a_stream_goes_on_to_its_end() -> None:
    gate = Gate()
    async with serve(build_runtime(gate.tool)) as gateway, gateway.stream_call("wait") as events:
        await gate.started.wait()
        gateway.api.begin_shutdown()
        gate.opened.set()
        seen = await events.rest()

    assert [each["type"] for each in seen] == ["CallStarted", "CallEnded"]
    assert seen[-1]["outcome"]["data"] == "opened"


async def test_a_run_made_as_a_stream_goes_on_to_its_end() -> None:
    gate = Gate()
    async with serve(build_runtime(), agents=[waiter(gate)]) as gateway, start_run(gateway) as events:
        await gate.started.wait()
        gateway.api.begin_shutdown()
        gate.opened.set()
        seen = await events.rest()

    assert (seen[-1]["type"], seen[-1]["status"], seen[-1]["text"]) == ("RunEnded", "done", "It went.")


async def test_a_run_of_an_agui_client_goes_on_to_its_end() -> None:
    gate = Gate()
    async with serve(build_runtime(), agents=[waiter(gate)]) as gateway:
        request = {"method": "POST", "json": run_input()}
        async with EventReader(gateway.client, "/api/agents/waiter/agui", SSE, **request) as events:
            await gate.started.wait()
            gateway.api.begin_shutdown()
            gate.opened.set()
            seen = await events.rest()

    assert (seen[-1]["type"], seen[-1]["result"]) == ("RUN_FINISHED", "It went.")


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_call_that_takes_too_long_is_cancelled_and_its_client_is_told(tmp_path: Path, is_stored: bool) -> None:
    writer = Writer()
    path = str(tmp_path / "calls.db")
    runtime = build_runtime(writer.tool, store=path if is_stored else None)
    async with serve(runtime, **AT_ONCE) as gateway, gateway.stream_call("write") as events:
        await writer.started.wait()
        await gateway.stop()
        seen = await events.rest()

    assert [each["type"] for each in seen] == ["CallStarted", "CallEnded"]
    assert (seen[-1]["outcome"]["code"], seen[-1]["outcome"]["executed"]) == ("cancelled", True)


async def test_a_call_as_json_that_takes_too_long_is_answered_with_503() -> None:
    writer = Writer()
    async with serve(build_runtime(writer.tool), **AT_ONCE) as gateway:
        request = asyncio.create_task(gateway.call("write"))
        await writer.started.wait()
        await gateway.stop()
        answer = await request

    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


@pytest.mark.parametrize("path", ["run", "agui"])
async def test_a_run_that_takes_too_long_goes_on_in_the_next_gateway(tmp_path: Path, path: str) -> None:
    """Its step is not over when the gateway stops; the stream says so, or ends, and the run is still there."""
    gate = Gate()
    store = str(tmp_path / "calls.db")
    body = {"prompt": "Go.", "session": "t1"} if path == "run" else run_input()
    async with serve(Runtime(gate.tool, store=store), agents=[waiter(gate)], **AT_ONCE) as gateway:
        request = {"method": "POST", "json": body}
        async with EventReader(gateway.client, f"/api/agents/waiter/{path}", SSE, **request) as events:
            await gate.started.wait()
            await gateway.stop()
            seen = await events.rest()
    next_gate = Gate()
    next_gate.opened.set()
    agent = Agent("waiter", model=ScriptedModel("It went."), tools=[next_gate.tool])
    async with serve(Runtime(next_gate.tool, store=store), agents=[agent]) as gateway:
        [run] = (await gateway.client.get("/api/runs")).json()["items"]
        async with gateway.events(f"/api/runs/{run['run_id']}/events") as following:
            rest = await following.rest()

    assert seen[-1]["type"] == ("RUN_ERROR" if path == "agui" else "CallEnded")
    assert rest[-1]["type"] == "RunEnded"
    assert rest[-1]["status"] in ("done", "waiting")


class BrokenAgent(Agent):
    """An agent that a runtime cannot take."""

    def narrow(self, *_: Any) -> Any:
        raise ValueError("no such tool")


async def test_a_start_that_fails_raises_its_own_error(tmp_path: Path) -> None:
    boss = Agent("boss", model=ScriptedModel("Done."), agents=[BrokenAgent("clerk", model=ScriptedModel("Done."))])
    api = app(build_runtime(store=tmp_path / "calls.db"), agents=[boss])
    with pytest.raises(ValueError, match="no such tool"):
        async with api.router.lifespan_context(api):
            pass
