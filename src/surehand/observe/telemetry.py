"""Telemetry: calls as OpenTelemetry spans, where somebody has set a tracer; otherwise nothing, at no cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from surehand.runtime.scope import Scope

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


def telemetry(
    runtime: Scope,
    tracer_provider: TracerProvider | None = None,
    *,
    content: bool = False,
    max_content: int = 4_000,
) -> Callable[[], None]:
    """A span for every call from now on; the returned function ends that, once the calls that still run have ended.

    Listens only if the OpenTelemetry API is installed and a provider is given or set by now.

    Args:
        content: Record arguments, results, messages and progress too. They may hold secrets.
        max_content: Characters that are recorded of each.
    """
    try:
        from surehand.observe.spans import SpanRecorder, find_tracer  # needs the extra, so not before somebody asks
    except ImportError:
        return _do_nothing
    if (tracer := find_tracer(tracer_provider)) is None:
        return _do_nothing
    return SpanRecorder(runtime, tracer, max_content if content else 0).listen()


def _do_nothing() -> None:
    """Nothing was begun."""
