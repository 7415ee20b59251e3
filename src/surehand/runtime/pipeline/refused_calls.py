"""Refused calls: calls that no stack can run, because their tool does not exist or an option of theirs is invalid.

They are counted, journalled and reported like any other call.
"""

from __future__ import annotations

from time import perf_counter

from surehand.core.names import NAMESPACE_SEPARATOR, nearest_names
from surehand.core.outcome import Failed, Outcome, attach_origin
from surehand.runtime.crash_report import CrashReport
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.pipeline.call_reports import CallReports
from surehand.runtime.pipeline.installed_middleware import MiddlewareTable, OuterMiddleware
from surehand.runtime.pipeline.stages.commit import CommittedResults
from surehand.runtime.pipeline.stages.middleware import wrap_all
from surehand.runtime.providers import ProviderTable

UNKNOWN_TOOL_NAME = "(unknown)"
"""Name under which all calls of unknown tools are counted: counting each name would grow without limit."""
MAX_NAMESPACES_SHOWN = 10
MAX_PROVIDER_PROBLEM_LENGTH = 500


class RefusedCalls:
    """Fails calls before any stage runs, and reports them."""

    def __init__(
        self,
        reports: CallReports,
        committed_results: CommittedResults,
        provider_table: ProviderTable,
        middleware: MiddlewareTable,
        crash_report: CrashReport,
    ) -> None:
        self._reports = reports
        self._middleware = middleware
        self._committed_results = committed_results
        self._provider_table = provider_table
        self._crash_report = crash_report

    async def refuse_unknown_tool(self, invocation: Invocation, provider_problem: str | None = None) -> Outcome:
        """Fail a call whose tool does not exist, or was left out of what this runtime offers.

        Outer middleware sees it, as every call.

        Args:
            provider_problem: why the tool's provider does not serve this caller, if that is known.
        """

        async def refuse(invocation: Invocation) -> Outcome:
            return await self._report_unknown_tool(invocation, provider_problem)

        installed = self._middleware.for_tool([invocation.tool_name])
        wrappers = [wrapper for wrapper in installed if isinstance(wrapper, OuterMiddleware)]
        return await wrap_all(wrappers, refuse, self._crash_report)(invocation)

    async def _report_unknown_tool(self, invocation: Invocation, provider_problem: str | None) -> Failed:
        name = invocation.tool_name
        reason = self._provider_table.refusal_reason(name)
        if reason is not None:
            return await self.report(invocation, Failed("denied", f"{name} is not allowed here: {reason}."))
        namespace, separator, _ = name.partition(NAMESPACE_SEPARATOR)
        problem = (provider_problem or self._provider_table.unavailable.get(namespace)) if separator else None
        if problem is not None:
            cause = self._crash_report.redact(problem)[:MAX_PROVIDER_PROBLEM_LENGTH]
            return await self.report(invocation, Failed("unavailable", f"{name} is not available now: {cause}"))
        hint = _hint(invocation, name)
        return await self.report(invocation, Failed("not_found", f"Unknown tool: {name!r}. {hint}"))

    async def refuse_invalid_option(self, invocation: Invocation, problem: Exception) -> Failed:
        """Fail a call with an invalid option, such as its timeout; a closed runtime reports nothing."""
        failure = Failed("invalid_arguments", str(problem))
        name: object = invocation.requested_name  # models send values of any type as a name
        listing = invocation.scope.find(name) if isinstance(name, str) else None
        if listing is not None:
            invocation.listing = listing
        is_open = invocation.environment.running.is_open
        return await self.report(invocation, failure) if is_open else failure

    async def report(self, invocation: Invocation, outcome: Failed) -> Failed:
        """Count, journal and report a call that no stack could run; returns its outcome."""
        reports = self._reports
        invocation.started_perf_counter = perf_counter()
        name = invocation.tool_name
        counter = reports.stats.of_tool(name if hasattr(invocation, "listing") else UNKNOWN_TOOL_NAME)
        counter.count += 1
        counter.failures += 1
        attach_origin(outcome, invocation)
        await self._committed_results.commit(invocation, outcome)
        tool_reports = reports.for_tool(name, *invocation.presentation)
        if reports.listeners.callbacks:
            tool_reports.start(invocation, reports.clock.time())
        tool_reports.end(invocation, outcome)
        return outcome


def _hint(invocation: Invocation, name: str) -> str:
    """Whether the namespace exists, and the nearest tools that the caller may use."""
    namespace, separator, short_name = name.partition(NAMESPACE_SEPARATOR)
    usable = invocation.scope.usable_listings(for_person=invocation.request.made_by == "person")
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
