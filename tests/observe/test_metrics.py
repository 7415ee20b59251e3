"""Metrics of a runtime, read through a Prometheus registry."""

import asyncio
import sys
import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from surehand import Failed, Provider, Queue, Runtime, ToolError, tool
from surehand.observe import metrics
from surehand.testing import ManualClock, settle


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(confirm=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
async def broken() -> None:
    """Fail."""
    raise ToolError("out of order")


class Shop(Provider):
    """A provider whose one tool always fails."""

    namespace = "shop"

    async def tools(self) -> list[Any]:
        return [broken]

    async def invoke(self, call: Any, context: Any) -> Any:
        return Failed("failed", "out of order")


def scraped(registry: CollectorRegistry) -> dict[tuple[Any, ...], float]:
    families = text_string_to_metric_families(generate_latest(registry).decode())
    samples = [sample for family in families for sample in family.samples]
    labels = ("tool", "status", "queue", "le")
    return {(s.name, *(s.labels[name] for name in labels if name in s.labels)): s.value for s in samples}


async def test_calls_are_counted_by_tool_and_by_how_they_ended() -> None:
    registry = CollectorRegistry()
    async with Runtime(add, pay, broken) as runtime:
        metrics(runtime, registry)
        await runtime.call("add", {"a": 1, "b": 2})
        await runtime.call("add", {"a": 1, "b": 2})
        await runtime.call("add", {})
        await runtime.call("broken")
        pending = await runtime.call("pay", {"amount": 5})
        waiting = scraped(registry)
        await runtime.approve(pending.meta.call_id)
        found = scraped(registry)

    calls = {key[1:]: value for key, value in found.items() if key[0] == "surehand_calls_total"}
    assert calls == {
        ("add", "ok"): 2,
        ("add", "invalid_arguments"): 1,
        ("broken", "failed"): 1,
        ("pay", "pending"): 1,
        ("pay", "ok"): 1,
    }
    assert found["surehand_call_seconds_count", "add"] == 3
    assert found["surehand_call_seconds_sum", "add"] > 0
    assert found["surehand_queued_seconds_sum", "add"] == 0
    assert found["surehand_tokens_total", "broken"] == 7
    assert (waiting["surehand_pending",], found["surehand_pending",]) == (1, 0)


async def test_metrics_carry_the_namespace_and_the_characters_in_and_out() -> None:
    registry = CollectorRegistry()
    async with Runtime(add, Shop()) as runtime:
        metrics(runtime, registry)
        await runtime.call("add", '{"a": 1, "b": 22}')
        await runtime.call("shop__broken")
        await runtime.call("invented__name")

    families = text_string_to_metric_families(generate_latest(registry).decode())
    found = {
        (sample.name, sample.labels["namespace"], sample.labels["tool"]): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith(("surehand_characters", "surehand_calls_total"))
        and not sample.name.endswith("_created")
    }
    assert found["surehand_characters_in_total", "", "add"] == len('{"a": 1, "b": 22}')
    assert found["surehand_characters_out_total", "", "add"] == len("23")
    assert found["surehand_calls_total", "shop", "shop__broken"] == 1
    assert found["surehand_characters_out_total", "shop", "shop__broken"] == len("(tool failed: out of order)")
    assert found["surehand_calls_total", "", "(unknown)"] == 1


async def test_invented_names_share_one_label() -> None:
    registry = CollectorRegistry()
    async with Runtime(add) as runtime:
        metrics(runtime, registry)
        for number in range(50):
            await runtime.call(f"invented_{number}")
        await runtime.call("add", {"a": object(), "b": 1})

    found = scraped(registry)
    assert found["surehand_calls_total", "(unknown)", "not_found"] == 50
    assert found["surehand_calls_total", "add", "invalid_arguments"] == 1
    assert {key[1] for key in found if key[0] == "surehand_tokens_total"} == {"(unknown)", "add"}


async def test_gauges_are_read_when_prometheus_scrapes() -> None:
    gate, registry = asyncio.Event(), CollectorRegistry()

    @tool(queue="narrow")
    async def slow() -> None:
        """Take a while."""
        await gate.wait()

    async with Runtime(slow, queues={"narrow": Queue(concurrent=1)}) as runtime:
        metrics(runtime, registry)
        calls = asyncio.gather(*(runtime.call("slow") for _ in range(3)))
        await settle()
        busy = scraped(registry)
        gate.set()
        await calls
        idle = scraped(registry)

    assert (busy["surehand_running",], idle["surehand_running",]) == (3, 0)
    assert (busy["surehand_queue_in_use", "narrow"], busy["surehand_queue_waiting", "narrow"]) == (1, 2)
    assert (idle["surehand_queue_in_use", "narrow"], idle["surehand_queue_waiting", "narrow"]) == (0, 0)
    assert idle["surehand_queued_seconds_sum", "slow"] > 0


async def test_an_abandoned_thread_is_counted_until_it_ends() -> None:
    began, release, clock, registry = threading.Event(), threading.Event(), ManualClock(), CollectorRegistry()

    @tool
    def stuck() -> None:
        """Block a thread."""
        began.set()
        release.wait()

    async with Runtime(stuck, clock=clock) as runtime:
        metrics(runtime, registry)
        calling = asyncio.create_task(runtime.call("stuck", timeout=5))
        await asyncio.to_thread(began.wait)
        await clock.advance(6)
        await calling
        left = scraped(registry)
        release.set()

    assert left["surehand_abandoned",] == 1
    assert left["surehand_calls_total", "stuck", "timed_out"] == 1


async def test_after_the_end_nothing_listens_and_the_metric_names_are_free() -> None:
    registry = CollectorRegistry()
    async with Runtime(add) as runtime:
        end = metrics(runtime, registry)
        with pytest.raises(ValueError, match="Duplicated"):
            metrics(runtime, registry)
        assert len(runtime._parts.listeners.callbacks) == 1
        end()
        end()

        assert runtime._parts.listeners.callbacks == ()
        assert scraped(registry) == {}
        metrics(runtime, registry)()


async def test_a_scrape_retries_when_a_dictionary_changes_under_it(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = CollectorRegistry()
    async with Runtime(add) as runtime:
        metrics(runtime, registry)
        read, failures = runtime.stats, [RuntimeError("dictionary changed size during iteration")]

        def stats() -> Any:
            if failures:
                raise failures.pop()
            return read()

        monkeypatch.setattr(runtime, "stats", stats)

        assert scraped(registry)["surehand_running",] == 0


async def test_without_the_client_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    async with Runtime(add) as runtime:
        with pytest.raises(ImportError, match=r"\[metrics\]"):
            metrics(runtime)
