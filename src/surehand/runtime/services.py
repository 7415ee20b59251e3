"""Runtime services: everything that the stages, scopes and background tasks of one runtime share."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakSet

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.core.call import Principal
from surehand.core.clock import Clock, Deadlines
from surehand.core.errors import FailureCode
from surehand.core.events import CatalogueChanged
from surehand.core.ids import new_id
from surehand.core.invoke import RedactText
from surehand.core.names import NAMESPACE_SEPARATOR
from surehand.core.outcome import Outcome, Pending, attach_origin
from surehand.core.provider import Provider
from surehand.core.provider_abilities import AddedProvider
from surehand.core.spaces import SpaceWriter
from surehand.core.threads import HandlerThreads
from surehand.core.tool import Tool
from surehand.runtime.defaults import Defaults
from surehand.runtime.last_results import LastResults
from surehand.runtime.lifespans import Lifespans
from surehand.runtime.limits.breaker import Breaker
from surehand.runtime.limits.budget import TurnBudgets
from surehand.runtime.limits.queue_table import QueueTable
from surehand.runtime.limits.queues import Queue
from surehand.runtime.listeners import Listeners
from surehand.runtime.named_scopes import NamedScopes
from surehand.runtime.offered_tools import OfferedTools
from surehand.runtime.outputs import OversizedOutputs
from surehand.runtime.pending.call_ends import CallEnds
from surehand.runtime.pipeline.foreign_code import ForeignCodeError, run_foreign
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed
from surehand.runtime.pipeline.reaper import CANCELLATION_GRACE_SECONDS, Reaper
from surehand.runtime.pipeline.result_cache import ResultCache
from surehand.runtime.pipeline.scope_key import ObjectTokens
from surehand.runtime.pipeline.stacks import LimitedStacks, StackTable, limit_to_paths
from surehand.runtime.policy import Policy
from surehand.runtime.stats import MemoryJournal, ToolStats
from surehand.runtime.visible_calls import OnNoSpace, VisibleCalls
from surehand.store.errors import StoreUnavailable

if TYPE_CHECKING:
    from surehand.runtime.durability.journal_writer import JournalWriter
    from surehand.runtime.durability.ledger import Ledger
    from surehand.runtime.limits.shared_breaker import SharedBreaker
    from surehand.runtime.pending.pending_call import PendingCall
    from surehand.runtime.pending.pending_calls import PendingCalls
    from surehand.runtime.pending.repeated_calls import RepeatedCalls
    from surehand.runtime.pipeline.stages.middleware import Middleware
    from surehand.runtime.providers import ProviderTable
    from surehand.runtime.scope import Scope
    from surehand.store.database import Statement
    from surehand.store.store import Store
    from surehand.store.tables.journal import JournalKind

AnswerCoroutine: TypeAlias = Coroutine[Any, Any, Outcome]
Approver: TypeAlias = "Callable[[PendingCall], Awaitable[Any]]"
OnCommit: TypeAlias = Callable[[Outcome], Awaitable[object]]
"""Awaited with the outcome of a call, after it is stored and before its end is reported."""
MAX_SESSION_STATES = 10_000
"""Limit on sessions whose `Context.state` is kept; the least recently used one is dropped."""
log = logging.getLogger("surehand")


class Decisions(Protocol):
    """The functions of the module `pending.decisions`, which is loaded on first use."""

    def approve(
        self, scope: Scope, call_id: str, *, always: bool, arguments: Any, by: str | None, round: int | None = None
    ) -> AnswerCoroutine: ...
    def reject(
        self, scope: Scope, call_id: str, *, reason: str, by: str | None, round: int | None = None
    ) -> AnswerCoroutine: ...
    def settle(
        self, scope: Scope, call_id: str, result: Any, *, by: str | None, round: int | None = None
    ) -> AnswerCoroutine: ...
    def end_followers(self, scope: Scope, call_id: str) -> Coroutine[Any, Any, None]: ...
    def end_followers_of_run(self, scope: Scope, run_id: str) -> Coroutine[Any, Any, None]: ...
    def end_without_answer(
        self, scope: Scope, call_id: str, code: FailureCode, message: str, by: str | None = None
    ) -> AnswerCoroutine: ...


@dataclass(frozen=True, slots=True, eq=False)
class InstalledMiddleware:
    """Middleware of a runtime, and the tools that it is for. Each installation is removed on its own."""

    wrapper: Middleware
    tools: str = "*"
    """A glob of tool names."""

    def applies_to(self, names: Iterable[str]) -> bool:
        """Whether it is for a tool with any of these names."""
        return self.tools == "*" or any(fnmatchcase(name, self.tools) for name in names)


class RuntimeServices:
    """The shared services of one runtime; every stage that is built receives them."""

    def __init__(
        self,
        *,
        policy: Policy,
        queues: Mapping[str, Queue],
        middleware: Sequence[Middleware],
        approver: Approver | None,
        spaces: SpaceWriter | None,
        on_no_space: OnNoSpace,
        defaults: Defaults,
        clock: Clock,
        workspace: str | None,
        crash_details: bool,
        redact: RedactText | None,
        keeps_journal: bool,
        auto_complete: bool,
        on_commit: OnCommit | None,
        is_durable: bool,
    ) -> None:
        self.store: Store | None
        """The configured store, or one in memory that is opened on first use."""
        self.root_scope: Scope
        self.provider_table: ProviderTable
        """Set by the runtime, like `root_scope`."""
        self.policy = policy
        self.middleware = tuple(map(InstalledMiddleware, middleware))
        self.approver = approver
        self.defaults = defaults
        self.clock = clock
        self.turn_budgets = TurnBudgets(defaults.max_calls_per_turn)
        self.visible_calls = VisibleCalls(self, spaces, on_no_space)
        self.named_scopes = NamedScopes()
        self.unavailable_providers: dict[str, str] = {}
        """Why a provider is unavailable, by namespace."""
        self.active_providers: list[AddedProvider] = []
        self.workspace = workspace or os.environ.get("AGENT_WORKSPACE_ROOT") or os.getcwd()
        self.crash_details = crash_details
        self.redact = redact
        self.auto_complete = auto_complete
        self.on_commit = on_commit
        self.last_results = LastResults()
        self.memory_journal = MemoryJournal() if keeps_journal else None
        self.listeners = Listeners()
        self.catalogue = Catalogue(on_change=self._on_catalogue_changed, check=self.validate_tool)
        self.stats_by_tool: dict[str, ToolStats] = {}
        self.running_calls: set[Invocation] = set()
        self.call_ends = CallEnds()
        self.threads = HandlerThreads()
        self.reaper = Reaper()
        self.lifespans = Lifespans()
        self.deadlines = Deadlines(clock)
        self.result_cache = ResultCache(clock)
        self.object_tokens = ObjectTokens()
        self.is_durable = is_durable
        self.refuse_wait: Callable[[Pending], str] | None = None
        """Says why a call cannot wait, where no one could ever answer it; set by the command line."""
        self.store = None
        self.owner_id = new_id()
        """The id under which this runtime claims calls and slots in the store."""
        self.outputs = OversizedOutputs(self)
        self.journal_writer: JournalWriter | None = None
        self.queues = QueueTable(queues, self)
        self._breakers: dict[int, Breaker] = {}
        self.shared_breakers: dict[str, SharedBreaker] = {}
        """Breakers whose state all processes on the store share, by namespace."""
        self._session_states: dict[tuple[str | None, str | None], dict[str, Any]] = {}
        self.is_open = False
        self.event_loop: asyncio.AbstractEventLoop | None = None
        """The event loop that the runtime was opened on, while it is open."""
        self.stack_table = StackTable(self)
        self._stack_tables: WeakSet[StackTable] = WeakSet([self.stack_table])
        self._toolset_stack_tables: dict[tuple[str, ...], StackTable] = {}
        self.offered_tools = OfferedTools(self)
        """Tools that sessions bring for themselves."""

    def stack_table_for(self, own_catalogue: Catalogue | None, toolsets: tuple[str, ...] = ()) -> StackTable:
        """The stacks for a scope: those for its own tools live as long as the scope, all others are shared."""
        if own_catalogue is None and not toolsets:
            return self.stack_table
        if own_catalogue is None and toolsets in self._toolset_stack_tables:
            return self._toolset_stack_tables[toolsets]
        table = StackTable(self, own_catalogue, toolsets)
        self._stack_tables.add(table)
        if own_catalogue is None:
            self._toolset_stack_tables[toolsets] = table
        return table

    def refusal_reason(self, name: str) -> str | None:
        """Why a tool that exists cannot be called in this runtime; None if there is no such tool."""
        namespace, separator, short_name = name.partition(NAMESPACE_SEPARATOR)
        for added in self.active_providers:
            selective = added.abilities.selective
            if selective is not None and added.namespace == (namespace if separator else ""):
                reason = selective.refusal_reason(short_name if separator else name)
                if reason is not None:
                    return reason
        return self.catalogue.refusal_reason(name)

    def session_state(self, principal: Principal) -> dict[str, Any]:
        """The state that calls of one user and session share; moves it to the end of the eviction order."""
        key = (principal.user, principal.session)
        state = self._session_states.pop(key, {})
        self._session_states[key] = state
        while len(self._session_states) > MAX_SESSION_STATES:
            del self._session_states[next(iter(self._session_states))]
        return state

    def stack_for_call(self, invocation: Invocation) -> Proceed:
        """The stack of a call."""
        scope = invocation.scope
        is_recallable = invocation.has_given_id or invocation.is_resumed
        own_stacks = scope.stack_table.get(scope, is_recallable=is_recallable)
        paths = scope.folders.allowed_paths
        stacks = own_stacks if paths is None else LimitedStacks(own_stacks, paths)
        try:
            stack: Proceed = stacks[invocation.requested_name]
        except TypeError:  # models send values of any type as a name, even a list
            stack = stacks.refuse_unknown_tool
        return stack

    def stack_for_listing(self, listing: Listing, invocation: Invocation) -> Proceed:
        """A new stack for a listing that may no longer be in the catalogue."""
        stack = self.stack_table.get(invocation.scope, is_recallable=True).build_for(listing)
        paths = invocation.scope.folders.allowed_paths
        return stack if paths is None else limit_to_paths(stack, paths)

    def rebuild_stacks(self) -> None:
        """Drop all stacks, so that each is built again on its next call; running calls end on the old ones."""
        for table in list(self._stack_tables):
            table.clear()

    def install_middleware(self, wrapper: Middleware, tools: str) -> Callable[[], None]:
        """Add middleware inside that which is there; returns the function that removes it."""
        installed = InstalledMiddleware(wrapper, tools)

        def remove() -> None:
            self.middleware = tuple(each for each in self.middleware if each is not installed)
            self.rebuild_stacks()

        self.middleware = (*self.middleware, installed)
        self.rebuild_stacks()
        return remove

    def tool_stats(self, name: str) -> ToolStats:
        """The statistics of one tool."""
        return self.stats_by_tool.setdefault(name, ToolStats())

    def breaker_for(self, provider: Provider) -> Breaker:
        """The circuit breaker of one provider; shared by all processes if there is a durable store."""
        if (breaker := self._breakers.get(id(provider))) is not None:
            return breaker
        if self.is_durable and provider.namespace:
            breaker = self._shared_breaker_for(provider.namespace)
        else:
            breaker = Breaker(self.clock, self.defaults.breaker_failures, self.defaults.breaker_pause)
        self._breakers[id(provider)] = breaker
        return breaker

    def _shared_breaker_for(self, namespace: str) -> SharedBreaker:
        from surehand.runtime.limits.shared_breaker import SharedBreaker  # keeps the store tables off the import path

        return self.shared_breakers.setdefault(namespace, SharedBreaker(namespace, self))

    # Only calls that must be stored need the modules below: the first of them loads the store tables.

    @cached_property
    def ledger(self) -> Ledger:
        """How calls and their outcomes are recorded."""
        from surehand.runtime.durability.ledger import Ledger

        return Ledger(self)

    @cached_property
    def pending_calls(self) -> PendingCalls:
        """The pending calls."""
        from surehand.runtime.pending.pending_calls import PendingCalls

        return PendingCalls(self)

    @cached_property
    def repeated_calls(self) -> RepeatedCalls:
        """Recognises calls that repeat one that waits."""
        from surehand.runtime.pending.repeated_calls import RepeatedCalls

        return RepeatedCalls(self)

    @cached_property
    def decisions(self) -> Decisions:
        """How pending calls are answered."""
        from surehand.runtime.pending import decisions

        return decisions

    async def open_store(self) -> Store:
        """The configured store, or one in memory, which is opened on first use."""
        if self.store is None:
            if self.is_durable:
                raise StoreUnavailable("The store is closed.")
            from surehand.store.store import Store  # keeps sqlite3 off the path of plain calls

            self.store = await Store.open(":memory:", now=self.clock.time)
            self.rebuild_stacks()  # from now on calls may wait, and repetitions of them follow
        return self.store

    async def has_grant(self, principal: Principal, grant_key: str) -> bool:
        """Whether the user has a standing approval, in this session, for what the key says."""
        return self.store is not None and await self.store.grants.has(
            principal.user, grant_key, session=principal.session
        )

    async def recover_dead_runtimes(self) -> bool:
        """Release the calls of dead runtimes; true if the effect of any is unknown. Replaced where there is a store."""
        return False

    def expire_overdue_calls(self) -> None:
        """End the pending calls whose time is up. Replaced by the runtime."""

    async def commit(self, invocation: Invocation, outcome: Outcome) -> None:
        """Await `on_commit` with the outcome of a call that has ended; its errors do not change the outcome."""
        if self.on_commit is None or isinstance(outcome, Pending):
            return
        attach_origin(outcome, invocation)
        try:
            await run_foreign(self.reaper, self.on_commit, outcome)
        except ForeignCodeError as error:
            log.error("on_commit raised for a call of %s", invocation.tool_name, exc_info=error.original)

    async def write_progress(self, invocation: Invocation) -> None:
        """Write the progress of a call that is not in its streams yet: its end or its question comes after it."""
        if invocation.has_streamed_progress and self.journal_writer is not None:
            await self.journal_writer.flush()
            invocation.has_streamed_progress = False

    def journal_statements(self, invocation: Invocation, kind: JournalKind, status: str) -> list[Statement]:
        """Statements that add an entry to the store's journal, and an event to the stream of the call's run."""
        assert self.store is not None
        principal = invocation.principal
        call_id = invocation.id
        tool = invocation.tool_name
        latency_ms = invocation.elapsed_seconds() * 1000
        entry = self.store.journal.entry_statement(
            kind,
            call_id,
            tool,
            status,
            latency_ms=latency_ms,
            identity=invocation.identity,
        )
        if principal.turn is None:
            return [entry]
        events = self.store.streams.call_event_statements(principal.turn, kind, call_id, tool, status, latency_ms)
        return [entry, *events]

    def is_closed(self) -> bool:
        """Whether the runtime has been closed; a method, because it may change during an await."""
        return not self.is_open

    async def wait_for_running_calls(self) -> None:
        """Wait until the interrupted calls have ended, but at most four times the grace period."""
        waited = 0.0
        while self.running_calls and waited < 4 * CANCELLATION_GRACE_SECONDS:
            await asyncio.sleep(CANCELLATION_GRACE_SECONDS / 50 if waited else 0)
            waited += CANCELLATION_GRACE_SECONDS / 50
        for invocation in list(self.running_calls):
            log.warning(
                "The call of %s is still running although it was cancelled; it is cancelled again.",
                invocation.tool_name,
            )
            invocation.interrupt("cancelled", f"{invocation.tool_name} was cancelled: the runtime closed.")
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Stop timers, background tasks and handler threads."""
        if self.store is not None:
            self.pending_calls.cancel_expiry_timer()
        self.call_ends.close()
        self.deadlines.close()
        self.queues.close()
        await self.reaper.close()
        self.threads.close()

    def validate_tool(self, tool: Tool[..., Any]) -> None:
        """Raise the definition errors of a tool when it is added, not when it is called."""
        if self.is_open:
            tool.compile()
            if tool.limits.queue is not None:
                self.queues.validate_name(tool.limits.queue, tool)

    def _on_catalogue_changed(self, change: CatalogueChanged) -> None:
        self.rebuild_stacks()
        if self.listeners.callbacks and change != CatalogueChanged():  # else only a toolset changed
            self.listeners.emit(change)
