"""Calls that no stack can run: the tool does not exist or may not be used here, or an option of the call is invalid.

They are counted, journalled and reported like any other call.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from surehand.core.events import CallEnded, CallStarted
from surehand.core.names import NAMESPACE_SEPARATOR, nearest_names
from surehand.core.outcome import Failed, attach_origin
from surehand.runtime.invocation.invocation import Invocation

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices

UNKNOWN_TOOL_NAME = "(unknown)"
"""Name under which all calls of unknown tools are counted: counting each name would grow without limit."""
MAX_NAMESPACES_SHOWN = 10
MAX_PROVIDER_PROBLEM_LENGTH = 500


async def unknown_tool_failure(
    services: RuntimeServices, invocation: Invocation, provider_problem: str | None = None
) -> Failed:
    """The failure of a call whose tool does not exist, or was left out of what this runtime offers.

    Args:
        provider_problem: why the tool's provider does not serve this caller, if that is known.
    """
    name = invocation.tool_name
    reason = services.refusal_reason(name)
    if reason is not None:
        return await report_refusal(invocation, Failed("denied", f"{name} is not allowed here: {reason}."))
    namespace, separator, _ = name.partition(NAMESPACE_SEPARATOR)
    problem = (provider_problem or services.unavailable_providers.get(namespace)) if separator else None
    if problem is not None:
        cause = (services.redact(problem) if services.redact else problem)[:MAX_PROVIDER_PROBLEM_LENGTH]
        return await report_refusal(invocation, Failed("unavailable", f"{name} is not available now: {cause}"))
    hint = _hint(invocation, name)
    return await report_refusal(invocation, Failed("not_found", f"Unknown tool: {name!r}. {hint}"))


async def refuse_invalid_option(invocation: Invocation, problem: str) -> Failed:
    """The failure of a call with an invalid option, such as its timeout; a closed runtime reports nothing."""
    failure = Failed("invalid_arguments", problem)
    name: object = invocation.requested_name  # models send values of any type as a name
    listing = invocation.scope.find(name) if isinstance(name, str) else None
    if listing is not None:
        invocation.listing = listing
    return await report_refusal(invocation, failure) if invocation.scope.services.is_open else failure


async def report_refusal(invocation: Invocation, outcome: Failed) -> Failed:
    """Count, journal and report a call that no stack could run; returns its outcome."""
    services = invocation.scope.services
    name = invocation.tool_name
    invocation.started_perf_counter = perf_counter()
    counter = services.tool_stats(name if hasattr(invocation, "listing") else UNKNOWN_TOOL_NAME)
    counter.count += 1
    counter.failures += 1
    attach_origin(outcome, invocation)
    if invocation.principal.session is not None:
        services.last_results.add(invocation.principal, name, outcome)
    await services.commit(invocation, outcome)
    if services.memory_journal is not None:
        services.memory_journal.append((invocation.id, name, invocation.started_perf_counter, 0.0, outcome.code))
    if services.journal_writer is not None:
        services.journal_writer.add(services.journal_statements(invocation, "ended", outcome.code))
        if outcome.code == "denied":
            services.journal_writer.add_refusal(invocation, outcome)
    if services.listeners.callbacks:
        _emit_events(invocation, name, outcome)
    return outcome


def _emit_events(invocation: Invocation, name: str, outcome: Failed) -> None:
    services = invocation.scope.services
    at = services.clock.time()
    identity = invocation.identity
    started = CallStarted(invocation.id, name, invocation.raw_arguments, at=at, **identity._asdict())
    services.listeners.emit(started)
    if services.auto_complete:
        services.listeners.emit(CallEnded(invocation.id, name, outcome, at, *identity))


def _hint(invocation: Invocation, name: str) -> str:
    """Whether the namespace exists, and the nearest tools that the caller may use."""
    namespace, separator, short_name = name.partition(NAMESPACE_SEPARATOR)
    usable = invocation.scope.usable_listings(for_person=invocation.is_dispatched)
    names = [each for listing in usable for each in (listing.name, *listing.tool.aliases)]
    suggestions = nearest_names(name, dict.fromkeys(names))  # two tools may have the same alias
    advice = (
        f"Did you mean {' or '.join(suggestions)}?"
        if suggestions
        else "Copy the exact name, with its namespace, from the list."
    )
    namespaces = sorted({listing.namespace for listing in usable if listing.namespace})
    if not separator or not namespaces:
        return advice
    if namespace in namespaces:
        return f"{namespace} has no tool {short_name!r}. {advice}"
    known = ", ".join(namespaces[:MAX_NAMESPACES_SHOWN])
    return f"There is no namespace {namespace!r}; known namespaces: {known}. {advice}"
