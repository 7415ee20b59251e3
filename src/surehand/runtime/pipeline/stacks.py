"""Stacks: the built pipelines of a runtime's tools, each built when its tool is first called."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from surehand.core.call import CURRENT_ALLOWED_PATHS
from surehand.core.errors import Unavailable
from surehand.core.outcome import Failed, Outcome
from surehand.core.tool import Tool
from surehand.runtime.invocation.invocation import CallScope, Invocation, NextStage
from surehand.runtime.pipeline.pipeline import CallStages, StackPlan, Stage, build_stack

if TYPE_CHECKING:
    from surehand.catalogue.catalogue import Catalogue
    from surehand.catalogue.listing import Listing
    from surehand.runtime.offered_tools import OfferedTools, SessionTools
    from surehand.runtime.pipeline.refused_calls import RefusedCalls
    from surehand.runtime.policy import ActivePolicy
    from surehand.runtime.providers import ProviderTable
    from surehand.runtime.running_calls import RunningCalls

log = logging.getLogger("surehand")


class BuiltStacks:
    """All stacks of a runtime that were built, so that a change of tools, policy or middleware can discard them."""

    def __init__(self) -> None:
        self._tables: WeakSet[StackTable] = WeakSet()

    def add(self, table: StackTable) -> None:
        """Discard the stacks of a table, too."""
        self._tables.add(table)

    def discard_all(self) -> None:
        """Drop all stacks, so that each is built again on its next call; running calls end on the old ones."""
        for table in list(self._tables):
            table.clear()


@dataclass(frozen=True, slots=True)
class StackVariant:
    """For which calls a stack is built: other calls leave out other stages."""

    is_recallable: bool
    has_budget: bool
    has_space: bool
    has_session: bool


class StackBuilder:
    """Builds the stack of a tool, and finds the one that refuses a name."""

    def __init__(
        self,
        catalogue: Catalogue,
        offered_tools: OfferedTools,
        provider_table: ProviderTable,
        policy: ActivePolicy,
        *,
        running: RunningCalls,
        load_stages: Callable[[], CallStages],
        load_refused_calls: Callable[[], RefusedCalls],
    ) -> None:
        self.catalogue = catalogue
        self.offered_tools = offered_tools
        self.provider_table = provider_table
        self.running = running
        self._policy = policy
        self._load_stages = load_stages
        self.load_refused_calls = load_refused_calls

    def build(self, listing: Listing, variant: StackVariant, toolsets: tuple[str, ...] = ()) -> NextStage:
        """Build a new stack for a listing, in a scope that is limited to toolsets."""
        if not self.running.is_open:
            return refuse_closed_runtime
        stages = self._load_stages()
        policy = self._policy.current
        planned = listing if policy.trust_annotations else listing.without_annotations()
        plan = StackPlan(
            planned,
            policy.rules_for(planned),
            variant.is_recallable,
            variant.has_budget,
            variant.has_space,
            variant.has_session,
        )
        if self._is_outside_toolset(listing, toolsets):
            return build_stack(plan, (*stages.outer, _refuse_outside_toolset(toolsets)))
        return build_stack(plan, stages.all)

    def _is_outside_toolset(self, listing: Listing, toolsets: tuple[str, ...]) -> bool:
        """Whether the scope's toolset forbids a tool; the tools that the scope itself has are allowed."""
        if not toolsets or self.catalogue.find(listing.name) is not listing:
            return False
        return not self.catalogue.is_in_toolsets(listing, toolsets)

    def build_refusal(self, listing: Listing, problem: str) -> NextStage:
        """A stack that refuses every call of a tool whose own stack could not be built."""
        refused_calls = self.load_refused_calls()

        async def refuse(invocation: Invocation) -> Outcome:
            invocation.listing = listing
            return await refused_calls.report(invocation, Failed("unavailable", problem))

        return refuse


class StackTables:
    """The tables of stacks of a runtime: a shared one, and others for scopes with tools or toolsets of their own."""

    def __init__(self, builder: StackBuilder, built_stacks: BuiltStacks) -> None:
        self._builder = builder
        self._built_stacks = built_stacks
        self.shared = self._new_table(None, ())
        """The stacks of the runtime's own tools."""
        self._by_toolsets: dict[tuple[str, ...], StackTable] = {}
        self._by_own_catalogue: WeakValueDictionary[tuple[Catalogue, tuple[str, ...]], StackTable] = (
            WeakValueDictionary()
        )
        self._by_session: WeakKeyDictionary[SessionTools, StackTable] = WeakKeyDictionary()

    def for_scope(self, own_catalogue: Catalogue | None, toolsets: tuple[str, ...]) -> StackTable:
        """The stacks for a scope: those for own tools live as long as a scope with them, all others as the runtime."""
        if own_catalogue is not None:
            key = (own_catalogue, toolsets)
            table = self._by_own_catalogue.get(key)
            if table is None:
                table = self._by_own_catalogue[key] = self._new_table(own_catalogue, toolsets)
            return table
        if not toolsets:
            return self.shared
        if toolsets not in self._by_toolsets:
            self._by_toolsets[toolsets] = self._new_table(None, toolsets)
        return self._by_toolsets[toolsets]

    def for_session(self, tools: SessionTools) -> StackTable:
        """The stacks for the tools that a session offers; they live as long as these."""
        table = self._by_session.get(tools)
        if table is None:
            table = self._by_session[tools] = self._new_table(tools.catalogue, ())
        return table

    def _new_table(self, own_catalogue: Catalogue | None, toolsets: tuple[str, ...]) -> StackTable:
        table = StackTable(self, self._builder, own_catalogue, toolsets)
        self._built_stacks.add(table)
        return table


class StackTable:
    """Sets of stacks: for calls that are recallable or not, with or without a budget, a space and a session."""

    def __init__(
        self, tables: StackTables, builder: StackBuilder, own_catalogue: Catalogue | None, toolsets: tuple[str, ...]
    ) -> None:
        self._stacks = {
            flags: Stacks(StackVariant(*flags), tables, builder, own_catalogue, toolsets)
            for flags in product((False, True), repeat=4)
        }

    def get(self, scope: CallScope, *, is_recallable: bool) -> Stacks:
        """The stacks for the calls of a scope."""
        principal = scope.principal
        has_budget = scope.budget is not None
        return self._stacks[is_recallable, has_budget, principal.space is not None, principal.session is not None]

    def clear(self) -> None:
        """Drop all stacks; each is built again on its next call."""
        for stacks in self._stacks.values():
            stacks.clear()


class Stacks(dict[str, NextStage]):
    """Stacks by every name that was called; an unknown name gets the stack that refuses it."""

    def __init__(
        self,
        variant: StackVariant,
        tables: StackTables,
        builder: StackBuilder,
        own_catalogue: Catalogue | None,
        toolsets: tuple[str, ...],
    ) -> None:
        super().__init__()
        self._variant = variant
        self._tables = tables
        self._builder = builder
        self._own_catalogue = own_catalogue
        self._toolsets = toolsets

    def __missing__(self, name: str) -> NextStage:
        if not self._builder.running.is_open:
            return refuse_closed_runtime
        if isinstance(name, Tool):  # callers may pass the tool itself
            return self[name.name]
        if not isinstance(name, str):  # models send values of any type
            return self.refuse_unknown_tool  # type: ignore[unreachable]
        if self._find_listing(name) is None and self._builder.offered_tools.has_name(name):
            return self.run_offered_tool  # only some sessions have it, and these stacks serve all of them
        listing = self._resolve_listing(name)
        if listing is None:
            return self.refuse_unknown_tool
        if listing.name != name and listing.name in self:
            stack = self[listing.name]
        else:
            try:
                stack = self.build_for(listing)
            except Exception as error:
                log.exception("The pipeline of %s could not be built", listing.name)
                return self._builder.build_refusal(listing, f"{listing.name} cannot be called: {error}")
        self[listing.name] = stack
        if self._find_listing(name) is listing:  # do not cache misspelt names: there is no end of them
            self[name] = stack
        return stack

    def _find_listing(self, name: str) -> Listing | None:
        """Find an exact name; the scope's own tools come first."""
        own = self._own_catalogue.find(name) if self._own_catalogue is not None else None
        return own or self._builder.catalogue.find(name)

    def _resolve_listing(self, name: str) -> Listing | None:
        own = self._own_catalogue.resolve(name) if self._own_catalogue is not None else None
        return self._find_listing(name) or own or self._builder.catalogue.resolve(name)

    def build_for(self, listing: Listing) -> NextStage:
        """Build a new stack for a listing."""
        return self._builder.build(listing, self._variant, self._toolsets)

    async def run_offered_tool(self, invocation: Invocation) -> Outcome:
        """Run a tool that the call's session offers; for any other session its name is like one never offered."""
        scope = invocation.scope
        name = invocation.requested_name
        offered = self._builder.offered_tools.table_for(scope.principal)
        if offered is not None and offered.catalogue.find(name) is not None:
            stacks = self._tables.for_session(offered).get(scope, is_recallable=self._variant.is_recallable)
            return await stacks[name](invocation)
        listing = self._resolve_listing(name)
        return await (self.refuse_unknown_tool if listing is None else self[listing.name])(invocation)

    async def refuse_unknown_tool(self, invocation: Invocation) -> Outcome:
        """Fail an unknown name, after asking the provider of its namespace, which may have gained the tool."""
        builder = self._builder
        name = invocation.requested_name
        provider_problem: str | None = None
        if invocation.scope.has_session and isinstance(name, str):
            await builder.offered_tools.load_session(invocation.principal)
            if builder.offered_tools.find(name, invocation.principal) is not None:
                return await self.run_offered_tool(invocation)
        if builder.provider_table.active and isinstance(name, str):
            try:
                await builder.provider_table.refresh_for_tool(name, invocation.principal)
            except Unavailable as error:
                provider_problem = str(error)
            else:
                if self._resolve_listing(name) is not None:
                    return await self[name](invocation)
        return await builder.load_refused_calls().refuse_unknown_tool(invocation, provider_problem)


class LimitedStacks:
    """The stacks of a scope with `allowed_paths`: while one of them runs, workspaces show only these folders."""

    def __init__(self, stacks: Stacks, allowed_paths: tuple[str, ...]) -> None:
        self._stacks = stacks
        self._allowed_paths = allowed_paths
        self.refuse_unknown_tool: NextStage = stacks.refuse_unknown_tool

    def __getitem__(self, name: str) -> NextStage:
        return limit_to_paths(self._stacks[name], self._allowed_paths)


def limit_to_paths(stack: NextStage, allowed_paths: tuple[str, ...]) -> NextStage:
    """A stack that runs while workspaces show only these folders."""

    async def run(invocation: Invocation) -> Outcome:
        token = CURRENT_ALLOWED_PATHS.set(allowed_paths)
        try:
            return await stack(invocation)
        finally:
            CURRENT_ALLOWED_PATHS.reset(token)

    return run


async def refuse_closed_runtime(invocation: Invocation) -> Outcome:
    """The stack of every tool while the runtime is closed."""
    return Failed("unavailable", "The runtime is not running. Use `async with Runtime(...) as runtime:`.")


def _refuse_outside_toolset(toolsets: tuple[str, ...]) -> Stage:
    """A stage that refuses a tool which is not among those that the scope may call."""
    allowed = " and ".join(map(repr, toolsets))

    def stage(plan: StackPlan, proceed: NextStage) -> NextStage:
        problem = f"{plan.listing.name} is not allowed here: it is not in the toolset {allowed} of this scope."

        async def refuse(invocation: Invocation) -> Outcome:
            return Failed("denied", problem)

        return refuse

    return stage
