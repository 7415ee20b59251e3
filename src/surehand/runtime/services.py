"""Parts: what the stages of a runtime are built from."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
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
from surehand.core.invoke import Redactor
from surehand.core.outcome import Outcome
from surehand.core.provider import Provider
from surehand.core.spaces import SpaceWriter
from surehand.core.threads import HandlerThreads
from surehand.core.tool import Tool
from surehand.runtime.defaults import Defaults
from surehand.runtime.lifespans import Lifespans
from surehand.runtime.limits.breaker import Breaker
from surehand.runtime.limits.budget import TurnBudgets
from surehand.runtime.limits.queue_table import QueueTable
from surehand.runtime.limits.queues import Queue
from surehand.runtime.listeners import Listeners
from surehand.runtime.outputs import OversizedOutputs
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed
from surehand.runtime.pipeline.reaper import CANCELLATION_GRACE_SECONDS, Reaper
from surehand.runtime.pipeline.result_cache import ResultCache
from surehand.runtime.pipeline.stacks import StackTable
from surehand.runtime.policy import Policy
from surehand.runtime.stats import MemoryJournal, ToolStats
from surehand.runtime.visible_calls import VisibleCalls
from surehand.store.errors import StoreUnavailable

if TYPE_CHECKING:
    from surehand.runtime.durability.journal_writer import JournalWriter
    from surehand.runtime.durability.ledger import Ledger
    from surehand.runtime.limits.shared_breaker import SharedBreaker
    from surehand.runtime.pending.pending_call import PendingCall
    from surehand.runtime.pending.pending_calls import PendingCalls
    from surehand.runtime.pipeline.stages.middleware import Middleware
    from surehand.runtime.providers import ProviderTable
    from surehand.runtime.scope import Scope
    from surehand.store.database import Statement
    from surehand.store.store import Store
    from surehand.store.tables.journal import JournalKind

AnswerCoroutine: TypeAlias = Coroutine[Any, Any, Outcome]
Approver: TypeAlias = "Callable[[PendingCall], Awaitable[Any]]"
MAX_SESSION_STATES = 10_000
"""Sessions whose state is kept."""
log = logging.getLogger("surehand")


class Decisions(Protocol):
    """The verbs of `settle`."""

    def approve(
        self, scope: Scope, call_id: str, *, always: bool, arguments: Any, by: str | None, round: int | None = None
    ) -> AnswerCoroutine: ...
    def reject(
        self, scope: Scope, call_id: str, *, reason: str, by: str | None, round: int | None = None
    ) -> AnswerCoroutine: ...
    def settle(
        self, scope: Scope, call_id: str, result: Any, *, by: str | None, round: int | None = None
    ) -> AnswerCoroutine: ...
    def end_without_answer(
        self, scope: Scope, call_id: str, code: FailureCode, message: str, by: str | None = None
    ) -> AnswerCoroutine: ...


class RuntimeServices:
    """Made once per runtime, and handed to every stage that is built."""

    def __init__(
        self,
        *,
        policy: Policy,
        queues: Mapping[str, Queue],
        middleware: Sequence[Middleware],
        approver: Approver | None,
        spaces: SpaceWriter | None,
        defaults: Defaults,
        clock: Clock,
        workspace: str | None,
        crash_details: bool,
        redact: Redactor | None,
        keeps_journal: bool,
        auto_complete: bool,
        is_durable: bool,
    ) -> None:
        self.store: Store | None
        """What is remembered; opened on first need where no store was asked for."""
        self.root_scope: Scope
        self.provider_table: ProviderTable
        """The providers; this and the outermost scope are made by the runtime."""
        self.policy, self.middleware, self.approver = policy, tuple(middleware), approver
        self.defaults, self.clock = defaults, clock
        self.turn_budgets = TurnBudgets(defaults.max_calls_per_turn)
        self.visible_calls = VisibleCalls(self, spaces)
        self.unavailable_providers: dict[str, str] = {}
        """Why a provider is not there, by its namespace."""
        self.active_providers: list[Provider] = []
        self.workspace = workspace or os.environ.get("AGENT_WORKSPACE_ROOT") or os.getcwd()
        self.crash_details, self.redact, self.auto_complete = crash_details, redact, auto_complete
        self.memory_journal = MemoryJournal() if keeps_journal else None
        self.listeners = Listeners()
        self.catalogue = Catalogue(on_change=self._on_catalogue_changed, check=self.validate_tool)
        self.stats_by_tool: dict[str, ToolStats] = {}
        self.running_calls: set[Invocation] = set()
        self.threads, self.reaper, self.lifespans = HandlerThreads(), Reaper(), Lifespans()
        self.deadlines, self.result_cache = Deadlines(clock), ResultCache(clock)
        self.is_durable, self.store = is_durable, None
        self.owner_id = new_id()
        """Under which name this runtime claims calls."""
        self.outputs = OversizedOutputs(self)
        self.journal_writer: JournalWriter | None = None
        self.queues = QueueTable(queues, self)
        self._breakers: dict[int, Breaker] = {}
        self.shared_breakers: dict[str, SharedBreaker] = {}
        """Of the providers whose health all processes on the store share, by namespace."""
        self._session_states: dict[tuple[str | None, str | None], dict[str, Any]] = {}
        self.is_open = False
        self.event_loop: asyncio.AbstractEventLoop | None = None
        """The event loop that the runtime lives on, while it is open."""
        self.stack_table = StackTable(self)
        self._stack_tables: WeakSet[StackTable] = WeakSet([self.stack_table])

    def stack_table_for(self, own_catalogue: Catalogue) -> StackTable:
        """Stacks for a scope that brings tools of its own; they live as long as the scope."""
        made = StackTable(self, own_catalogue)
        self._stack_tables.add(made)
        return made

    def session_state(self, principal: Principal) -> dict[str, Any]:
        """What the calls of a user's session leave for later ones; the session that is longest gone makes room."""
        state = self._session_states[principal.user, principal.session] = self._session_states.pop(
            (principal.user, principal.session), {}
        )
        while len(self._session_states) > MAX_SESSION_STATES:
            del self._session_states[next(iter(self._session_states))]
        return state

    def stack_for_call(self, invocation: Invocation) -> Proceed:
        """The stack that a call goes through."""
        scope = invocation.scope
        stacks = scope.stack_table.get(scope, is_recallable=invocation.has_given_id or invocation.is_resumed)
        try:
            return stacks[invocation.requested_name]
        except TypeError:  # models send anything, a list for a name too
            return stacks.refuse_unknown_tool

    def stack_for_listing(self, listing: Listing, invocation: Invocation) -> Proceed:
        """The stack of a listing that may have left the catalogue."""
        return self.stack_table.get(invocation.scope, is_recallable=True).build_for(listing)

    def rebuild_stacks(self) -> None:
        """Build stacks anew when next needed; running calls end on the old ones."""
        for table in list(self._stack_tables):
            table.clear()

    def tool_stats(self, name: str) -> ToolStats:
        """The statistics of one tool."""
        return self.stats_by_tool.setdefault(name, ToolStats())

    def breaker_for(self, provider: Provider) -> Breaker:
        """The health of one provider."""
        if id(provider) not in self._breakers:
            limits = self.defaults
            self._breakers[id(provider)] = (
                self._shared_breaker_for(provider.namespace)
                if self.is_durable and provider.namespace
                else Breaker(self.clock, limits.breaker_failures, limits.breaker_pause)
            )
        return self._breakers[id(provider)]

    def _shared_breaker_for(self, namespace: str) -> SharedBreaker:
        from surehand.runtime.limits.shared_breaker import SharedBreaker  # loaded by those alone who have a store

        return self.shared_breakers.setdefault(namespace, SharedBreaker(namespace, self))

    # What only calls need that must be remembered is loaded by the first of them.

    @cached_property
    def ledger(self) -> Ledger:
        """How calls are remembered."""
        from surehand.runtime.durability.ledger import Ledger

        return Ledger(self)

    @cached_property
    def pending_calls(self) -> PendingCalls:
        """The calls that wait."""
        from surehand.runtime.pending.pending_calls import PendingCalls

        return PendingCalls(self)

    @cached_property
    def decisions(self) -> Decisions:
        """How waiting calls are answered."""
        from surehand.runtime.pending import decisions as settle

        return settle

    async def open_store(self) -> Store:
        """The store that was asked for, or one in memory, made when something must first be remembered."""
        if self.store is None:
            if self.is_durable:
                raise StoreUnavailable("The store is closed.")
            from surehand.store.store import Store  # a plain call remembers nothing, and never loads this

            self.store = await Store.open(":memory:", now=self.clock.time)
        return self.store

    async def has_grant(self, user: str | None, grant_key: str) -> bool:
        """Whether there is a standing approval."""
        return self.store is not None and await self.store.grants.has(user, grant_key)

    async def recover_dead_runtimes(self) -> bool:
        """Give away what runtimes had begun that are gone; true if there were any such calls."""
        return False

    def expire_overdue_calls(self) -> None:
        """End the waits whose time is up. Replaced by the runtime, which knows how to."""

    def journal_statements(self, invocation: Invocation, kind: JournalKind, status: str) -> list[Statement]:
        """A line for the journal of the store, and for the stream of its run."""
        assert self.store is not None
        who, call_id, tool, took = (
            invocation.principal,
            invocation.id,
            invocation.tool_name,
            invocation.elapsed_seconds() * 1000,
        )
        line = self.store.journal.entry_statement(
            kind, call_id, tool, status, user=who.user, session=who.session, parent=invocation.parent, latency_ms=took
        )
        if who.turn is None:
            return [line]
        return [line, *self.store.streams.call_event_statements(who.turn, kind, call_id, tool, status, took)]

    def is_closed(self) -> bool:
        """Whether it has ended since."""
        return not self.is_open

    async def wait_for_running_calls(self) -> None:
        """Wait until every interrupted call has let go, but no longer than a stubborn one deserves."""
        waited = 0.0
        while self.running_calls and waited < 4 * CANCELLATION_GRACE_SECONDS:
            await asyncio.sleep(CANCELLATION_GRACE_SECONDS / 50 if waited else 0)
            waited += CANCELLATION_GRACE_SECONDS / 50
        for invocation in list(self.running_calls):
            log.warning("%s does not let go of its cancelled call.", invocation.tool_name)
            invocation.interrupt("cancelled", f"{invocation.tool_name} was cancelled: the runtime closed.")
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Let go of threads, timers and stubborn handlers."""
        if self.store is not None:
            self.pending_calls.cancel_expiry_timer()
        self.deadlines.close()
        self.queues.close()
        await self.reaper.close()
        self.threads.close()

    def validate_tool(self, tool: Tool[..., Any]) -> None:
        """What would fail at call time fails here, at add time."""
        if self.is_open:
            tool.compile()
            if tool.limits.queue is not None:
                self.queues.validate_name(tool.limits.queue, tool)

    def _on_catalogue_changed(self, change: CatalogueChanged) -> None:
        self.rebuild_stacks()
        if self.listeners.callbacks:
            self.listeners.emit(change)
