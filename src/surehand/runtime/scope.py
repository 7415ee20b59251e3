"""Scope: the public verbs for calling tools, and for narrowing a scope, for one user, session or turn.

The runtime itself is the outermost scope. The other verbs are in `scope_tools` (which tools it has), `scope_answers`
(calls that wait), `scope_events` (hearing of calls) and `scope_view` (read-only properties).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from surehand.catalogue.catalogue import Catalogue
from surehand.core.call import Arguments, Call, Principal, ScopeFolders, caller_fields
from surehand.core.context import Context
from surehand.core.outcome import Outcome
from surehand.runtime.call_options import (
    PRINCIPAL_FIELDS,
    CallerContext,
    absolute_path,
    narrow_paths,
    parse_timeout,
    principal_fields_of,
    validate_principal_fields,
    validate_priority,
)
from surehand.runtime.invocation.invocation import CallScope, Invocation, NextStage
from surehand.runtime.invocation.request import CallRequest, SiblingIds
from surehand.runtime.limits.budget import Budget
from surehand.runtime.named_scopes import name_scope
from surehand.runtime.pipeline.stacks import LimitedStacks, Stacks, limit_to_paths
from surehand.runtime.prepared_call import PreparedCall
from surehand.runtime.scope_answers import ScopeAnswers
from surehand.runtime.scope_events import ScopeEvents
from surehand.runtime.scope_parts import ScopeParts
from surehand.runtime.scope_tools import ScopeTools

if TYPE_CHECKING:
    from surehand.catalogue.listing import Listing
    from surehand.core.events import Event
    from surehand.core.tool import Tool
    from surehand.runtime.pending.pending_call import Approver
    from surehand.runtime.sources import AgentSource

T = TypeVar("T")
_new_object = object.__new__
_NO_FOLDERS = ScopeFolders()


class Scope(ScopeTools, ScopeAnswers, ScopeEvents):
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
        self.environment = parts.environment
        self.principal = principal
        self.budget = budget
        self.offered_values = values
        """What this scope and the outer ones offer to `use(...)`, the nearest first."""
        self.own_catalogue = own_catalogue
        self.priority = priority
        """Priority of this scope's calls in their queues; None takes that of the tool."""
        self.toolsets = toolsets
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
            request = CallRequest(
                has_given_id=call_id is not None,
                timeout=parse_timeout(timeout),
                parent=context.call_id if isinstance(context, Context) else None,
            )
            scope = self if context is None else self._scope_with_fields(principal_fields_of(context))
        except (TypeError, ValueError) as error:
            return self._refuse_invalid_option(invocation, error)
        return _run(Invocation(scope, name, arguments, request, call_id))

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
        siblings: SiblingIds = {}
        return await asyncio.gather(*(self._run_call(call, siblings) for call in calls))

    async def _run_call(self, call: Call, siblings: SiblingIds) -> Outcome:
        try:
            invocation = self._build_invocation(call, siblings)
        except TypeError as error:
            return await self._refuse_invalid_option(Invocation(self, call.tool, call.arguments), error)
        return await _run(invocation)

    def _build_invocation(self, call: Call, siblings: SiblingIds) -> Invocation:
        """Convert a `Call` to an invocation in a scope with its principal."""
        fields = {name: value for name in PRINCIPAL_FIELDS if (value := getattr(call, name)) is not None}
        request = CallRequest(
            has_given_id=call.id is not None,
            model_id=call.model_id,
            parent=call.parent,
            priority=None if call.priority is None else validate_priority(call.priority),
            siblings=siblings,
        )
        return Invocation(self._scope_with_fields(fields), call.tool, call.arguments, request, call.id)

    async def dispatch(self, name: str, arguments: Arguments = None, *, timeout: float | str | None = None) -> Outcome:
        """Run any tool by name or alias for a person; validation, policy and confirmation apply."""
        return await self._prepare(name, arguments, timeout, "person").run()

    def prepare(self, name: str, arguments: Arguments = None, *, timeout: float | str | None = None) -> PreparedCall:
        """A call that does not run yet, and has its id: `await prepared.run()` runs it."""
        return self._prepare(name, arguments, timeout, "program")

    def stream(
        self, name: str, arguments: Arguments = None, *, timeout: float | str | None = None
    ) -> AsyncIterator[Event]:
        """Run a tool and yield its events; the last is `CallEnded`. Leaving the loop cancels the call."""
        return self.prepare(name, arguments, timeout=timeout).stream()

    def _prepare(
        self, name: str, arguments: Arguments, timeout: float | str | None, made_by: Literal["person", "program"]
    ) -> PreparedCall:
        """A call without an id or context of its own."""
        listeners = self._parts.listeners
        try:
            request = CallRequest(made_by, timeout=parse_timeout(timeout))
        except (TypeError, ValueError) as error:
            refused = Invocation(self, name, arguments, CallRequest(made_by))
            return PreparedCall(refused, partial(self._refuse_invalid_option, problem=error), listeners)
        return PreparedCall(Invocation(self, name, arguments, request), _run, listeners)

    # Narrowing

    async def enter_agent(self, agent: AgentSource, **principal_fields: Any) -> Scope:
        """The scope of an agent's run: it has the agent's tools alone. Adds the agent to the runtime, if need be."""
        attached = await self._parts.agents.enter(agent)
        base = self.scope(agent=agent.name, **principal_fields)
        # Not by the name: another agent of that name may have taken its place meanwhile.
        scope: Scope = name_scope(agent.narrow(base, attached.own_catalogue), agent.name, base)
        attached.last_scope = scope
        await self._parts.active_spaces.load_if_entered(scope)
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
            narrowed_paths = narrow_paths(allowed_paths, self.folders.allowed_paths, workspace=self.workspace)
            folders = replace(folders, allowed_paths=narrowed_paths)
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

    def in_space(self, space: str | None) -> Scope:
        """The same scope in another space."""
        return self.scope(space=space)

    @property
    def active_space(self) -> str | None:
        """The space in which visible calls of this scope are shown now."""
        return self._parts.active_spaces.scope_in_active_space(self).principal.space

    def set_active_space(self, space: str | None) -> None:
        """Show the later visible calls of this scope's agent and session in another space, or in none."""
        self._parts.active_spaces.set_active(self, space)

    async def enter_space(self, space: str | None) -> None:
        """The same, in every process on the store."""
        await self._parts.active_spaces.enter(self, space)

    def find_value(self, value_type: type[T]) -> T | None:
        """The first value of a type that this scope or an outer one offers."""
        return next((value for value in self.offered_values if isinstance(value, value_type)), None)


def _run(invocation: Invocation) -> Coroutine[Any, Any, Outcome]:
    """Run a call through the stack of its tool, in its own scope."""
    return invocation.scope.stack_for_call(invocation)(invocation)
