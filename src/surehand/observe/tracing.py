"""`telemetry(runtime)`: OpenTelemetry spans for calls, if the API is installed and a tracer is set; else nothing."""

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
    """Record a span for every call from now on; the returned function stops that once the running calls have ended.

    It listens only if the OpenTelemetry API is installed and a provider was passed or set before this call.

    Args:
        content: Also record arguments, results, messages and progress. They may contain secrets.
        max_content: Maximum length of each recorded text, in characters.
    """
    try:
        # Imports the OpenTelemetry API, which is an optional dependency.
        from surehand.observe.spans import SpanRecorder, find_tracer
    except ImportError:
        return _do_nothing
    tracer = find_tracer(tracer_provider)
    if tracer is None:
        return _do_nothing
    return SpanRecorder(runtime, tracer, max_content if content else 0).listen()


def _do_nothing() -> None:
    """Stop nothing: no listener was registered."""
