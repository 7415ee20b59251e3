"""The failure of a call whose tool does not exist, counted and reported like any other call."""

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
"""Name under which all calls of unknown tools are counted: counting each name would grow without limit."""


def unknown_tool_failure(
    services: RuntimeServices, invocation: Invocation, provider_problem: str | None = None
) -> Failed:
    """Count the call, emit its events and return the failure.

    Args:
        provider_problem: why the tool's provider does not serve this caller, if that is known.
    """
    name = str(invocation.requested_name)
    invocation.started_perf_counter = perf_counter()
    counter = services.tool_stats(UNKNOWN_TOOL_NAME)
    counter.count += 1
    counter.failures += 1
    outcome = Failed("not_found", f"Unknown tool: {name[:200]!r}. {_hint(invocation, name, provider_problem)}")
    attach_origin(outcome, invocation)
    if services.journal_writer is not None:
        services.journal_writer.add(services.journal_statements(invocation, "ended", "not_found"))
    if services.listeners.callbacks:
        at = services.clock.time()
        services.listeners.emit(CallStarted(invocation.id, name, invocation.raw_arguments, invocation.parent, at=at))
        if services.auto_complete:
            services.listeners.emit(CallEnded(invocation.id, name, outcome, at))
    return outcome


def _hint(invocation: Invocation, name: str, provider_problem: str | None) -> str:
    """Why the provider is unavailable, or the nearest tool names."""
    services = invocation.scope.services
    namespace, separator, _ = name.partition(NAMESPACE_SEPARATOR)
    if separator and (reason := provider_problem or services.unavailable_providers.get(namespace)) is not None:
        return f"{namespace} could not be started: {(services.redact(reason) if services.redact else reason)[:500]}"
    hidden = invocation.scope.hidden_tool_names()
    suggestions = [known for known in services.catalogue.suggest(name[:200]) if known not in hidden]
    return (
        f"Did you mean {' or '.join(suggestions)}?"
        if suggestions
        else "Copy the exact name, with its namespace, from the list."
    )
