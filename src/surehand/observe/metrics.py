"""`metrics(runtime)`: Prometheus counters, histograms and gauges of a runtime's calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from surehand.core.events import CallEnded, Event
from surehand.core.extras import install_command
from surehand.observe.ended_call import call_meta, status_label, tool_label
from surehand.runtime.scope import Scope

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

T = TypeVar("T")
_SECONDS_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_TOOL_LABELS = ("namespace", "tool")
"""The namespace is empty for functions and built-in tools."""
_MAX_READ_ATTEMPTS = 10


def metrics(runtime: Scope, registry: CollectorRegistry | None = None) -> Callable[[], None]:
    """Register metrics of a runtime, by default in the global registry; the returned function unregisters them."""
    try:
        import prometheus_client
    except ImportError as error:
        raise ImportError(f"Metrics need prometheus-client: {install_command('metrics')}.") from error
    target = prometheus_client.REGISTRY if registry is None else registry
    collector = CallCollector(runtime)
    target.register(collector)
    unsubscribe = runtime.listen(collector.on_event)
    has_ended = False

    def end() -> None:
        nonlocal has_ended
        if not has_ended:
            has_ended = True
            unsubscribe()
            target.unregister(collector)

    return end


class CallCollector:
    """One Prometheus collector: counts calls as they end, and reads gauges when it is scraped."""

    def __init__(self, runtime: Scope) -> None:
        from prometheus_client import Counter, Histogram

        # Without a registry: this collector is registered as one, and each runtime has its own counters.
        def count(name: str, text: str, *more_labels: str) -> Counter:
            return Counter(name, text, (*_TOOL_LABELS, *more_labels), registry=None)

        def time(name: str, text: str) -> Histogram:
            return Histogram(name, text, _TOOL_LABELS, buckets=_SECONDS_BUCKETS, registry=None)

        self._runtime = runtime
        self._calls = count("surehand_calls", "Calls by how they ended: ok, pending, or a code.", "status")
        self._seconds = time("surehand_call_seconds", "How long calls took.")
        self._queued = time("surehand_queued_seconds", "How long they waited for a slot.")
        self._characters_in = count("surehand_characters_in", "Characters of their arguments.")
        self._characters_out = count("surehand_characters_out", "Characters of their texts.")
        self._tokens = count("surehand_tokens", "Estimated tokens of their texts.")
        self._call_metrics = (
            self._calls, self._seconds, self._queued, self._characters_in, self._characters_out, self._tokens,
        )  # fmt: skip

    def on_event(self, event: Event) -> None:
        """Count an ended call."""
        if not isinstance(event, CallEnded):
            return
        meta = call_meta(event)
        tool = tool_label(event, meta, self._runtime.catalogue)
        namespace = meta.namespace
        self._calls.labels(namespace, tool, status_label(event)).inc()
        self._seconds.labels(namespace, tool).observe(meta.latency_ms / 1000)
        self._queued.labels(namespace, tool).observe(meta.queued_ms / 1000)
        self._characters_in.labels(namespace, tool).inc(meta.characters_in)
        self._characters_out.labels(namespace, tool).inc(meta.characters_out)
        self._tokens.labels(namespace, tool).inc(meta.tokens)

    def collect(self) -> Iterable[Metric]:
        """Yield the counted metrics and the current gauges."""
        for metric in self._call_metrics:
            yield from metric.collect()
        yield from self._gauges()

    def describe(self) -> Iterable[Metric]:
        """Yield the names, by which a registry notices duplicates."""
        for metric in self._call_metrics:
            yield from metric.describe()
        yield from self._gauges()

    def _gauges(self) -> Iterable[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        stats = _read_with_retry(self._runtime.stats)
        queues = _read_with_retry(self._runtime.queues)
        yield GaugeMetricFamily("surehand_running", "Calls suspended in the pipeline.", stats.running)
        yield GaugeMetricFamily("surehand_pending", "Pending calls.", stats.pending)
        yield GaugeMetricFamily("surehand_abandoned", "Threads left running past their deadline.", stats.abandoned)
        in_use = GaugeMetricFamily("surehand_queue_in_use", "Slots in use.", labels=["queue"])
        waiting = GaugeMetricFamily("surehand_queue_waiting", "Calls in line for a slot.", labels=["queue"])
        for name, queue in queues.items():
            in_use.add_metric([name], queue.in_use)
            waiting.add_metric([name], queue.waiting)
        yield from (in_use, waiting)


def _read_with_retry(read: Callable[[], T]) -> T:
    """Read again if a dictionary changed during the read: Prometheus scrapes in its own thread."""
    for _ in range(_MAX_READ_ATTEMPTS):
        try:
            return read()
        except RuntimeError:
            continue
    return read()
