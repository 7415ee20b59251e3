"""Stacks: the built pipelines of a runtime's tools, each built when its tool is first called."""

from __future__ import annotations

import logging
from itertools import product
from typing import TYPE_CHECKING

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.core.call import CURRENT_ALLOWED_PATHS
from surehand.core.errors import Unavailable
from surehand.core.outcome import Failed, Outcome
from surehand.core.tool import Tool
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.pipeline.pipeline import NextStage, StackPlan, Stage, build_stack

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope
    from surehand.runtime.services import RuntimeServices

log = logging.getLogger("surehand")


class Stacks(dict[str, NextStage]):
    """Stacks by every name that was called; an unknown name gets the stack that refuses it."""

    def __init__(
        self,
        services: RuntimeServices,
        own_catalogue: Catalogue | None,
        toolsets: tuple[str, ...],
        *,
        is_recallable: bool,
        has_budget: bool,
        has_space: bool,
        has_session: bool,
    ) -> None:
        super().__init__()
        self._services = services
        self._own_catalogue = own_catalogue
        self._toolsets = toolsets
        self._is_recallable = is_recallable
        self._has_budget = has_budget
        self._has_space = has_space
        self._has_session = has_session

    def __missing__(self, name: str) -> NextStage:
        if not self._services.is_open:
            return _refuse_closed_runtime
        if isinstance(name, Tool):  # callers may pass the tool itself
            return self[name.name]
        if not isinstance(name, str):  # models send values of any type
            return self.refuse_unknown_tool  # type: ignore[unreachable]
        if self._find_listing(name) is None and self._services.offered_tools.has_name(name):
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
                return _build_refusal(listing, f"{listing.name} cannot be called: {error}")
        self[listing.name] = stack
        if self._find_listing(name) is listing:  # do not cache misspelt names: there is no end of them
            self[name] = stack
        return stack

    def _find_listing(self, name: str) -> Listing | None:
        """Find an exact name; the scope's own tools come first."""
        own = self._own_catalogue.find(name) if self._own_catalogue is not None else None
        return own or self._services.catalogue.find(name)

    def _resolve_listing(self, name: str) -> Listing | None:
        own = self._own_catalogue.resolve(name) if self._own_catalogue is not None else None
        return self._find_listing(name) or own or self._services.catalogue.resolve(name)

    def build_for(self, listing: Listing) -> NextStage:
        """Build a new stack for a listing."""
        # Loads all stages, which no import of a runtime needs.
        from surehand.runtime.pipeline.stages import STAGES
        from surehand.runtime.pipeline.stages.middleware import outer_middleware
        from surehand.runtime.pipeline.stages.record import record

        if not self._services.is_open:
            return _refuse_closed_runtime
        trusts_annotations = self._services.policy.trust_annotations
        plan_listing = listing if trusts_annotations else listing.without_annotations()
        plan = StackPlan(
            plan_listing, self._services, self._is_recallable, self._has_budget, self._has_space, self._has_session
        )
        if self._is_outside_toolset(listing):
            return build_stack(plan, (record, outer_middleware, _refuse_outside_toolset(self._toolsets)))
        return build_stack(plan, STAGES)

    def _is_outside_toolset(self, listing: Listing) -> bool:
        """Whether the scope's toolset forbids a tool; the tools that the scope itself has are allowed."""
        if not self._toolsets or self._services.catalogue.find(listing.name) is not listing:
            return False
        return not self._services.catalogue.is_in_toolsets(listing, self._toolsets)

    async def run_offered_tool(self, invocation: Invocation) -> Outcome:
        """Run a tool that the call's session offers; for any other session its name is like one never offered."""
        scope = invocation.scope
        name = invocation.requested_name
        offered = self._services.offered_tools.table_for(scope.principal)
        if offered is not None and offered.catalogue.find(name) is not None:
            stacks = offered.stack_table.get(scope, is_recallable=self._is_recallable)
            return await stacks[name](invocation)
        listing = self._resolve_listing(name)
        return await (self.refuse_unknown_tool if listing is None else self[listing.name])(invocation)

    async def refuse_unknown_tool(self, invocation: Invocation) -> Outcome:
        """Fail an unknown name, after asking the provider of its namespace, which may have gained the tool."""
        services = self._services
        name = invocation.requested_name
        provider_problem: str | None = None
        if services.is_durable and invocation.scope.has_session and isinstance(name, str):
            await services.offered_tools.load_session(invocation.principal)
            if services.offered_tools.find(name, invocation.principal) is not None:
                return await self.run_offered_tool(invocation)
        if services.active_providers and isinstance(name, str):
            try:
                await services.provider_table.refresh_for_tool(name, invocation.principal)
            except Unavailable as error:
                provider_problem = str(error)
            else:
                if self._resolve_listing(name) is not None:
                    return await self[name](invocation)
        # Loaded by the first unknown name.
        from surehand.runtime.pipeline.stages.middleware import OuterMiddleware, wrap_all
        from surehand.runtime.pipeline.unknown_tool import unknown_tool_failure

        async def proceed(invocation: Invocation) -> Outcome:
            return await unknown_tool_failure(services, invocation, provider_problem)

        installed = [each.wrapper for each in services.middleware if each.applies_to([invocation.tool_name])]
        wrappers = [wrapper for wrapper in installed if isinstance(wrapper, OuterMiddleware)]
        return await wrap_all(wrappers, proceed, services)(invocation)


class StackTable:
    """Sets of stacks: for calls that are recallable or not, with or without a budget, a space and a session."""

    def __init__(
        self, services: RuntimeServices, own_catalogue: Catalogue | None = None, toolsets: tuple[str, ...] = ()
    ) -> None:
        self._stacks = {
            (recallable, budget, space, session): Stacks(
                services,
                own_catalogue,
                toolsets,
                is_recallable=recallable,
                has_budget=budget,
                has_space=space,
                has_session=session,
            )
            for recallable, budget, space, session in product((False, True), repeat=4)
        }

    def get(self, scope: Scope, *, is_recallable: bool) -> Stacks:
        """The stacks for the calls of a scope."""
        principal = scope.principal
        has_budget = scope.budget is not None
        return self._stacks[is_recallable, has_budget, principal.space is not None, principal.session is not None]

    def clear(self) -> None:
        """Drop all stacks; each is built again on its next call."""
        for stacks in self._stacks.values():
            stacks.clear()


async def _refuse_closed_runtime(invocation: Invocation) -> Outcome:
    return Failed("unavailable", "The runtime is not running. Use `async with Runtime(...) as runtime:`.")


def _build_refusal(listing: Listing, problem: str) -> NextStage:
    """A stack that refuses every call of a tool whose own stack could not be built."""
    from surehand.runtime.pipeline.unknown_tool import report_refusal  # loaded by the first refused call

    async def refuse(invocation: Invocation) -> Outcome:
        invocation.listing = listing
        return await report_refusal(invocation, Failed("unavailable", problem))

    return refuse


def _refuse_outside_toolset(toolsets: tuple[str, ...]) -> Stage:
    """A stage that refuses a tool which is not among those that the scope may call."""
    allowed = " and ".join(map(repr, toolsets))

    def stage(plan: StackPlan, proceed: NextStage) -> NextStage:
        problem = f"{plan.listing.name} is not allowed here: it is not in the toolset {allowed} of this scope."

        async def refuse(invocation: Invocation) -> Outcome:
            return Failed("denied", problem)

        return refuse

    return stage


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
