"""Scope view: what a scope has of its runtime, and shows: clock, store, policy, queues, statistics and running calls.

The other halves of a scope (`scope_tools`, `scope_answers`, `scope_events`, and the verbs in `scope`) build on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surehand.runtime.stats import Stats

if TYPE_CHECKING:
    from surehand.catalogue.catalogue import Catalogue
    from surehand.core.call import Principal
    from surehand.core.clock import Clock
    from surehand.core.outcome import Outcome
    from surehand.runtime.active_spaces import ActiveSpaces
    from surehand.runtime.agent_inbox import AgentInbox
    from surehand.runtime.agents import AgentTable
    from surehand.runtime.crash_report import CrashReport
    from surehand.runtime.durability.ledger import Ledger
    from surehand.runtime.durability.write_retry import WriteRetry
    from surehand.runtime.invocation.invocation import CallEnvironment
    from surehand.runtime.last_results import LastResults
    from surehand.runtime.limits.budget import TurnBudgets
    from surehand.runtime.limits.queue_table import QueueTable
    from surehand.runtime.limits.queues import QueueStatus
    from surehand.runtime.listeners import Listeners
    from surehand.runtime.named_scopes import NamedScopes
    from surehand.runtime.offered_tools import OfferedTools
    from surehand.runtime.outputs import OversizedOutputs
    from surehand.runtime.pending.answers import Answers
    from surehand.runtime.pending.cancelled_runs import CancelledRuns
    from surehand.runtime.pending.local_calls import ExpiryTimer, LocalPendingCalls
    from surehand.runtime.pending.pending_calls import PendingCalls
    from surehand.runtime.pending.restored_call import RestoredCalls
    from surehand.runtime.pending.result import CallResults
    from surehand.runtime.pending.resumption import Resumptions
    from surehand.runtime.pending.status import CallStatuses
    from surehand.runtime.pipeline.installed_middleware import MiddlewareTable
    from surehand.runtime.pipeline.pipeline import CallStages
    from surehand.runtime.pipeline.refused_calls import RefusedCalls
    from surehand.runtime.pipeline.stacks import StackTables
    from surehand.runtime.policy import ActivePolicy, Policy
    from surehand.runtime.providers import ProviderTable
    from surehand.runtime.running_calls import InterruptibleCall
    from surehand.runtime.session_states import SessionStates
    from surehand.runtime.stats import StatsTable
    from surehand.store.store import Store


@dataclass(frozen=True, slots=True)
class AnswerServices:
    """What a scope does with calls that wait or have ended."""

    answers: Answers
    pending_calls: PendingCalls
    statuses: CallStatuses
    results: CallResults


@dataclass(frozen=True, slots=True)
class CallServices:
    """The stages, and what scopes and the store maintenance do with stored calls."""

    stages: CallStages
    refused_calls: RefusedCalls
    answering: AnswerServices
    local: LocalPendingCalls
    resumptions: Resumptions
    cancelled_runs: CancelledRuns
    restored_calls: RestoredCalls
    expiry_timer: ExpiryTimer
    ledger: Ledger
    write_retry: WriteRetry
    agent_inbox: AgentInbox


class CallLoader:
    """Builds the call services once, on first use.

    Their modules import all stages and the tables of the store. A program that only defines tools, or opens a runtime,
    needs neither: `from surehand import tool, Runtime` stays as light as importing pydantic.
    """

    def __init__(self, build: Callable[[], CallServices]) -> None:
        self._build = build
        self._loaded: CallServices | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether a call has needed them yet."""
        return self._loaded is not None

    def load(self) -> CallServices:
        """The call services."""
        if self._loaded is None:
            self._loaded = self._build()
        return self._loaded


@dataclass(frozen=True, slots=True)
class ToolSources:
    """Where the tools of a runtime come from, and what decides about them; the same for all its scopes."""

    catalogue: Catalogue
    offered_tools: OfferedTools
    provider_table: ProviderTable
    policy: ActivePolicy
    workspace: str
    crash_report: CrashReport


@dataclass(frozen=True, slots=True)
class ScopeParts:
    """What the scopes of one runtime work with. Only scopes see it; every other part is given what it uses."""

    environment: CallEnvironment
    tool_sources: ToolSources
    stack_tables: StackTables
    calls: CallLoader
    listeners: Listeners
    stats: StatsTable
    queues: QueueTable
    outputs: OversizedOutputs
    last_results: LastResults
    turn_budgets: TurnBudgets
    session_states: SessionStates
    active_spaces: ActiveSpaces
    middleware: MiddlewareTable
    auto_complete: bool
    named_scopes: NamedScopes[Any]
    agents: AgentTable


class ScopeView:
    """What a scope shows of its runtime."""

    _parts: ScopeParts
    environment: CallEnvironment
    principal: Principal

    @property
    def catalogue(self) -> Catalogue:
        """The tools of the runtime."""
        return self._parts.tool_sources.catalogue

    @property
    def policy(self) -> Policy:
        """The policy of the runtime."""
        return self._parts.tool_sources.policy.current

    @property
    def outputs(self) -> OversizedOutputs:
        """The outputs that were too large to be shown, under their handles."""
        return self._parts.outputs

    @property
    def clock(self) -> Clock:
        """The clock of the runtime."""
        return self.environment.running.clock

    @property
    def workspace(self) -> str:
        """The folder that relative paths of tools belong to."""
        return self.environment.workspace

    @property
    def is_durable(self) -> bool:
        """Whether a store was configured, so that calls survive this process."""
        return self.environment.store.is_durable

    @property
    def is_open(self) -> bool:
        """Whether the runtime is running."""
        return self.environment.running.is_open

    @property
    def store(self) -> Store | None:
        """The configured store, or the one in memory once it has been used."""
        return self.environment.store.current

    @property
    def runtime_id(self) -> str:
        """The id under which the runtime owns its calls in the store."""
        return self.environment.store.owner_id

    @property
    def auto_complete(self) -> bool:
        """Whether `CallEnded` is emitted when a call ends, and not by `complete`."""
        return self._parts.auto_complete

    def redact(self, text: str) -> str:
        """The text without the secrets that the runtime was given."""
        return self._parts.tool_sources.crash_report.redact(text)

    def queues(self) -> dict[str, QueueStatus]:
        """The capacity, use and waiting calls of each queue."""
        return {name: queue.status for name, queue in self._parts.queues.items()}

    def stats(self) -> Stats:
        """Counts and durations of calls, by tool."""
        running = self.environment.running
        has_store = self.store is not None
        return Stats(
            total=len(self.catalogue),
            by_category=self.catalogue.categories(),
            calls=self._parts.stats.snapshot(),
            running=len(running.calls),
            abandoned=self.environment.threads.abandoned_count,
            pending=self._parts.calls.load().local.open_count if has_store else 0,
            artifacts=self.outputs.stored_count,
        )

    def last_results(self, session: str | None = None, *, limit: int = 10) -> list[tuple[str, Outcome]]:
        """The last results of a session of this scope, each with its tool, newest first.

        The runtime keeps the last 10 of each session in memory; a call that still waits has none yet.
        """
        viewer = self.principal
        session = viewer.session if session is None else session
        if session is None or viewer.session not in (None, session):
            return []
        return self._parts.last_results.newest(session, viewer.user, limit)

    def running_calls(self) -> list[InterruptibleCall]:
        """The calls of this scope's user and session that run in this process."""
        return self.environment.running.visible_to(self.principal)
