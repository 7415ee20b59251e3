"""Calls whose process died while they ran: they wait over HTTP for a person who says what has happened."""

from pathlib import Path
from typing import Any

import pytest

from surehand import Runtime, tool
from surehand.gateway.webhooks.webhook import Webhook
from tests.durable.bank_tools import wait_until_owners_are_dead
from tests.durable.conftest import start_child
from tests.gateway.api.served_gateway import serve
from tests.gateway.webhooks.webhook_receiver import SECRET, receiver

pytestmark = pytest.mark.timeout(60)  # a process starts, and is killed


@tool(effects={"write"})
async def pay(amount: int, to: str = "ann") -> str:
    """Pay money."""
    return f"sent {amount} to {to}"


@tool(effects={"write"}, confirm=True)
async def transfer(amount: int, to: str = "ann") -> str:
    """Transfer money."""
    return f"sent {amount} to {to}"


async def kill_in_the_effect(store: Path, name: str = "pay") -> None:
    """Leave the call `c1`, of which nobody knows whether it has happened."""
    async with start_child("tests.durable.child_process", "call", str(store), name, "c1", "5") as process:
        await process.read_message()  # its handler has started


async def leave_unknown_effect(store: Path, name: str = "pay") -> None:
    """The same, before any other process uses the store."""
    await kill_in_the_effect(store, name)
    await wait_until_owners_are_dead(str(store))


async def answer(gateway: Any, **body: Any) -> Any:
    return await gateway.client.post("/api/pending/c1/result", json=body)


async def test_a_person_says_over_http_what_came_of_a_call_that_was_killed(tmp_path):
    await leave_unknown_effect(tmp_path / "s.db")
    async with serve(Runtime(pay, store=tmp_path / "s.db")) as gateway:
        [listed] = (await gateway.client.get("/api/pending")).json()["items"]
        shown = (await gateway.client.get("/api/pending/c1")).json()
        call = (await gateway.client.get("/api/calls/c1")).json()
        rejected = await gateway.client.post("/api/pending/c1/reject", json={"round": shown["round"]})
        answered = await answer(gateway, result="the bank has sent it", round=shown["round"])
        again = await answer(gateway, result="the bank has sent it", round=shown["round"])
        ended = (await gateway.client.get("/api/calls/c1")).json()
        gone = await gateway.client.get("/api/pending/c1")

    assert listed == shown
    assert (shown["waiting_for"], shown["request"]) == ("result", {"unknown_effect": True})
    assert (call["kind"], call["outcome"]["code"]) == ("unknown", "unknown_effect")
    assert (rejected.status_code, rejected.json()["code"]) == (409, "conflict")
    assert "cannot be rejected" in rejected.json()["detail"]
    assert (answered.status_code, answered.json()["data"]) == (200, "the bank has sent it")
    assert again.json() == answered.json()
    assert ended["outcome"]["data"] == "the bank has sent it"
    assert gone.status_code == 404


async def test_an_approved_call_that_was_killed_waits_with_a_second_question(tmp_path):
    await leave_unknown_effect(tmp_path / "s.db", "transfer")
    async with serve(Runtime(transfer, store=tmp_path / "s.db")) as gateway:
        shown = (await gateway.client.get("/api/pending/c1")).json()
        answered = await answer(gateway, failed="the bank knows nothing of it", round=shown["round"])

    assert (shown["round"], shown["request"]) == (2, {"unknown_effect": True})
    assert (answered.status_code, answered.json()["code"]) == (200, "failed")
    assert "knows nothing of it" in answered.json()["message"]


async def test_a_gateway_tells_that_another_process_was_killed_in_its_call(tmp_path):
    store = tmp_path / "s.db"
    async with serve(Runtime(pay, store=store)) as gateway, gateway.events() as events:
        await kill_in_the_effect(store)
        told = (await events.until("CallPending"))[-1]

    assert (told["call_id"], told["tool"], told["waiting_for"]) == ("c1", "pay", "result")
    assert told["request"] == {"unknown_effect": True}


async def test_a_webhook_announces_a_call_that_was_killed(tmp_path):
    await leave_unknown_effect(tmp_path / "s.db")
    async with receiver() as program:
        webhook = Webhook("bridge", (SECRET,), program.url)
        async with serve(Runtime(pay, store=tmp_path / "s.db"), webhooks=[webhook]):
            delivery = await program.next()

    assert (delivery.data["call_id"], delivery.data["request"]) == ("c1", {"unknown_effect": True})
