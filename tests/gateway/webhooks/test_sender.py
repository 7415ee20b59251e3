"""Waits are announced by webhooks: signed, at least once, by one process, also over restarts."""

import asyncio
import json
import logging

import pytest

from surehand import DefinitionError, Pending, Runtime, tool
from surehand.gateway.mcp.http.server import bind_sockets
from surehand.gateway.webhooks.sender import LEASE_SECONDS
from surehand.gateway.webhooks.signatures import verify_webhook
from surehand.gateway.webhooks.webhook import Webhook
from surehand.testing import ManualClock
from tests.gateway.api.served_gateway import build_runtime, serve
from tests.gateway.webhooks.webhook_receiver import OLD_SECRET, SECRET, receiver

SOON = (0.01,) * 5


async def until_ended(runtime: Runtime, state: str, count: int = 1) -> None:
    """Read the store until the first webhook has this many deliveries of a state."""
    for _ in range(2_000):
        summaries = await runtime.store.webhooks.summaries()
        if summaries and getattr(summaries[0], state) == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"There are no {count} deliveries that are {state}: {summaries}")


async def test_a_new_wait_is_announced_with_its_facts_and_links(tmp_path):
    runtime = build_runtime(store=tmp_path / "calls.db")
    async with receiver() as program:
        webhook = Webhook("bridge", (SECRET,), program.url, people=("grace",))
        async with serve(runtime, webhooks=[webhook], public_url="https://tools.example/") as gateway:
            call_id = (await gateway.call("pay", {"amount": 5})).json()["call_id"]
            delivery = await program.next()
            [wait] = (await gateway.client.get("/api/pending")).json()["items"]
            await until_ended(runtime, "delivered")

    message = json.loads(delivery.body)
    assert message["type"] == "call.pending"
    assert message["timestamp"].endswith("Z")
    assert delivery.data["url"] == f"https://tools.example/#/inbox/{call_id}"
    assert delivery.data["answer_url"] == "https://tools.example/api/webhooks/bridge/answers"
    del wait["may_answer"]
    assert {name: delivery.data[name] for name in wait} == wait
    assert delivery.headers["content-type"] == "application/json"


async def test_every_secret_signs_while_one_is_replaced():
    async with receiver() as program:
        webhook = Webhook("bridge", (OLD_SECRET, SECRET), program.url)
        async with serve(build_runtime(), webhooks=[webhook]) as gateway:
            await gateway.call("pay", {"amount": 5})
            delivery = await program.next()

    assert verify_webhook(delivery.body, delivery.headers, [OLD_SECRET]) == delivery.id
    assert verify_webhook(delivery.body, delivery.headers, [SECRET]) == delivery.id


async def test_a_wait_that_is_not_acknowledged_is_sent_again_under_the_same_id_and_body():
    async with receiver(500, 429, 302) as program:
        webhook = Webhook("bridge", (SECRET,), program.url, retry_delays=SOON)
        runtime = build_runtime()
        async with serve(runtime, webhooks=[webhook]) as gateway:
            await gateway.call("pay", {"amount": 5})
            deliveries = [await program.next() for _ in range(4)]
            await until_ended(runtime, "delivered")
            [shown] = (await gateway.client.get("/api/statistics")).json()["webhooks"]

    assert len({(each.id, each.body) for each in deliveries}) == 1
    assert (shown["name"], shown["delivered"], shown["waiting"], shown["failed"]) == ("bridge", 1, 0, 0)
    assert shown["failing_since"] is None


async def test_a_dead_endpoint_is_given_up_and_shown(caplog):
    [unused] = bind_sockets("127.0.0.1", 0)
    url = f"http://127.0.0.1:{unused.getsockname()[1]}/key-in-url"
    unused.close()
    webhook = Webhook("bridge", (SECRET,), url, retry_delays=(0.01, 0.01))
    runtime = build_runtime()
    with caplog.at_level(logging.WARNING, "surehand"):
        async with serve(runtime, webhooks=[webhook]) as gateway:
            await gateway.call("pay", {"amount": 5})
            await until_ended(runtime, "failed")
            [shown] = (await gateway.client.get("/api/statistics")).json()["webhooks"]
            [wait] = (await gateway.client.get("/api/pending")).json()["items"]

    assert (shown["waiting"], shown["failed"]) == (0, 1)
    assert "127.0.0.1" in shown["last_error"]
    assert wait["tool"] == "pay"
    assert "Webhook bridge (127.0.0.1) was given up" in caplog.text
    assert SECRET not in caplog.text
    assert "key-in-url" not in caplog.text


async def test_an_endpoint_that_is_gone_is_not_tried_again():
    async with receiver(410) as program:
        runtime = build_runtime()
        async with serve(runtime, webhooks=[Webhook("bridge", (SECRET,), program.url)]) as gateway:
            await gateway.call("pay", {"amount": 5})
            await until_ended(runtime, "failed")

    assert program.deliveries.qsize() == 1


async def test_a_restart_sends_what_was_not_acknowledged_with_the_same_id(tmp_path):
    async with receiver(500) as program:
        webhook = Webhook("bridge", (SECRET,), program.url, retry_delays=(1.0,) * 10)
        first = build_runtime(store=tmp_path / "calls.db")
        async with serve(first, webhooks=[webhook]) as gateway:
            await gateway.call("pay", {"amount": 5})
            before = await program.next()
            await until_ended(first, "waiting")
        second = build_runtime(store=tmp_path / "calls.db")
        async with serve(second, webhooks=[webhook]):
            after = await program.next()
            await until_ended(second, "delivered")

    assert (before.id, before.body) == (after.id, after.body)


async def test_waits_that_began_before_the_webhook_was_configured_are_announced(tmp_path):
    runtime = build_runtime(store=tmp_path / "calls.db")
    async with runtime:
        waiting = await runtime.call("pay", {"amount": 5})
    async with receiver() as program:
        webhook = Webhook("bridge", (SECRET,), program.url)
        async with serve(build_runtime(store=tmp_path / "calls.db"), webhooks=[webhook]):
            delivery = await program.next()

    assert delivery.data["call_id"] == waiting.call_id


async def test_of_two_gateways_on_a_store_one_sends_each_wait(tmp_path):
    async with receiver() as program:
        webhook = Webhook("bridge", (SECRET,), program.url)
        runtimes = [build_runtime(store=tmp_path / "calls.db") for _ in range(2)]
        async with serve(runtimes[0], webhooks=[webhook]) as one, serve(runtimes[1], webhooks=[webhook]) as two:
            for number in range(20):
                await (one, two)[number % 2].call("pay", {"amount": number})
            deliveries = [await program.next() for _ in range(20)]
            await until_ended(runtimes[0], "delivered", 20)

    assert len({each.id for each in deliveries}) == 20
    assert program.deliveries.empty()


async def test_what_a_killed_process_was_sending_is_taken_by_another_when_the_lease_is_over(tmp_path):
    clock = ManualClock()
    async with build_runtime(store=str(tmp_path / "calls.db"), clock=clock) as runtime:
        store = runtime.store
        await runtime.call("pay", {"amount": 5})
        [new] = await store.webhooks.new_waits("bridge", limit=10)
        await store.webhooks.add("bridge", [(new, True)])
        [taken] = await store.webhooks.take("bridge", limit=10, lease_seconds=LEASE_SECONDS)
        assert await store.webhooks.take("bridge", limit=10, lease_seconds=LEASE_SECONDS) == []

        await clock.advance(LEASE_SECONDS)
        [retaken] = await store.webhooks.take("bridge", limit=10, lease_seconds=LEASE_SECONDS)
        await store.webhooks.end("bridge", taken, "failed")  # it was only paused, and comes too late
        await store.webhooks.end("bridge", retaken, "delivered")
        [summary] = await store.webhooks.summaries()

    assert (taken.attempts, retaken.attempts) == (1, 2)
    assert (summary.delivered, summary.failed) == (1, 0)


async def test_a_receiver_that_hangs_keeps_neither_calls_nor_other_webhooks_waiting():
    async with receiver() as slow, receiver() as quick:
        slow.opened.clear()
        webhooks = [Webhook("slow", (SECRET,), slow.url), Webhook("quick", (SECRET,), quick.url)]
        async with serve(build_runtime(), webhooks=webhooks) as gateway:
            await gateway.call("pay", {"amount": 1})
            await slow.next()
            added = await gateway.call("add", {"a": 1, "b": 2})
            delivery = await quick.next()
            slow.opened.set()

    assert added.json()["data"] == 3
    assert delivery.data["arguments"] == {"amount": 1}


async def test_only_the_waits_of_the_named_tools_and_kinds_are_sent():
    async with receiver() as program:
        webhook = Webhook("bridge", (SECRET,), program.url, tools=("p*",), waiting_for=frozenset({"approval"}))
        async with serve(build_runtime(), webhooks=[webhook]) as gateway:
            await gateway.call("pick")
            await gateway.call("pay", {"amount": 5})
            delivery = await program.next()

    assert delivery.data["tool"] == "pay"
    assert program.deliveries.empty()


async def test_a_wait_that_is_answered_before_it_could_be_sent_is_not_sent(tmp_path):
    async with receiver(500) as program:
        webhook = Webhook("bridge", (SECRET,), program.url, retry_delays=(0.3,) * 9)
        runtime = build_runtime(store=tmp_path / "calls.db")
        async with serve(runtime, webhooks=[webhook]) as gateway:
            call_id = (await gateway.call("pay", {"amount": 5})).json()["call_id"]
            await program.next()
            await gateway.client.post(f"/api/pending/{call_id}/approve")
            await until_ended(runtime, "waiting", 0)

    assert program.deliveries.empty()


async def test_each_question_of_a_call_is_announced():
    @tool(effects={"write"}, confirm=True)
    async def buy() -> Pending:
        """Buy."""
        return Pending("input", message="Which colour?")

    async with receiver() as program:
        webhook = Webhook("bridge", (SECRET,), program.url)
        async with serve(Runtime(buy), webhooks=[webhook]) as gateway:
            call_id = (await gateway.call("buy")).json()["call_id"]
            first = await program.next()
            asked = await gateway.client.post(f"/api/pending/{call_id}/approve")
            second = await program.next()

    assert asked.status_code == 202
    assert first.id != second.id
    assert [(each.data["round"], each.data["message"]) for each in (first, second)][1] == (2, "Which colour?")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"name": "a/b"}, "cannot name a webhook"),
        ({"secrets": ()}, "has no secret"),
        ({"secrets": ("hunter2",)}, "24 to 64 bytes"),
        ({"url": "ftp://x"}, "URL of webhook"),
        ({"waiting_for": frozenset({"lunch"})}, "waiting_for has 'lunch'"),
        ({"scopes": frozenset({"tool:x"})}, "is not a scope"),
    ],
)
def test_mistakes_in_a_webhook_are_definition_errors(arguments, problem):
    with pytest.raises(DefinitionError, match=problem) as error:
        Webhook(**{"name": "bridge", "secrets": (SECRET,), "url": "http://127.0.0.1/", **arguments})

    assert "hunter2" not in str(error.value)
