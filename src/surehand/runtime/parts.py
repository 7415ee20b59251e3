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
from surehand.core.errors import Code
from surehand.core.events import CatalogueChanged
from surehand.core.ids import new_id
from surehand.core.invoke import Redact
from surehand.core.outcome import Outcome
from surehand.core.provider import Provider
from surehand.core.spaces import Spaces
from surehand.core.threads import Threads
from surehand.core.tool import Tool
from surehand.runtime.breaker import Breaker
from surehand.runtime.defaults import Defaults
from surehand.runtime.invocation import Invocation
from surehand.runtime.lines import Lines
from surehand.runtime.listeners import Listeners
from surehand.runtime.mounts import Mounts
from surehand.runtime.outputs import Outputs
from surehand.runtime.pipeline import Proceed
from surehand.runtime.policy import Policy
from surehand.runtime.queues import Queue
from surehand.runtime.reaper import GRACE, Reaper
from surehand.runtime.results import Results
from surehand.runtime.shown import Shown
from surehand.runtime.stacks import StackTable
from surehand.runtime.stats import Journal, ToolStats
from surehand.store.errors import StoreUnavailable

if TYPE_CHECKING:
    from surehand.runtime.ledger import Ledger
    from surehand.runtime.logbook import Logbook
    from surehand.runtime.roster import Roster
    from surehand.runtime.scope import Scope
    from surehand.runtime.shared_breaker import SharedBreaker
    from surehand.runtime.stages.middleware import Middleware
    from surehand.runtime.waiting import WaitingCall
    from surehand.runtime.waits import Waits
    from surehand.store.database import Statement
    from surehand.store.journal import Kind
    from surehand.store.store import Store

Answering: TypeAlias = Coroutine[Any, Any, Outcome]
Approver: TypeAlias = "Callable[[WaitingCall], Awaitable[Any]]"
SESSIONS = 10_000
"""Sessions whose state is kept."""
log = logging.getLogger("surehand")


class Answers(Protocol):
    """The verbs of `settle`."""

    def approve(
        self, scope: Scope, call_id: str, *, always: bool, arguments: Any, by: str | None, round: int | None = None
    ) -> Answering: ...
    def reject(
        self, scope: Scope, call_id: str, *, reason: str, by: str | None, round: int | None = None
    ) -> Answering: ...
    def settle(
        self, scope: Scope, call_id: str, result: Any, *, by: str | None, round: int | None = None
    ) -> Answering: ...
    def close(self, scope: Scope, call_id: str, code: Code, message: str, by: str | None = None) -> Answering: ...


class Parts:
    """Made once per runtime, and handed to every stage that is built."""

    def __init__(
        self,
        *,
        policy: Policy,
        queues: Mapping[str, Queue],
        middleware: Sequence[Middleware],
        approver: Approver | None,
        spaces: Spaces | None,
        defaults: Defaults,
        clock: Clock,
        workspace: str | None,
        crash_details: bool,
        redact: Redact | None,
        journal: bool,
        auto_complete: bool,
        durable: bool,
    ) -> None:
        self.store: Store | None
        """What is remembered; opened on first need where no store was asked for."""
        self.root: Scope
        self.roster: Roster
        """The providers; this and the outermost scope are made by the runtime."""
        self.policy, self.middleware, self.approver = policy, tuple(middleware), approver
        self.defaults, self.clock = defaults, clock
        self.shown = Shown(self, spaces)
        self.left_out: dict[str, str] = {}
        """Why a provider is not there, by its namespace."""
        self.providers: list[Provider] = []
        self.workspace = workspace or os.environ.get("AGENT_WORKSPACE_ROOT") or os.getcwd()
        self.crash_details, self.redact, self.auto_complete = crash_details, redact, auto_complete
        self.journal = Journal() if journal else None
        self.listeners = Listeners()
        self.catalogue = Catalogue(on_change=self._changed, check=self.check)
        self.counters: dict[str, ToolStats] = {}
        self.running: set[Invocation] = set()
        self.threads, self.reaper, self.mounts = Threads(), Reaper(), Mounts()
        self.deadlines, self.results = Deadlines(clock), Results(clock)
        self.durable, self.store = durable, None
        self.owner = new_id()
        """Under which name this runtime claims calls."""
        self.outputs = Outputs(self)
        self.logbook: Logbook | None = None
        self.lines = Lines(queues, self)
        self._breakers: dict[int, Breaker] = {}
        self.shared_breakers: dict[str, SharedBreaker] = {}
        """Of the providers whose health all processes on the store share, by namespace."""
        self._states: dict[tuple[str | None, str | None], dict[str, Any]] = {}
        self.open = False
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that the runtime lives on, while it is open."""
        self.table = StackTable(self)
        self._tables: WeakSet[StackTable] = WeakSet([self.table])

    def table_for(self, own: Catalogue) -> StackTable:
        """Stacks for a scope that brings tools of its own; they live as long as the scope."""
        made = StackTable(self, own)
        self._tables.add(made)
        return made

    def state_of(self, who: Principal) -> dict[str, Any]:
        """What the calls of a user's session leave for later ones; the session that is longest gone makes room."""
        state = self._states[who.user, who.session] = self._states.pop((who.user, who.session), {})
        while len(self._states) > SESSIONS:
            del self._states[next(iter(self._states))]
        return state

    def stack_for(self, invocation: Invocation) -> Proceed:
        """The stack that a call goes through."""
        scope = invocation.scope
        stacks = scope.table.get(scope, recallable=invocation.given or invocation.resumed)
        try:
            return stacks[invocation.name]
        except TypeError:  # models send anything, a list for a name too
            return stacks.unknown

    def stack_of(self, listing: Listing, invocation: Invocation) -> Proceed:
        """The stack of a listing that may have left the catalogue."""
        return self.table.get(invocation.scope, recallable=True).of(listing)

    def rebuild(self) -> None:
        """Build stacks anew when next needed; running calls end on the old ones."""
        for table in list(self._tables):
            table.clear()

    def counter(self, name: str) -> ToolStats:
        """The statistics of one tool."""
        return self.counters.setdefault(name, ToolStats())

    def breaker_of(self, provider: Provider) -> Breaker:
        """The health of one provider."""
        if id(provider) not in self._breakers:
            limits = self.defaults
            self._breakers[id(provider)] = (
                self._shared_breaker(provider.namespace)
                if self.durable and provider.namespace
                else Breaker(self.clock, limits.breaker_failures, limits.breaker_pause)
            )
        return self._breakers[id(provider)]

    def _shared_breaker(self, namespace: str) -> SharedBreaker:
        from surehand.runtime.shared_breaker import SharedBreaker  # loaded by those alone who have a store

        return self.shared_breakers.setdefault(namespace, SharedBreaker(namespace, self))

    # What only calls need that must be remembered is loaded by the first of them.

    @cached_property
    def ledger(self) -> Ledger:
        """How calls are remembered."""
        from surehand.runtime.ledger import Ledger

        return Ledger(self)

    @cached_property
    def waits(self) -> Waits:
        """The calls that wait."""
        from surehand.runtime.waits import Waits

        return Waits(self)

    @cached_property
    def answers(self) -> Answers:
        """How waiting calls are answered."""
        from surehand.runtime import settle

        return settle

    async def remembered(self) -> Store:
        """The store that was asked for, or one in memory, made when something must first be remembered."""
        if self.store is None:
            if self.durable:
                raise StoreUnavailable("The store is closed.")
            from surehand.store.store import Store  # a plain call remembers nothing, and never loads this

            self.store = await Store.open(":memory:", now=self.clock.time)
        return self.store

    async def granted(self, user: str | None, tool: str) -> bool:
        """Whether there is a standing approval."""
        return self.store is not None and await self.store.grants.has(user, tool)

    async def bury(self) -> bool:
        """Give away what runtimes had begun that are gone; true if there were any such calls."""
        return False

    def sweep(self) -> None:
        """End the waits whose time is up. Replaced by the runtime, which knows how to."""

    def entry(self, invocation: Invocation, kind: Kind, status: str) -> list[Statement]:
        """A line for the journal of the store, and for the stream of its run."""
        assert self.store is not None
        who, call_id, tool, took = (
            invocation.principal,
            invocation.id,
            invocation.tool_name,
            invocation.elapsed() * 1000,
        )
        line = self.store.journal.entry(
            kind, call_id, tool, status, user=who.user, session=who.session, parent=invocation.parent, latency_ms=took
        )
        if who.turn is None:
            return [line]
        return [line, *self.store.streams.of_call(who.turn, kind, call_id, tool, status, took)]

    def closed(self) -> bool:
        """Whether it has ended since."""
        return not self.open

    async def settled(self) -> None:
        """Wait until every interrupted call has let go, but no longer than a stubborn one deserves."""
        waited = 0.0
        while self.running and waited < 4 * GRACE:
            await asyncio.sleep(GRACE / 50 if waited else 0)
            waited += GRACE / 50
        for invocation in list(self.running):
            log.warning("%s does not let go of its cancelled call.", invocation.tool_name)
            invocation.interrupt("cancelled", f"{invocation.tool_name} was cancelled: the runtime closed.")
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Let go of threads, timers and stubborn handlers."""
        if self.store is not None:
            self.waits.unwatch()
        self.deadlines.close()
        self.lines.close()
        await self.reaper.close()
        self.threads.close()

    def check(self, tool: Tool[..., Any]) -> None:
        """What would fail at call time fails here, at add time."""
        if self.open:
            tool.compile()
            if tool.limits.queue is not None:
                self.lines.check(tool.limits.queue, tool)

    def _changed(self, change: CatalogueChanged) -> None:
        self.rebuild()
        if self.listeners.heard:
            self.listeners.emit(change)
