"""Scope: the public verbs for calling tools and answering calls, for one user, session or turn.

The runtime itself is the outermost scope.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from surehand.catalogue.catalogue import Catalogue
from surehand.core.call import Arguments, Call, CallIdentity, Principal, ScopeFolders, caller_fields
from surehand.core.context import Context
from surehand.core.events import CallEnded, CatalogueChanged, Event, Listener, Missed
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.call_options import (
    PRINCIPAL_FIELDS,
    CallerContext,
    absolute_path,
    parse_timeout,
    principal_fields_of,
    validate_principal_fields,
    validate_priority,
)
from surehand.runtime.invocation.invocation import CallEnvironment, CallScope, Invocation, NextStage
from surehand.runtime.limits.budget import Budget, TurnBudgets
from surehand.runtime.listeners import EventBuffer, Listeners, stream_events
from surehand.runtime.named_scopes import name_scope
from surehand.runtime.pipeline.stacks import LimitedStacks, Stacks, StackTables, limit_to_paths
from surehand.runtime.scope_tools import ScopeTools, ToolSources
from surehand.runtime.stats import Stats, StatsTable

if TYPE_CHECKING:
    from surehand.catalogue.describe import ToolDescriptions
    from surehand.catalogue.listing import Listing
    from surehand.core.clock import Clock
    from surehand.core.tool import Tool
    from surehand.runtime.active_spaces import ActiveSpaces
    from surehand.runtime.agents import AgentTable
    from surehand.runtime.call_loader import CallLoader
    from surehand.runtime.last_results import LastResults
    from surehand.runtime.limits.queue_table import QueueTable
    from surehand.runtime.limits.queues import QueueStatus
    from surehand.runtime.named_scopes import NamedScopes
    from surehand.runtime.outputs import OversizedOutputs
    from surehand.runtime.pending.pending_call import Approver, PendingCall
    from surehand.runtime.pending.status import CallStatus
    from surehand.runtime.policy import Policy
    from surehand.runtime.running_calls import InterruptibleCall
    from surehand.runtime.session_states import SessionStates
    from surehand.runtime.sources import AgentSource
    from surehand.store.store import Store
    from surehand.store.tables.grants import Grant
    from surehand.store.tables.inbox import InboxEvent
    from surehand.store.tables.pending import PendingRound

T = TypeVar("T")
_new_object = object.__new__
_NO_TOOL = CallIdentity()[:4]
_NO_FOLDERS = ScopeFolders()


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
    auto_complete: bool
    named_scopes: NamedScopes[Any]
    agents: AgentTable


class Scope:
    """A view of a runtime: for which principal calls are made, which values and tools they use, and their budget."""

    def __init__(
        self,
        parts: ScopeParts,
        principal: Principal,
        *,
        values: tuple[Any, ...] = (),
        budget: Budget | None = None,
        state: dict[str, Any] | None = None,
        own_catalogue: Catalogue | None = None,
        toolsets: tuple[str, ...] = (),
        priority: int | None = None,
        folders: ScopeFolders = _NO_FOLDERS,
    ) -> None:
        self._parts = parts
        self._tools = ScopeTools(parts.tool_sources, principal, own_catalogue, toolsets)
        self.environment = parts.environment
        self.principal = principal
        self.budget = budget
        self.offered_values = values
        """What this scope and the outer ones offer to `use(...)`, the nearest first."""
        self.own_catalogue = own_catalogue
        """The tools that this scope and the outer ones have for themselves (`scope(tools=...)`)."""
        self.priority = priority
        """Priority of this scope's calls in their queues; None takes that of the tool."""
        self.toolsets = toolsets
        """Toolsets that a tool of the runtime must belong to, each of them, to be called in this scope."""
        self.folders = folders
        self.host_space = principal.space
        """The space that the host made active; `principal.space` differs from it where the agent entered another."""
        self.scope_in_entered_space: CallScope | None = None
        """The same scope in the space that its agent entered, once a call was made there."""
        self.approver: Approver | None = None
        """Asked about pending calls of this scope before the runtime's own approver."""
        self.scope_name: str | None = None
        """The name by which other processes build the same scope again, see `named_scopes`."""
        self.base_scope: Scope | None = None
        """The scope that was narrowed to an agent's tools, for the scope of an agent's run."""
        self.has_session = principal.session is not None
        self.principal_fields: dict[str, str | None] = {name: getattr(principal, name) for name in PRINCIPAL_FIELDS}
        """The principal, as fields of a `Call`."""
        self.caller_fields = caller_fields(principal)
        """The principal, as fields of an event."""
        self.state = parts.session_states.get(principal) if state is None else state
        self._stack_table = parts.stack_tables.for_scope(own_catalogue, toolsets)
        self._stacks: Stacks | LimitedStacks = self._stack_table.get(self, is_recallable=False)
        if folders.allowed_paths is not None:
            self._stacks = LimitedStacks(self._stacks, folders.allowed_paths)

    # Calling

    def call(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        timeout: float | str | None = None,
        call_id: str | None = None,
        context: CallerContext | None = None,
    ) -> Coroutine[Any, Any, Outcome]:
        """Run a tool and return Done, Failed or Pending. Raises only when the caller itself is cancelled.

        Args:
            context: the caller's own context: fields such as `session` and `agent`, or the `Context` of a call that
                this one is nested in.
        """
        # Not `async def`: the caller awaits the stack's own coroutine, and one layer less saves a tenth of a call.
        # Without `__init__`, which would cost as much as the rest of this method.
        invocation = _new_object(Invocation)
        invocation.scope = self
        invocation.requested_name = name
        invocation.raw_arguments = arguments
        if timeout is None and call_id is None and context is None:
            try:
                stack = self._stacks[name]
            except TypeError:  # models send values of any type as a name, even a list
                stack = self._stacks.refuse_unknown_tool
            return stack(invocation)
        try:
            invocation.caller_timeout = parse_timeout(timeout)
            self._apply_caller_context(invocation, context)
        except (TypeError, ValueError) as error:
            return self._refuse_invalid_option(invocation, error)
        if call_id is not None:
            invocation.assigned_id = call_id
            invocation.has_given_id = True
        return self.stack_for_call(invocation)(invocation)

    def _apply_caller_context(self, invocation: Invocation, context: object) -> None:
        """Make a call on behalf of the caller's context; raises `TypeError` for what is no context."""
        if context is None:
            return
        if isinstance(context, Context):
            invocation.parent = context.call_id
        invocation.scope = self._scope_with_fields(principal_fields_of(context))

    def _scope_with_fields(self, fields: dict[str, Any]) -> Scope:
        """A scope with further fields of a principal; they cannot change the user or session of this one."""
        for name in ("user", "session"):
            if getattr(self.principal, name) is not None:
                fields.pop(name, None)
        return self.scope(**fields) if fields else self

    def _refuse_invalid_option(self, invocation: Invocation, problem: Exception) -> Coroutine[Any, Any, Outcome]:
        """Count, journal and report a call whose timeout, context or priority is invalid."""
        return self._parts.calls.load().refused_calls.refuse_invalid_option(invocation, problem)

    def stack_for_call(self, invocation: Invocation) -> NextStage:
        """The stack that runs a call of this scope."""
        scope = invocation.scope
        if scope is not self:
            return scope.stack_for_call(invocation)
        is_recallable = invocation.has_given_id or invocation.is_resumed
        own_stacks = self._stack_table.get(self, is_recallable=is_recallable)
        paths = self.folders.allowed_paths
        stacks = own_stacks if paths is None else LimitedStacks(own_stacks, paths)
        try:
            stack: NextStage = stacks[invocation.requested_name]
        except TypeError:  # models send values of any type as a name, even a list
            stack = stacks.refuse_unknown_tool
        return stack

    def stack_for_listing(self, listing: Listing, invocation: Invocation) -> NextStage:
        """A new stack for a listing that may no longer be in the catalogue."""
        stack = self._parts.stack_tables.shared.get(self, is_recallable=True).build_for(listing)
        paths = self.folders.allowed_paths
        return stack if paths is None else limit_to_paths(stack, paths)

    async def call_many(self, calls: Iterable[Call]) -> list[Outcome]:
        """Run calls in parallel; the outcomes are in the order of the calls."""
        siblings: dict[str, list[str]] = {}
        return await asyncio.gather(*(self._run_call(call, siblings) for call in calls))

    async def _run_call(self, call: Call, siblings: dict[str, list[str]]) -> Outcome:
        try:
            invocation = self._build_invocation(call)
        except TypeError as error:
            return await self._refuse_invalid_option(Invocation(self, call.tool, call.arguments), error)
        invocation.siblings = siblings
        return await self.stack_for_call(invocation)(invocation)

    def _build_invocation(self, call: Call) -> Invocation:
        """Convert a `Call` to an invocation in a scope with its principal."""
        fields = {name: value for name in PRINCIPAL_FIELDS if (value := getattr(call, name)) is not None}
        invocation = Invocation(self._scope_with_fields(fields), call.tool, call.arguments)
        invocation.parent = call.parent
        invocation.model_id = call.model_id
        invocation.priority = None if call.priority is None else validate_priority(call.priority)
        if call.id is not None:
            invocation.assigned_id = call.id
            invocation.has_given_id = True
        return invocation

    async def dispatch(self, name: str, arguments: Arguments = None, *, timeout: float | str | None = None) -> Outcome:
        """Run any tool by name or alias for a person; validation, policy and confirmation apply."""
        invocation = Invocation(self, name, arguments)
        invocation.is_dispatched = True
        try:
            invocation.caller_timeout = parse_timeout(timeout)
        except (TypeError, ValueError) as error:
            return await self._refuse_invalid_option(invocation, error)
        return await self.stack_for_call(invocation)(invocation)

    async def stream(
        self, name: str, arguments: Arguments = None, *, timeout: float | str | None = None
    ) -> AsyncIterator[Event]:
        """Run a tool and yield its events; the last is `CallEnded`. Leaving the loop cancels the call."""
        invocation = Invocation(self, name, arguments)
        try:
            invocation.caller_timeout = parse_timeout(timeout)
            run = self.stack_for_call(invocation)(invocation)
        except (TypeError, ValueError) as error:
            run = self._refuse_invalid_option(invocation, error)
        buffer = EventBuffer()
        call_id = invocation.id
        unsubscribe = self._parts.listeners.listen(
            lambda event: buffer.put(event) if getattr(event, "call_id", None) == call_id else None
        )
        task = asyncio.create_task(run)
        try:
            while True:
                event = await _next_event(buffer, task, invocation)
                yield event
                if isinstance(event, CallEnded):
                    return
        finally:
            unsubscribe()
            task.cancel()
            await asyncio.wait({task})

    # Answering

    async def approve(
        self,
        call_id: str,
        *,
        always: bool = False,
        arguments: Mapping[str, Any] | None = None,
        by: str | None = None,
        round: int | None = None,
    ) -> Outcome:
        """Let a pending call run, optionally with edited arguments; returns its outcome.

        With `round`, the answer counts only for that question of the call: `conflict` if another one is open.
        """
        answers = self._parts.calls.load().answers
        return await answers.approve(self.principal, call_id, always=always, arguments=arguments, by=by, round=round)

    async def reject(
        self, call_id: str, reason: str = "", *, by: str | None = None, round: int | None = None
    ) -> Outcome:
        """End a pending call without running it; returns its outcome. `round` is as in `approve`."""
        return await self._parts.calls.load().answers.reject(self.principal, call_id, reason=reason, by=by, round=round)

    async def settle(
        self, call_id: str, result: Any = None, *, by: str | None = None, round: int | None = None
    ) -> Outcome:
        """Answer a pending call with a value, a Done or a Failed; returns its outcome. `round` is as in `approve`."""
        return await self._parts.calls.load().answers.settle(self.principal, call_id, result, by=by, round=round)

    async def pending(self, *, limit: int | None = None, after: str | None = None) -> list[PendingCall]:
        """The pending calls of this scope's user and session, oldest first: all, or a page.

        Args:
            after: the `cursor` of the last call of the page before.
        """
        return await self._parts.calls.load().pending_calls.list_for(self.principal, limit=limit, after=after)

    async def status(self, call_id: str) -> CallStatus | None:
        """The status of a call that was given an id or has been pending; None for any other call."""
        return await self._parts.calls.load().statuses.find(call_id, self.principal)

    async def questions(self, call_id: str) -> list[PendingRound]:
        """The questions that a call has asked so far, oldest first, with their answers; none for an unknown call."""
        row = await self._parts.calls.load().pending_calls.find(call_id, self.principal)
        return [] if row is None else list(row.rounds)

    async def result(self, call_id: str, timeout: float | str | None = None) -> Outcome:
        """Wait for the end of a call, in whatever process it runs, and return its outcome.

        When `timeout` is over, the Pending; `not_found` for an id that this scope does not know.
        """
        try:
            seconds = parse_timeout(timeout)
        except (TypeError, ValueError) as error:
            return Failed("invalid_arguments", str(error))
        results = self._parts.calls.load().results
        return await results.wait(str(call_id), self.principal, timeout_seconds=seconds)

    def running_calls(self) -> list[InterruptibleCall]:
        """The calls of this scope's user and session that run in this process."""
        return self.environment.running.visible_to(self.principal)

    async def end_calls_that_follow_run(self, run_id: str) -> None:
        """End the calls that wait for a run of an agent which has ended."""
        await self._parts.calls.load().resumptions.end_calls_that_follow_run(run_id)

    async def cancel_run(self, run_id: str, reason: str) -> bool:
        """Stop a run of an agent for good, and end its calls; False if it has ended, or is not of this scope."""
        return await self._parts.calls.load().cancelled_runs.cancel(run_id, reason, self.principal)

    async def cancel(self, call_id: str | None = None, *, by: str | None = None) -> bool:
        """Cancel a call, or all calls of this scope's user and session; returns False if there was none."""
        running = [each for each in self.running_calls() if call_id in (None, each.assigned_id)]
        for invocation in running:
            invocation.interrupt("cancelled", f"{invocation.tool_name} was cancelled.")
        pending_ids = await self._pending_call_ids() if call_id is None else [call_id]
        message = "the call was cancelled while it waited."
        answers = self._parts.calls.load().answers
        outcomes = [
            await answers.end_without_answer(self.principal, each, "cancelled", message, by) for each in pending_ids
        ]
        return bool(running) or any(isinstance(each, Failed) and each.code == "cancelled" for each in outcomes)

    async def _pending_call_ids(self) -> list[str]:
        """Ids of pending calls, and of answered calls that no runtime has resumed yet.

        Calls that wait for runs of agents come first: the calls of these runs end with them.
        """
        if (store := self.store) is None:
            return []
        outer = await store.pending.find_calls_that_wait_for_runs(self.principal.user, self.principal.session)
        calls = await self._parts.calls.load().pending_calls.list_for(self.principal, grace_seconds=0.0)
        return [*outer, *(call.call_id for call in calls)]

    async def grants(self) -> list[Grant]:
        """The standing approvals of this scope's user, or of all users if the scope has none."""
        store = self.store
        return [] if store is None else await store.grants.list_grants(self.principal.user)

    async def revoke(self, tool: str, *, by: str | None = None) -> bool:
        """Delete the standing approvals of a tool, of this user or of all users; returns False if there were none."""
        listing = self.find(tool)
        store = self.store
        name = tool if listing is None else listing.name
        return store is not None and await store.grants.revoke(name, self.principal.user, by) > 0

    # Waking agents

    async def trigger(self, agent: Any, data: Any, event_id: str | None = None) -> InboxEvent:
        """Put an event into the inbox of an agent, for this scope's user and session; a `Worker` runs the agent on it.

        It is stored when this returns. The agent need not be in this process.

        Args:
            agent: the agent, or its name.
            data: what the agent is run on: a text, or a JSON value, which its model reads as JSON.
            event_id: an id of the caller's: the same id again is the same event, and is run once.
        """
        return await self._parts.calls.load().agent_inbox.trigger(self.principal, agent, data, event_id)

    async def inbox(
        self, agent: Any = None, *, limit: int = 100, before: InboxEvent | int | None = None
    ) -> list[InboxEvent]:
        """The events in the inbox of an agent, or of all agents, with what has become of them, newest first.

        A scope with a user or session sees the events of these alone.

        Args:
            before: the last event of the page before, or its `cursor`.
        """
        return await self._parts.calls.load().agent_inbox.list_events(self.principal, agent, limit=limit, before=before)

    async def find_event(self, agent: Any, event_id: str) -> InboxEvent | None:
        """An event in the inbox of an agent, with what has become of it; None for an unknown one."""
        return await self._parts.calls.load().agent_inbox.find_event(self.principal, agent, event_id)

    # Looking

    @property
    def catalogue(self) -> Catalogue:
        """The tools of the runtime."""
        return self._tools.sources.catalogue

    @property
    def policy(self) -> Policy:
        """The policy of the runtime."""
        return self._tools.sources.policy.current

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
        return self._tools.sources.crash_report.redact(text)

    def describe(self, format: str = "openai", *, toolset: str | None = None) -> ToolDescriptions:
        """The tool definitions in the format of a model API; the scope's own tools come first."""
        return self._tools.describe(format, toolset=toolset)

    def usable_listings(self, *, for_person: bool = False) -> list[Listing]:
        """The tools that a model, or a person, may call in this scope: none that is hidden, forbidden or denied."""
        return self._tools.usable_listings(for_person=for_person)

    def may_use(self, listing: Listing, *, for_person: bool = False) -> bool:
        """Whether a model, or a person, may call a tool in this scope: false if it is hidden, forbidden or denied."""
        return self._tools.may_use(listing, for_person=for_person)

    def hidden_tool_names(self) -> frozenset[str]:
        """Names of the tools that their providers hide from this scope's user."""
        return self._tools.hidden_names()

    async def load_user_tools(self) -> dict[str, str]:
        """Ask the per-user providers for this user's tools, and the store for those that the session offers.

        `describe` cannot ask.

        Returns the namespaces of the providers that failed, each with the reason.
        """
        await self._tools.sources.offered_tools.load_session(self.principal)
        return await self._tools.sources.provider_table.load_user_tools(self.principal)

    async def refresh(self, *namespaces: str) -> None:
        """Ask the providers of the given namespaces, or all, for their tools again. Raises if one is unavailable.

        A scope with a user asks in the name of that user.
        """
        await self._tools.sources.provider_table.refresh(namespaces, self.principal)

    def find(self, name: str) -> Listing | None:
        """Find a tool by name: the scope's own tools come before the runtime's, and these before the session's."""
        return self._tools.find(name)

    def find_session_tool(self, name: str) -> Listing | None:
        """Find a tool that the session of this scope offers."""
        return self._tools.find_session_tool(name)

    def instructions(self) -> str:
        """The instructions of all providers for the model, combined."""
        return self._tools.instructions()

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` for every event of this scope's user and session, until the returned function is called.

        A scope without a session hears all sessions of its user; the runtime itself hears every event.
        """
        if not self._is_restricted:
            return self._parts.listeners.listen(callback)
        return self._parts.listeners.listen(lambda event: callback(event) if self._owns_event(event) else None)

    def events(self) -> AsyncIterator[Event]:
        """Yield the events that `listen` would hear, from now on; a reader that is too slow gets `Missed`."""
        return stream_events(self._parts.listeners, self._owns_event if self._is_restricted else None)

    @property
    def _is_restricted(self) -> bool:
        """Whether the scope shows only the calls of a user or session."""
        return self.principal.user is not None or self.principal.session is not None

    def _owns_event(self, event: Event) -> bool:
        """Whether an event is about a call of this scope's user and session."""
        if isinstance(event, (CatalogueChanged, Missed)):  # of no call
            return False
        viewer = self.principal
        return viewer.user in (None, event.user) and viewer.session in (None, event.session)

    def emit(self, event: Event) -> None:
        """Emit an event to all listeners: for parts, such as agents, that report more than calls."""
        self._parts.listeners.emit(event)

    @property
    def has_listeners(self) -> bool:
        """Whether anything hears events: without listeners, an event need not be built."""
        return bool(self._parts.listeners.callbacks)

    def complete(self, outcome: Outcome) -> None:
        """Emit `CallEnded` for a call, where `auto_complete=False` leaves that to the caller."""
        meta = outcome.meta
        origin = outcome.origin
        identity = origin.identity if isinstance(origin, Invocation) else CallIdentity(*_NO_TOOL, *self.caller_fields)
        at = self.clock.time()
        self._parts.listeners.emit(CallEnded(meta.call_id, meta.tool, outcome, at, *identity))

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

    # Narrowing

    def offer(self, *tools: Tool[..., Any]) -> None:
        """Add tools for this scope's session alone: every scope of the same user and session has them.

        A client registers its own tools so (`tool.client`); an answer to their calls may arrive in any process.
        """
        if self.principal.session is None:
            raise TypeError("Only a scope with a session can offer tools: runtime.scope(session=...).offer(...).")
        self._tools.sources.offered_tools.add(self.principal, tools)

    async def enter_agent(self, agent: AgentSource, **principal_fields: Any) -> Scope:
        """The scope of an agent's run: it has the agent's tools alone. Adds the agent to the runtime, if need be."""
        attached = await self._parts.agents.enter(agent)
        base = self.scope(agent=agent.name, **principal_fields)
        # Not by the name: another agent of that name may have taken its place meanwhile.
        scope: Scope = name_scope(agent.narrow(base, attached.own_catalogue), agent.name, base)
        attached.last_scope = scope
        return scope

    def scope(
        self,
        *values: Any,
        tools: Iterable[Tool[..., Any]] | Catalogue = (),
        toolset: str | None = None,
        priority: int | None = None,
        approver: Approver | None = None,
        max_tokens: int | None = None,
        max_calls: int | None = None,
        memory_dir: str | PathLike[str] | None = None,
        session_dir: str | PathLike[str] | None = None,
        allowed_paths: Iterable[str | PathLike[str]] | None = None,
        **principal_fields: Any,
    ) -> Scope:
        """A narrower view of the runtime: for a principal (agent, session, message, task, user, space, turn).

        `values` are offered to `use(...)`, `tools` come before the runtime's, only the runtime's tools of `toolset` can
        be called, `priority` is that of its calls in their queues (the higher the sooner), and `max_tokens` and
        `max_calls` set a budget for the turn.
        `memory_dir` and `session_dir` are the folders that the tools of `memory` and `sessions` use instead of theirs,
        and `allowed_paths` the folders that file tools and commands are limited to. `approver` is asked before that of
        the runtime.
        """
        validate_principal_fields(principal_fields)
        principal = replace(self.principal, **principal_fields)
        budget = self.budget
        if max_tokens is not None or max_calls is not None:
            budget = Budget(max_tokens, max_calls)
        elif budget is None or budget.is_default:
            budget = self._parts.turn_budgets.get(principal)
        if principal_fields.get("space") is not None:
            self._parts.active_spaces.warn_without_store(principal_fields["space"])
        folders = self.folders
        if memory_dir is not None:
            folders = replace(folders, memory_dir=absolute_path(memory_dir))
        if session_dir is not None:
            folders = replace(folders, session_dir=absolute_path(session_dir))
        if allowed_paths is not None:
            folders = replace(folders, allowed_paths=self._narrowed_paths(allowed_paths))
        state = None if "session" in principal_fields or "user" in principal_fields else self.state
        narrowed = Scope(
            self._parts,
            principal,
            values=(*values, *self.offered_values),
            budget=budget,
            state=state,
            own_catalogue=self._catalogue_with(tools),
            toolsets=self._narrowed_toolsets(toolset),
            priority=self.priority if priority is None else validate_priority(priority),
            folders=folders,
        )
        narrowed.approver = self.approver if approver is None else approver
        narrowed.scope_name = self.scope_name
        narrowed.base_scope = self.base_scope
        return narrowed

    def register_scope(self, name: str, build: Callable[[Scope], Scope]) -> Callable[[], None]:
        """Let `named_scope` build scopes of this name, also for calls that are answered after a restart.

        Args:
            build: narrows a scope, which has the principal of a call, to the tools and values of an agent.

        Returns a function that undoes this.
        """
        return self._parts.named_scopes.register(name, build)

    def named_scope(self, name: str) -> Scope:
        """This scope narrowed by what was registered under a name; raises `KeyError` for an unknown one."""
        scope: Scope = self._parts.named_scopes.build(name, self.scope())  # a new one, since it gets the name
        return scope

    def _narrowed_paths(self, paths: Iterable[str | PathLike[str]]) -> tuple[str, ...]:
        """Folders as absolute paths, relative ones in the workspace; they must be inside those of this scope."""
        given = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
        absolute = [Path(self.workspace, fspath(path)).expanduser().absolute() for path in given]
        outer = self.folders.allowed_paths
        for path in absolute:
            if outer is not None and not any(path.is_relative_to(each) for each in outer):
                raise ValueError(f"{path} is outside the allowed paths of this scope: {', '.join(outer)}.")
        return tuple(map(str, absolute))

    def _narrowed_toolsets(self, toolset: str | None) -> tuple[str, ...]:
        """The toolsets of this scope and one more; raises `KeyError` for an unknown one."""
        if toolset is None or toolset in self.toolsets:
            return self.toolsets
        self.catalogue.toolset(toolset)
        return (*self.toolsets, toolset)

    def _catalogue_with(self, tools: Iterable[Tool[..., Any]] | Catalogue) -> Catalogue | None:
        """The catalogue of this scope's own tools and more tools, which replace those of the same name."""
        if isinstance(tools, Catalogue):  # of an agent, with tools of its providers: it comes in place of the scope's
            return tools
        added = list(tools)
        if not added:
            return self.own_catalogue
        for tool in added:
            tool.require_runner()
        catalogue = self.catalogue.new_empty()
        catalogue.add(*(listing.tool for listing in self.own_catalogue or ()))
        catalogue.add(*added, on_conflict="replace")
        return catalogue

    def in_space(self, space: str | None) -> Scope:
        """The same scope in another space."""
        return self.scope(space=space)

    def set_active_space(self, space: str | None) -> None:
        """Show the later visible calls of this scope's agent and session in another space, or in none."""
        self._parts.active_spaces.set_active(self, space)

    async def enter_space(self, space: str | None) -> None:
        """The same, in every process on the store."""
        await self._parts.active_spaces.enter(self, space)

    def find_value(self, value_type: type[T]) -> T | None:
        """The first value of a type that this scope or an outer one offers."""
        return next((value for value in self.offered_values if isinstance(value, value_type)), None)


async def _next_event(buffer: EventBuffer, task: asyncio.Task[Outcome], invocation: Invocation) -> Event:
    """The next event; `CallEnded` if the call ended and the runtime emits none (`auto_complete=False`)."""
    next_event = asyncio.ensure_future(buffer.get())
    try:
        await asyncio.wait({next_event, task}, return_when=asyncio.FIRST_COMPLETED)
        if next_event.done():
            return next_event.result()
        if (event := buffer.get_nowait()) is not None:
            return event
        return CallEnded(invocation.id, invocation.tool_name, task.result(), 0.0, *invocation.identity)
    finally:
        next_event.cancel()
