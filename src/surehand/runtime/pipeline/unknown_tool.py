"""Unknown tools: what a caller is told who asks for a tool that is not there."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from surehand.core.events import CallEnded, CallStarted
from surehand.core.names import NAMESPACE_SEPARATOR
from surehand.core.outcome import Failed, attach_origin
from surehand.runtime.pipeline.invocation import Invocation

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices

UNKNOWN_TOOL_NAME = "(unknown)"
"""Calls of tools that are not there are counted together: their names are without number."""


def unknown_tool_failure(
    services: RuntimeServices, invocation: Invocation, provider_problem: str | None = None
) -> Failed:
    """The failure, counted and told like any other call.

    Args:
        why: what keeps the caller from the tool's provider, where that is known better than by all others.
    """
    name = str(invocation.requested_name)
    invocation.started_perf_counter = perf_counter()
    counter = services.tool_stats(UNKNOWN_TOOL_NAME)
    counter.count += 1
    counter.failures += 1
    outcome = Failed("not_found", f"Unknown tool: {name[:200]!r}. {_hint(invocation, name, provider_problem)}")
    attach_origin(outcome, invocation)
    if services.listeners.callbacks:
        at = services.clock.time()
        services.listeners.emit(CallStarted(invocation.id, name, invocation.raw_arguments, invocation.parent, at=at))
        if services.auto_complete:
            services.listeners.emit(CallEnded(invocation.id, name, outcome, at))
    return outcome


def _hint(invocation: Invocation, name: str, provider_problem: str | None) -> str:
    parts = invocation.scope.services
    namespace, mark, _ = name.partition(NAMESPACE_SEPARATOR)
    if mark and (reason := provider_problem or parts.unavailable_providers.get(namespace)) is not None:
        return f"{namespace} could not be started: {(parts.redact(reason) if parts.redact else reason)[:500]}"
    near = [each for each in parts.catalogue.suggest(name[:200]) if each not in invocation.scope.hidden_tool_names()]
    return f"Did you mean {' or '.join(near)}?" if near else "Copy the exact name, with its namespace, from the list."
