"""Scope: the public verbs for calling tools and answering calls, for one user, session or turn.

The runtime itself is the outermost scope.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from dataclasses import asdict, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.core.call import Arguments, Call, CallIdentity, Principal, ScopeFolders, caller_fields
from surehand.core.context import Context
from surehand.core.durations import parse_duration
from surehand.core.events import CallEnded, CatalogueChanged, Event, Listener, Missed
from surehand.core.names import qualified_name
from surehand.core.outcome import Failed, Outcome
from surehand.core.provider_abilities import AddedProvider
from surehand.core.tool import Tool
from surehand.runtime.limits.budget import Budget
from surehand.runtime.limits.queues import QueueStatus
from surehand.runtime.listeners import EventBuffer, stream_events
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.stacks import LimitedStacks, Stacks
from surehand.runtime.services import RuntimeServices
from surehand.runtime.stats import Stats

if TYPE_CHECKING:
    from surehand.catalogue.describe import ToolDescriptions
    from surehand.runtime.durability.call_record import RecordTemplate
    from surehand.runtime.pending.pending_call import PendingCall
    from surehand.runtime.pending.status import CallStatus
    from surehand.store.tables.grants import Grant

T = TypeVar("T")
CallerContext: TypeAlias = Context | Principal | Mapping[str, Any]
_new_object = object.__new__
_NO_TOOL = CallIdentity()[:4]
_PRINCIPAL_FIELDS = ("agent", "session", "message", "task", "user", "space", "turn")
_NO_FOLDERS = ScopeFolders()


class Scope:
    """A view of a runtime: for which principal calls are made, which values and tools they use, and their budget."""

    def __init__(
        self,
        services: RuntimeServices,
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
        self.services = services
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
        self.scope_in_entered_space: Scope | None = None
        """The same scope in the space that its agent entered, once a call was made there."""
        self.scope_name: str | None = None
        """The name by which other processes build the same scope again, see `named_scopes`."""
        self.has_session = principal.session is not None
        self.principal_fields: dict[str, str | None] = {name: getattr(principal, name) for name in _PRINCIPAL_FIELDS}
        """The principal, as fields of a `Call`."""
        self.caller_fields = caller_fields(principal)
        """The principal, as fields of an event."""
        self.record_templates: dict[Listing, RecordTemplate] = {}
        """Prepared rows for the durable calls of each tool."""
        self.stack_table = services.stack_table_for(own_catalogue, toolsets)
        self.state = services.session_state(principal) if state is None else state
        self._stacks: Stacks | LimitedStacks = self.stack_table.get(self, is_recallable=False)
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
            invocation.caller_timeout = _parse_timeout(timeout)
            self._apply_caller_context(invocation, context)
        except (TypeError, ValueError) as error:
            return _refuse_invalid_option(invocation, error)
        if call_id is not None:
            invocation.assigned_id = call_id
            invocation.has_given_id = True
        return self.services.stack_for_call(invocation)(invocation)

    def _apply_caller_context(self, invocation: Invocation, context: object) -> None:
        """Make a call on behalf of the caller's context; raises `TypeError` for what is no context."""
        if context is None:
            return
        if isinstance(context, Context):
            invocation.parent = context.call_id
            context = context.principal
        if isinstance(context, Principal):
            fields = asdict(context)
        elif isinstance(context, Mapping):
            fields = dict(context)
        else:
            expected = ", ".join(_PRINCIPAL_FIELDS)
            raise TypeError(f"`context` must be a Context or a mapping of {expected}, not {type(context).__name__}.")
        given = {name: value for name, value in fields.items() if value is not None}
        invocation.scope = self._scope_with_fields(given)

    def _scope_with_fields(self, fields: dict[str, Any]) -> Scope:
        """A scope with further fields of a principal; they cannot change the user or session of this one."""
        for name in ("user", "session"):
            if getattr(self.principal, name) is not None:
                fields.pop(name, None)
        return self.scope(**fields) if fields else self

    async def run_invocation(self, invocation: Invocation) -> Outcome:
        """Send an invocation through its stack."""
        return await self.services.stack_for_call(invocation)(invocation)

    async def call_many(self, calls: Iterable[Call]) -> list[Outcome]:
        """Run calls in parallel; the outcomes are in the order of the calls."""
        siblings: dict[str, list[str]] = {}
        return await asyncio.gather(*(self._run_call(call, siblings) for call in calls))

    async def _run_call(self, call: Call, siblings: dict[str, list[str]]) -> Outcome:
        try:
            invocation = self._build_invocation(call)
        except TypeError as error:
            return await _refuse_invalid_option(Invocation(self, call.tool, call.arguments), error)
        invocation.siblings = siblings
        return await self.run_invocation(invocation)

    def _build_invocation(self, call: Call) -> Invocation:
        """Convert a `Call` to an invocation in a scope with its principal."""
        fields = {name: value for name in _PRINCIPAL_FIELDS if (value := getattr(call, name)) is not None}
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
            invocation.caller_timeout = _parse_timeout(timeout)
        except (TypeError, ValueError) as error:
            return await _refuse_invalid_option(invocation, error)
        return await self.run_invocation(invocation)

    async def stream(
        self, name: str, arguments: Arguments = None, *, timeout: float | str | None = None
    ) -> AsyncIterator[Event]:
        """Run a tool and yield its events; the last is `CallEnded`. Leaving the loop cancels the call."""
        invocation = Invocation(self, name, arguments)
        try:
            invocation.caller_timeout = _parse_timeout(timeout)
            run = self.run_invocation(invocation)
        except (TypeError, ValueError) as error:
            run = _refuse_invalid_option(invocation, error)
        buffer = EventBuffer()
        call_id = invocation.id
        unsubscribe = self.services.listeners.listen(
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
        decisions = self.services.decisions
        return await decisions.approve(self, call_id, always=always, arguments=arguments, by=by, round=round)

    async def reject(
        self, call_id: str, reason: str = "", *, by: str | None = None, round: int | None = None
    ) -> Outcome:
        """End a pending call without running it; returns its outcome. `round` is as in `approve`."""
        return await self.services.decisions.reject(self, call_id, reason=reason, by=by, round=round)

    async def settle(
        self, call_id: str, result: Any = None, *, by: str | None = None, round: int | None = None
    ) -> Outcome:
        """Answer a pending call with a value, a Done or a Failed; returns its outcome. `round` is as in `approve`."""
        return await self.services.decisions.settle(self, call_id, result, by=by, round=round)

    async def pending(self, *, limit: int | None = None, after: str | None = None) -> list[PendingCall]:
        """The pending calls of this scope's user and session, oldest first: all, or a page.

        Args:
            after: the `cursor` of the last call of the page before.
        """
        return await self.services.pending_calls.list_for(self.principal, limit=limit, after=after)

    async def status(self, call_id: str) -> CallStatus | None:
        """The status of a call that was given an id or has been pending; None for any other call."""
        from surehand.runtime.pending.status import find_call_status  # keeps the ledger table off the import path

        return await find_call_status(self.services, call_id, self.principal)

    async def result(self, call_id: str, timeout: float | str | None = None) -> Outcome:
        """Wait for the end of a call, in whatever process it runs, and return its outcome.

        When `timeout` is over, the Pending; `not_found` for an id that this scope does not know.
        """
        try:
            seconds = _parse_timeout(timeout)
        except (TypeError, ValueError) as error:
            return Failed("invalid_arguments", str(error))
        from surehand.runtime.pending.result import wait_for_result  # keeps the ledger table off the import path

        return await wait_for_result(self, str(call_id), seconds)

    def running_calls(self) -> list[Invocation]:
        """The calls of this scope's user and session that run in this process."""
        return [invocation for invocation in self.services.running_calls if self._can_see(invocation)]

    async def cancel(self, call_id: str | None = None, *, by: str | None = None) -> bool:
        """Cancel a call, or all calls of this scope's user and session; returns False if there was none."""
        running = [each for each in self.running_calls() if call_id in (None, each.assigned_id)]
        for invocation in running:
            invocation.interrupt("cancelled", f"{invocation.tool_name} was cancelled.")
        pending_ids = await self._pending_call_ids() if call_id is None else [call_id]
        message = "the call was cancelled while it waited."
        decisions = self.services.decisions
        outcomes = [await decisions.end_without_answer(self, each, "cancelled", message, by) for each in pending_ids]
        return bool(running) or any(isinstance(each, Failed) and each.code == "cancelled" for each in outcomes)

    async def _pending_call_ids(self) -> list[str]:
        """Ids of pending calls, and of answered calls that no runtime has resumed yet."""
        if self.services.store is None:
            return []
        calls = await self.services.pending_calls.list_for(self.principal, grace_seconds=0.0)
        return [call.call_id for call in calls]

    async def grants(self) -> list[Grant]:
        """The standing approvals of this scope's user, or of all users if the scope has none."""
        store = self.services.store
        return [] if store is None else await store.grants.list_grants(self.principal.user)

    async def revoke(self, tool: str, *, by: str | None = None) -> bool:
        """Delete the standing approvals of a tool, of this user or of all users; returns False if there were none."""
        listing = self.find(tool)
        store = self.services.store
        name = tool if listing is None else listing.name
        return store is not None and await store.grants.revoke(name, self.principal.user, by) > 0

    def _can_see(self, invocation: Invocation) -> bool:
        viewer = self.principal
        owner = invocation.principal
        return viewer.user in (None, owner.user) and viewer.session in (None, owner.session)

    # Looking

    @property
    def catalogue(self) -> Catalogue:
        """The tools of the runtime."""
        return self.services.catalogue

    def describe(self, format: str = "openai", *, toolset: str | None = None) -> ToolDescriptions:
        """The tool definitions in the format of a model API; the scope's own tools come first."""
        hidden = self.hidden_tool_names() | self._names_outside_toolsets()
        workspace = self.services.workspace
        offered = self.services.offered_tools.table_for(self.principal)
        own_catalogues = [self.own_catalogue, None if offered is None else offered.catalogue]
        descriptions: ToolDescriptions | None = None
        for catalogue in own_catalogues:
            if catalogue is None:
                continue
            described = catalogue.describe(format, workspace=workspace, hide=hidden)
            hidden |= frozenset(listing.name for listing in catalogue)
            descriptions = described if descriptions is None else _join_descriptions(descriptions, described)
        rest = self.catalogue.describe(format, toolset=toolset, workspace=workspace, hide=hidden)
        if looked_up := self._looked_up_listings(toolset, hidden):
            from surehand.catalogue.describe import describe_listings  # loaded by `describe` already: it takes 3.6 ms

            rest = _join_descriptions(rest, describe_listings(looked_up, format, workspace=workspace))
        return rest if descriptions is None else _join_descriptions(descriptions, rest)

    def _looked_up_listings(self, toolset: str | None, hidden: frozenset[str]) -> list[Listing]:
        """Tools that are shown only because this session has looked them up, in that order."""
        names = [
            qualified_name(added.namespace, name)
            for added in self.services.active_providers
            if (searchable := added.abilities.searchable) is not None
            for name in searchable.looked_up_tools(self.principal)
        ]
        found = (self.catalogue.find(name) for name in names)
        return [
            listing
            for listing in found
            if listing is not None
            and not listing.is_shown_to_model
            and listing.name not in hidden
            and (toolset is None or self.catalogue.is_in_toolsets(listing, (toolset,)))
        ]

    def _names_outside_toolsets(self) -> frozenset[str]:
        """Names of the runtime's tools that this scope's toolsets forbid."""
        if not self.toolsets:
            return frozenset()
        return frozenset(
            listing.name for listing in self.catalogue if not self.catalogue.is_in_toolsets(listing, self.toolsets)
        )

    def usable_listings(self, *, for_person: bool = False) -> list[Listing]:
        """The tools that a model, or a person, may call in this scope: none that is hidden, forbidden or denied."""
        offered = self.services.offered_tools.table_for(self.principal)
        own = [*(self.own_catalogue or ()), *(() if offered is None else offered.catalogue)]
        return [each for each in [*own, *self.catalogue] if self.may_use(each, for_person=for_person)]

    def may_use(self, listing: Listing, *, for_person: bool = False) -> bool:
        """Whether a model, or a person, may call a tool in this scope: false if it is hidden, forbidden or denied."""
        if (listing.tool.audience == "user" and not for_person) or self.services.policy.always_denies(listing):
            return False
        if self.catalogue.find(listing.name) is not listing:  # the scope's or session's own
            return True
        per_user = listing.abilities.per_user
        if per_user is not None and per_user.is_hidden_from(self.principal, listing.tool.name):
            return False
        return self.catalogue.is_in_toolsets(listing, self.toolsets)

    def hidden_tool_names(self) -> frozenset[str]:
        """Names of the tools that their providers hide from this scope's user."""
        if not any(added.abilities.per_user is not None for added in self.services.active_providers):
            return frozenset()
        return frozenset(
            listing.name
            for listing in self.catalogue
            if (per_user := listing.abilities.per_user) is not None
            and per_user.is_hidden_from(self.principal, listing.tool.name)
        )

    async def load_user_tools(self) -> dict[str, str]:
        """Ask the per-user providers for this user's tools, and the store for those that the session offers.

        `describe` cannot ask.

        Returns the namespaces of the providers that failed, each with the reason.
        """
        await self.services.offered_tools.load_session(self.principal)
        return await self.services.provider_table.load_user_tools(self.principal)

    async def refresh(self, *namespaces: str) -> None:
        """Ask the providers of the given namespaces, or all, for their tools again. Raises if one is unavailable.

        A scope with a user asks in the name of that user.
        """
        await self.services.provider_table.refresh(namespaces, self.principal)

    def find(self, name: str) -> Listing | None:
        """Find a tool by name: the scope's own tools come before the runtime's, and these before the session's."""
        own = self.own_catalogue.find(name) if self.own_catalogue is not None else None
        return own or self.services.catalogue.find(name) or self.services.offered_tools.find(name, self.principal)

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` for every event of this scope's user and session, until the returned function is called.

        A scope without a session hears all sessions of its user; the runtime itself hears every event.
        """
        if not self._is_restricted:
            return self.services.listeners.listen(callback)
        return self.services.listeners.listen(lambda event: callback(event) if self._owns_event(event) else None)

    def events(self) -> AsyncIterator[Event]:
        """Yield the events that `listen` would hear, from now on; a reader that is too slow gets `Missed`."""
        return stream_events(self.services.listeners, self._owns_event if self._is_restricted else None)

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

    def complete(self, outcome: Outcome) -> None:
        """Emit `CallEnded` for a call, where `auto_complete=False` leaves that to the caller."""
        meta = outcome.meta
        origin = outcome.origin
        identity = origin.identity if isinstance(origin, Invocation) else CallIdentity(*_NO_TOOL, *self.caller_fields)
        at = self.services.clock.time()
        self.services.listeners.emit(CallEnded(meta.call_id, meta.tool, outcome, at, *identity))

    def queues(self) -> dict[str, QueueStatus]:
        """The capacity, use and waiting calls of each queue."""
        return {name: queue.status for name, queue in self.services.queues.items()}

    def stats(self) -> Stats:
        """Counts and durations of calls, by tool."""
        services = self.services
        calls = {name: replace(counter) for name, counter in services.stats_by_tool.items() if counter.count}
        return Stats(
            total=len(services.catalogue),
            by_category=services.catalogue.categories(),
            calls=calls,
            running=len(services.running_calls),
            abandoned=services.threads.abandoned_count,
            pending=services.pending_calls.open_count if services.store is not None else 0,
            artifacts=services.outputs.stored_count,
        )

    def last_results(self, session: str | None = None, *, limit: int = 10) -> list[tuple[str, Outcome]]:
        """The last results of a session of this scope, each with its tool, newest first.

        The runtime keeps the last 10 of each session in memory; a call that still waits has none yet.
        """
        viewer = self.principal
        session = viewer.session if session is None else session
        if session is None or viewer.session not in (None, session):
            return []
        return self.services.last_results.newest(session, viewer.user, limit)

    def instructions(self) -> str:
        """The instructions of all providers for the model, combined."""
        known = [AddedProvider(each.provider, each.abilities) for each in self.catalogue if each.provider is not None]
        providers = {id(each.provider): each for each in [*known, *self.services.active_providers]}
        sections = [(added.namespace, self._provider_instructions(added)) for added in providers.values()]
        return "\n\n".join(f"## {name}\n{text}" if name else text for name, text in sections if text)

    def _provider_instructions(self, added: AddedProvider) -> str:
        """A provider's own instructions, and a note if its tools are unavailable."""
        instructive = added.abilities.instructive
        own = "" if instructive is None else instructive.instructions(self.principal).strip()
        reason = self.services.unavailable_providers.get(added.namespace)
        note = f"Its tools are not available now: {reason}" if reason else ""
        text = "\n\n".join(part for part in (own, note) if part)
        redact = self.services.redact
        return redact(text) if redact else text

    # Narrowing

    def offer(self, *tools: Tool[..., Any]) -> None:
        """Add tools for this scope's session alone: every scope of the same user and session has them.

        A client registers its own tools so (`tool.client`); an answer to their calls may arrive in any process.
        """
        if self.principal.session is None:
            raise TypeError("Only a scope with a session can offer tools: runtime.scope(session=...).offer(...).")
        self.services.offered_tools.add(self.principal, tools)

    def scope(
        self,
        *values: Any,
        tools: Iterable[Tool[..., Any]] = (),
        toolset: str | None = None,
        priority: int | None = None,
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
        and `allowed_paths` the folders that file tools and commands are limited to.
        """
        if unknown := principal_fields.keys() - set(_PRINCIPAL_FIELDS):
            raise TypeError(f"A scope has no {', '.join(sorted(unknown))}. It takes {', '.join(_PRINCIPAL_FIELDS)}.")
        for name, value in principal_fields.items():
            if value is not None and not isinstance(value, str):
                raise TypeError(f"The {name} of a scope is a text, not {type(value).__name__}.")
        principal = replace(self.principal, **principal_fields)
        budget = self.budget
        if max_tokens is not None or max_calls is not None:
            budget = Budget(max_tokens, max_calls)
        elif budget is None or budget.is_default:
            budget = self.services.turn_budgets.get(principal)
        if principal_fields.get("space") is not None:
            self.services.visible_calls.warn_without_store(principal_fields["space"])
        folders = self.folders
        if memory_dir is not None:
            folders = replace(folders, memory_dir=_absolute_path(memory_dir))
        if session_dir is not None:
            folders = replace(folders, session_dir=_absolute_path(session_dir))
        if allowed_paths is not None:
            folders = replace(folders, allowed_paths=self._narrowed_paths(allowed_paths))
        state = None if "session" in principal_fields or "user" in principal_fields else self.state
        narrowed = Scope(
            self.services,
            principal,
            values=(*values, *self.offered_values),
            budget=budget,
            state=state,
            own_catalogue=self._catalogue_with(tools),
            toolsets=self._narrowed_toolsets(toolset),
            priority=self.priority if priority is None else validate_priority(priority),
            folders=folders,
        )
        narrowed.scope_name = self.scope_name
        return narrowed

    def register_scope(self, name: str, build: Callable[[Scope], Scope]) -> Callable[[], None]:
        """Let `named_scope` build scopes of this name, also for calls that are answered after a restart.

        Args:
            build: narrows a scope, which has the principal of a call, to the tools and values of an agent.

        Returns a function that undoes this.
        """
        return self.services.named_scopes.register(name, build)

    def named_scope(self, name: str) -> Scope:
        """This scope narrowed by what was registered under a name; raises `KeyError` for an unknown one."""
        return self.services.named_scopes.build(name, self)

    def _narrowed_paths(self, paths: Iterable[str | PathLike[str]]) -> tuple[str, ...]:
        """Folders as absolute paths, relative ones in the workspace; they must be inside those of this scope."""
        given = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
        absolute = [Path(self.services.workspace, fspath(path)).expanduser().absolute() for path in given]
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

    def _catalogue_with(self, tools: Iterable[Tool[..., Any]]) -> Catalogue | None:
        """The catalogue of this scope's own tools and more tools, which replace those of the same name."""
        added = list(tools)
        if not added:
            return self.own_catalogue
        for tool in added:
            tool.require_runner()
        catalogue = Catalogue(check=self.services.validate_tool)
        catalogue.add(*(listing.tool for listing in self.own_catalogue or ()))
        catalogue.add(*added, on_conflict="replace")
        return catalogue

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


def validate_priority(priority: Any) -> int:
    """The priority; raises `TypeError` unless it is a whole number."""
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError(f"A priority is a whole number, not {type(priority).__name__}.")
    return priority


def _join_descriptions(first: ToolDescriptions, second: ToolDescriptions) -> ToolDescriptions:
    """Append the descriptions of more tools to the first ones."""
    first.extend(second)
    first.left_out.update(second.left_out)
    return first


def _absolute_path(folder: str | PathLike[str]) -> str:
    """A folder independent of the working directory: a call may go on in another process."""
    return str(Path(fspath(folder)).expanduser().absolute())


def _parse_timeout(timeout: float | str | None) -> float | None:
    """A caller's time limit in seconds; raises `ValueError` or `TypeError` for what is no duration."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float, str)):
        raise TypeError(f"`timeout` must be a duration, not {type(timeout).__name__}. Write 30, '30s' or 'off'.")
    try:
        seconds = parse_duration(timeout)
    except ValueError as error:
        raise ValueError(f"`timeout`: {error} Write 30, '30s' or 'off'.") from None
    if seconds is not None and not seconds >= 0:  # a NaN, too
        raise ValueError(f"`timeout` must not be negative, got {timeout}.")
    return seconds


async def _refuse_invalid_option(invocation: Invocation, problem: Exception) -> Outcome:
    """Count, journal and report a call whose timeout, context or priority is invalid."""
    from surehand.runtime.pipeline.unknown_tool import refuse_invalid_option  # loaded by the first refused call

    return await refuse_invalid_option(invocation, str(problem))
