"""Scope: the verbs for calling tools, for one user, session or turn. The runtime is the outermost scope."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.core.call import Arguments, Call, Principal
from surehand.core.durations import parse_duration
from surehand.core.events import CallEnded, Event, Listener
from surehand.core.outcome import Failed, Outcome
from surehand.core.provider import Provider
from surehand.core.tool import Tool
from surehand.runtime.limits.budget import Budget
from surehand.runtime.limits.queues import QueueStatus
from surehand.runtime.listeners import EventBuffer, stream_events
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.services import RuntimeServices
from surehand.runtime.stats import Stats

if TYPE_CHECKING:
    from surehand.catalogue.describe import ToolDescriptions
    from surehand.runtime.durability.call_record import RecordTemplate
    from surehand.runtime.pending.pending_call import PendingCall
    from surehand.runtime.pending.status import CallStatus
    from surehand.store.tables.grants import Grant

T = TypeVar("T")
_new_object = object.__new__
_PRINCIPAL_FIELDS = ("agent", "session", "message", "task", "user", "space", "turn")


class Scope:
    """A view of a runtime: for whom calls are made, what they may use, and what they may spend."""

    def __init__(
        self,
        services: RuntimeServices,
        principal: Principal,
        *,
        values: tuple[Any, ...] = (),
        budget: Budget | None = None,
        state: dict[str, Any] | None = None,
        own_catalogue: Catalogue | None = None,
    ) -> None:
        self.services, self.principal, self.budget = services, principal, budget
        self._offered_values, self._own_catalogue = values, own_catalogue
        self.principal_fields: dict[str, str | None] = {name: getattr(principal, name) for name in _PRINCIPAL_FIELDS}
        """For whom calls are made, as the fields of a `Call`."""
        self.record_templates: dict[Listing, RecordTemplate] = {}
        """Rows of calls that are remembered, by tool."""
        self.stack_table = services.stack_table if own_catalogue is None else services.stack_table_for(own_catalogue)
        self.state = services.session_state(principal) if state is None else state
        self._stacks = self.stack_table.get(self, is_recallable=False)

    # Calling

    def call(
        self, name: str, arguments: Arguments = None, *, timeout: float | str | None = None, call_id: str | None = None
    ) -> Coroutine[Any, Any, Outcome]:
        """Run a tool: Done, Failed or Pending. Raises only when the caller itself is cancelled."""
        # Not `async def`: the stack's own coroutine is what is awaited, and one layer less is a tenth of a call.
        invocation = _new_object(
            Invocation
        )  # without `__init__`, which would cost as much again as the rest of this method
        invocation.scope, invocation.requested_name, invocation.raw_arguments = self, name, arguments
        if timeout is None and call_id is None:
            try:
                stack = self._stacks[name]
            except TypeError:  # models send anything, a list for a name too
                stack = self._stacks.refuse_unknown_tool
            return stack(invocation)
        try:
            invocation.caller_timeout = parse_duration(timeout) if timeout is not None else None
        except ValueError as error:
            return invalid_call(f"{error} Write 30, '30s' or 'off'.")
        if call_id is not None:
            invocation.assigned_id, invocation.has_given_id = call_id, True
        return self.services.stack_for_call(invocation)(invocation)

    async def run_invocation(self, invocation: Invocation) -> Outcome:
        """Send an invocation through its stack."""
        return await self.services.stack_for_call(invocation)(invocation)

    async def call_many(self, calls: Iterable[Call]) -> list[Outcome]:
        """Run calls in parallel; outcomes come in the order of the calls."""
        return await asyncio.gather(*(self._run_call(call) for call in calls))

    async def _run_call(self, call: Call) -> Outcome:
        try:
            invocation = self._build_invocation(call)
        except TypeError as error:
            return await invalid_call(str(error))
        return await self.run_invocation(invocation)

    def _build_invocation(self, call: Call) -> Invocation:
        own = {name: value for name in _PRINCIPAL_FIELDS if (value := getattr(call, name)) is not None}
        for name in ("user", "session"):  # whom a scope stands for, no call inside it can change
            if getattr(self.principal, name) is not None:
                own.pop(name, None)
        invocation = Invocation(self.scope(**own) if own else self, call.tool, call.arguments)
        invocation.parent, invocation.model_id = call.parent, call.model_id
        if call.id is not None:
            invocation.assigned_id, invocation.has_given_id = call.id, True
        return invocation

    async def dispatch(self, name: str, arguments: Arguments = None, *, timeout: float | None = None) -> Outcome:
        """Run any tool by name or alias as a person does; validation, policy and confirmation apply."""
        invocation = Invocation(self, name, arguments)
        invocation.caller_timeout, invocation.is_dispatched = timeout, True
        return await self.run_invocation(invocation)

    async def stream(
        self, name: str, arguments: Arguments = None, *, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        """The events of one call; the last is `CallEnded`. Leaving the loop cancels the call."""
        invocation = Invocation(self, name, arguments)
        invocation.caller_timeout = timeout
        buffer, wanted = EventBuffer(), invocation.id
        unsubscribe = self.services.listeners.listen(
            lambda event: buffer.put(event) if getattr(event, "call_id", None) == wanted else None
        )
        task = asyncio.create_task(self.run_invocation(invocation))
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
        """Let a waiting call run, perhaps with edited arguments; its outcome.

        With `round`, only in answer to that one of its questions: a `conflict` if another one is open by now.
        """
        answers = self.services.decisions
        return await answers.approve(self, call_id, always=always, arguments=arguments, by=by, round=round)

    async def reject(
        self, call_id: str, reason: str = "", *, by: str | None = None, round: int | None = None
    ) -> Outcome:
        """Do not let a waiting call run; its outcome. `round` is as in `approve`."""
        return await self.services.decisions.reject(self, call_id, reason=reason, by=by, round=round)

    async def settle(
        self, call_id: str, result: Any = None, *, by: str | None = None, round: int | None = None
    ) -> Outcome:
        """Answer a waiting call with a value, a Done or a Failed; its outcome. `round` is as in `approve`."""
        return await self.services.decisions.settle(self, call_id, result, by=by, round=round)

    async def pending(self) -> list[PendingCall]:
        """The calls that wait for somebody."""
        return await self.services.pending_calls.list_for(self.principal)

    async def status(self, call_id: str) -> CallStatus | None:
        """How a call that is remembered stands: those with an id of their own, and those that have waited."""
        from surehand.runtime.pending.status import find_call_status  # loaded by those alone who ask

        return await find_call_status(self.services, call_id, self.principal)

    async def cancel(self, call_id: str | None = None, *, by: str | None = None) -> bool:
        """Stop a call, or all calls of this scope's user and session; false if there was none."""
        running = [
            each for each in self.services.running_calls if self._can_see(each) and call_id in (None, each.assigned_id)
        ]
        for invocation in running:
            invocation.interrupt("cancelled", f"{invocation.tool_name} was cancelled.")
        waiting = await self._pending_call_ids() if call_id is None else [call_id]
        told = "the call was cancelled while it waited."
        ended = [
            await self.services.decisions.end_without_answer(self, each, "cancelled", told, by) for each in waiting
        ]
        return bool(running) or any(isinstance(each, Failed) and each.code == "cancelled" for each in ended)

    async def _pending_call_ids(self) -> list[str]:
        """Calls that wait, and those that were answered and have not been taken up yet."""
        if self.services.store is None:
            return []
        return [wait.call_id for wait in await self.services.pending_calls.list_for(self.principal, grace_seconds=0.0)]

    async def grants(self) -> list[Grant]:
        """The standing approvals of this scope's user, or everybody's where it is for no user in particular."""
        store = self.services.store
        return [] if store is None else await store.grants.list_grants(self.principal.user)

    async def revoke(self, tool: str, *, by: str | None = None) -> bool:
        """Take back this user's, or everybody's, standing approvals of a tool: its next call asks; false for none."""
        listing, store = self.find(tool), self.services.store
        name = tool if listing is None else listing.name
        return store is not None and await store.grants.revoke(name, self.principal.user, by) > 0

    def _can_see(self, invocation: Invocation) -> bool:
        mine, theirs = self.principal, invocation.principal
        return mine.user in (None, theirs.user) and mine.session in (None, theirs.session)

    # Looking

    @property
    def catalogue(self) -> Catalogue:
        """What tools there are."""
        return self.services.catalogue

    def describe(self, format: str = "openai", *, toolset: str | None = None) -> ToolDescriptions:
        """What a model API wants to be shown of the tools; a scope's own come first."""
        hidden = self.hidden_tool_names()
        if self._own_catalogue is None:
            return self.services.catalogue.describe(
                format, toolset=toolset, workspace=self.services.workspace, hide=hidden
            )
        own = self._own_catalogue.describe(format, workspace=self.services.workspace)
        hidden |= frozenset(listing.name for listing in self._own_catalogue)
        rest = self.services.catalogue.describe(format, toolset=toolset, workspace=self.services.workspace, hide=hidden)
        own.extend(rest)
        own.left_out.update(rest.left_out)
        return own

    def hidden_tool_names(self) -> frozenset[str]:
        """The tools that are another user's alone, by name."""
        if not any(provider.is_per_user for provider in self.services.active_providers):
            return frozenset()
        theirs = ((each.name, each.tool.name, each.provider) for each in self.catalogue)
        return frozenset(name for name, own, by in theirs if by is not None and by.is_hidden_from(self.principal, own))

    async def load_user_tools(self) -> dict[str, str]:
        """Ask providers what they offer this user alone, where that is not known yet; `describe` cannot ask.

        Gives the namespaces of those that did not say, each with the reason.
        """
        return await self.services.provider_table.load_user_tools(self.principal)

    async def refresh(self, *namespaces: str) -> None:
        """Ask providers again what they offer: those of the given namespaces, or all. Raises for one that is away.

        A user's scope asks in that user's name.
        """
        await self.services.provider_table.refresh(namespaces, self.principal)

    def find(self, name: str) -> Listing | None:
        """The tool of that name: the scope's own, then the runtime's."""
        return (
            self._own_catalogue.find(name) if self._own_catalogue is not None else None
        ) or self.services.catalogue.find(name)

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call back for every event; the returned function ends that."""
        return self.services.listeners.listen(callback)

    def events(self) -> AsyncIterator[Event]:
        """Every event from now on; a reader that is too slow gets `Missed`."""
        return stream_events(self.services.listeners)

    def complete(self, outcome: Outcome) -> None:
        """Tell that a call has ended, where `auto_complete=False` leaves that to its caller."""
        meta = outcome.meta
        self.services.listeners.emit(CallEnded(meta.call_id, meta.tool, outcome, self.services.clock.time()))

    def queues(self) -> dict[str, QueueStatus]:
        """How full each queue is."""
        return {name: line.status for name, line in self.services.queues.items()}

    def stats(self) -> Stats:
        """How often tools were called, and how that went."""
        parts = self.services
        calls = {name: replace(counter) for name, counter in parts.stats_by_tool.items() if counter.count}
        return Stats(
            len(parts.catalogue), parts.catalogue.categories(), calls, len(parts.running_calls), parts.threads.abandoned,
            parts.pending_calls.open_count if parts.store is not None else 0, parts.outputs.stored_count,
        )  # fmt: skip

    def instructions(self) -> str:
        """What all providers want a model to know, combined."""
        known = [listing.provider for listing in self.catalogue if listing.provider]
        providers = dict.fromkeys([*known, *self.services.active_providers])
        told = [(provider.namespace, self._provider_instructions(provider)) for provider in providers]
        return "\n\n".join(f"## {name}\n{text}" if name else text for name, text in told if text)

    def _provider_instructions(self, provider: Provider) -> str:
        """Its own words, and what a model need not try."""
        why, redact = self.services.unavailable_providers.get(provider.namespace), self.services.redact
        away = f"Its tools are not available now: {why}" if why else ""
        told = "\n\n".join(text for text in (provider.instructions_for(self.principal), away) if text)
        return redact(told) if redact else told

    # Narrowing

    def scope(
        self,
        *values: Any,
        tools: Iterable[Tool[..., Any]] = (),
        max_tokens: int | None = None,
        max_calls: int | None = None,
        **principal_fields: Any,
    ) -> Scope:
        """A narrower view: for whom (agent, session, message, task, user, space, turn), with what, for how much.

        `values` are offered to `use(...)`; `tools` are its own and come before the runtime's.
        """
        if unknown := principal_fields.keys() - set(_PRINCIPAL_FIELDS):
            raise TypeError(f"A scope has no {', '.join(sorted(unknown))}. It takes {', '.join(_PRINCIPAL_FIELDS)}.")
        for name, value in principal_fields.items():
            if value is not None and not isinstance(value, str):
                raise TypeError(f"The {name} of a scope is a text, not {type(value).__name__}.")
        principal, offered = replace(self.principal, **principal_fields), (*values, *self._offered_values)
        budget = self.budget
        if max_tokens is not None or max_calls is not None:
            budget = Budget(max_tokens, max_calls)
        elif budget is None or budget.is_default:
            budget = self.services.turn_budgets.get(principal)
        state = None if "session" in principal_fields or "user" in principal_fields else self.state
        return Scope(
            self.services,
            principal,
            values=offered,
            budget=budget,
            state=state,
            own_catalogue=self._catalogue_with(tools),
        )

    def _catalogue_with(self, tools: Iterable[Tool[..., Any]]) -> Catalogue | None:
        """This scope's own tools and some more, which come first."""
        added = list(tools)
        if not added:
            return self._own_catalogue
        for tool in added:
            tool.require_runner()
        catalogue = Catalogue(check=self.services.validate_tool)
        catalogue.add(*(listing.tool for listing in self._own_catalogue or ()))
        catalogue.add(*added, on_conflict="replace")
        return catalogue

    def find_value(self, value_type: type[T]) -> T | None:
        """The nearest value of a type."""
        return next((value for value in self._offered_values if isinstance(value, value_type)), None)


async def _next_event(buffer: EventBuffer, task: asyncio.Task[Outcome], invocation: Invocation) -> Event:
    """The next event, or the end of a call whose end nobody else tells."""
    waiting = asyncio.ensure_future(buffer.get())
    try:
        await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        if (event := buffer.get_nowait()) is not None:
            return event
        return CallEnded(invocation.id, invocation.tool_name, task.result(), 0.0)
    finally:
        waiting.cancel()


async def invalid_call(problem: str) -> Outcome:
    """The outcome of a call that was made wrongly."""
    return Failed("invalid_arguments", problem)
