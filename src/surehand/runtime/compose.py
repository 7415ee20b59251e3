"""Composition: makes the parts of a runtime, and gives each the parts that it uses. Only `Runtime` calls it.

What calls need beyond these, `compose_calls` makes when the first call is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surehand.catalogue.catalogue import Catalogue
from surehand.core.clock import Clock, Deadlines
from surehand.core.define import InitContext
from surehand.core.events import CatalogueChanged
from surehand.core.spaces import SpaceWriter
from surehand.core.threads import HandlerThreads
from surehand.core.tool import Tool
from surehand.runtime.active_spaces import ActiveSpaces, OnNoSpace
from surehand.runtime.agents import AgentTable
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.call_loader import CallLoader
from surehand.runtime.crash_report import CrashReport
from surehand.runtime.defaults import Defaults
from surehand.runtime.durability.store_journal import ProgressReports, StoreJournal
from surehand.runtime.invocation.invocation import CallEnvironment
from surehand.runtime.invocation.object_tokens import ObjectTokens
from surehand.runtime.last_results import LastResults
from surehand.runtime.lifespans import Lifespans
from surehand.runtime.limits.breaker_table import ProviderBreakers
from surehand.runtime.limits.budget import TurnBudgets
from surehand.runtime.limits.queue_table import QueueTable
from surehand.runtime.limits.queues import Queue
from surehand.runtime.listeners import Listeners
from surehand.runtime.named_scopes import NamedScopes
from surehand.runtime.offered_tools import OfferedTools
from surehand.runtime.outputs import OversizedOutputs
from surehand.runtime.pending.wait_refusal import WaitRefusal
from surehand.runtime.pipeline.installed_middleware import Middleware, MiddlewareTable
from surehand.runtime.pipeline.result_cache import ResultCache
from surehand.runtime.pipeline.stacks import BuiltStacks, StackBuilder, StackTables
from surehand.runtime.policy import ActivePolicy, Policy
from surehand.runtime.providers import ProviderTable
from surehand.runtime.running_calls import RunningCalls
from surehand.runtime.runtime_store import RuntimeStore
from surehand.runtime.scope_parts import ScopeParts, ToolSources
from surehand.runtime.session_states import SessionStates
from surehand.runtime.stats import MemoryJournal, StatsTable

if TYPE_CHECKING:
    from surehand.runtime.pending.pending_call import Approver
    from surehand.runtime.pipeline.stages.commit import OnCommit


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """What a runtime was created with, and its parts are made from."""

    policy: Policy
    queues: Mapping[str, Queue]
    middleware: Sequence[Middleware]
    workspace: str | None
    approver: Approver | None
    spaces: SpaceWriter | None
    on_no_space: OnNoSpace
    defaults: Defaults
    crash_report: CrashReport
    keeps_journal: bool
    auto_complete: bool
    on_commit: OnCommit | None
    clock: Clock
    is_durable: bool


class RuntimeParts:
    """The parts of one runtime. Only the runtime sees all of them: every other part is given what it uses."""

    def __init__(self, options: RuntimeSettings) -> None:
        defaults = options.defaults
        clock = options.clock
        self.options = options
        self.built_stacks = BuiltStacks()
        discard_stacks = self.built_stacks.discard_all
        self.running = RunningCalls(clock)
        self.background_tasks = BackgroundTasks()
        self.threads = HandlerThreads()
        self.deadlines = Deadlines(clock)
        self.lifespans = Lifespans()
        self.listeners = Listeners()
        self.stats = StatsTable()
        self.named_scopes: NamedScopes[Any] = NamedScopes()
        self.last_results = LastResults()
        self.memory_journal = MemoryJournal() if options.keeps_journal else None
        self.wait_refusal = WaitRefusal()
        self.result_cache = ResultCache(clock)
        # With a store, calls may wait, and repetitions of them follow: stacks have other stages then.
        self.store = RuntimeStore(is_durable=options.is_durable, clock=clock, on_first_use=discard_stacks)
        self.journal = StoreJournal(self.store)
        self.policy = ActivePolicy(options.policy, on_change=discard_stacks)
        self.middleware = MiddlewareTable(options.middleware, on_change=discard_stacks)
        self.active_spaces = ActiveSpaces(
            self.store, options.spaces, options.on_no_space, on_first_entered=discard_stacks
        )
        self.queues = QueueTable(
            options.queues,
            max_concurrent=defaults.max_concurrent,
            clock=clock,
            store=self.store,
            background_tasks=self.background_tasks,
        )
        self.breakers = ProviderBreakers(defaults, clock, self.store, self.running, self.background_tasks)
        self.catalogue = Catalogue(
            on_change=_report_changes(self.listeners, discard_stacks), check=_check_added(self.queues, self.running)
        )
        self.outputs = OversizedOutputs(self.store, self.catalogue, self.threads, max_output=defaults.max_output)
        self.offered_tools = OfferedTools(self.catalogue, self.store, self.running, self.background_tasks)
        self.provider_table = self._build_provider_table(self.catalogue)
        workspace = options.workspace or os.environ.get("AGENT_WORKSPACE_ROOT") or os.getcwd()
        self.agents = AgentTable(
            self.catalogue,
            self._build_provider_table,
            self.lifespans,
            self.named_scopes,
            discard_stacks,
            InitContext(workspace),
        )
        self.environment = CallEnvironment(
            workspace=workspace,
            threads=self.threads,
            lifespans=self.lifespans,
            running=self.running,
            store=self.store,
            progress=ProgressReports(self.listeners, self.journal, clock),
            object_tokens=ObjectTokens(),
        )

    def _build_provider_table(self, catalogue: Catalogue) -> ProviderTable:
        return ProviderTable(
            catalogue,
            self.options.defaults,
            running=self.running,
            background_tasks=self.background_tasks,
            crash_report=self.options.crash_report,
        )


def build_scope_parts(parts: RuntimeParts, calls: CallLoader) -> ScopeParts:
    """Give the outermost scope of a runtime the parts that it uses."""
    builder = StackBuilder(
        parts.catalogue,
        parts.offered_tools,
        parts.provider_table,
        parts.policy,
        running=parts.running,
        load_stages=lambda: calls.load().stages,
        load_refused_calls=lambda: calls.load().refused_calls,
    )
    tool_sources = ToolSources(
        parts.catalogue,
        parts.offered_tools,
        parts.provider_table,
        parts.policy,
        parts.environment.workspace,
        parts.options.crash_report,
    )
    return ScopeParts(
        environment=parts.environment,
        tool_sources=tool_sources,
        stack_tables=StackTables(builder, parts.built_stacks),
        calls=calls,
        listeners=parts.listeners,
        stats=parts.stats,
        queues=parts.queues,
        outputs=parts.outputs,
        last_results=parts.last_results,
        turn_budgets=TurnBudgets(parts.options.defaults.max_calls_per_turn),
        session_states=SessionStates(),
        active_spaces=parts.active_spaces,
        middleware=parts.middleware,
        auto_complete=parts.options.auto_complete,
        named_scopes=parts.named_scopes,
        agents=parts.agents,
    )


def _report_changes(listeners: Listeners, discard_stacks: Callable[[], None]) -> Callable[[CatalogueChanged], None]:
    """What happens when a tool is added or removed."""

    def on_change(change: CatalogueChanged) -> None:
        discard_stacks()
        if listeners.callbacks and change != CatalogueChanged():  # else only a toolset changed
            listeners.emit(change)

    return on_change


def _check_added(queues: QueueTable, running: RunningCalls) -> Callable[[Tool[..., Any]], None]:
    """A check that raises the definition errors of a tool when it is added, not when it is called."""

    def check(tool: Tool[..., Any]) -> None:
        if running.is_open:
            tool.compile()
            if tool.limits.queue is not None:
                queues.validate_name(tool.limits.queue, tool)

    return check
